"""Small posteriors and the parts they are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

import ggmc
from ggmc.bayes import likelihoods, nets, priors

F64 = torch.float64
NORMAL = priors.Gaussian(1.0)


def inputs(number: int = 12, width: int = 2, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(number, width, dtype=F64, generator=torch.Generator().manual_seed(0)).to(dtype)


def outcomes(number: int = 12) -> Tensor:
    return torch.randn(number, dtype=F64, generator=torch.Generator().manual_seed(1))


def labels(number: int = 12, classes: int = 2) -> Tensor:
    return torch.arange(number) % classes


X, Y, LABELS = inputs(dtype=torch.float32), outcomes().float(), labels()
QUICK: dict[str, Any] = {"draws": 8, "warmup": 8, "chains": 2, "progress": False}


def line(outputs: int = 1) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(2, outputs).double()


def regression(number: int = 30) -> tuple[Tensor, Tensor]:
    x = torch.linspace(-1, 1, number, dtype=F64)[:, None]
    return x, torch.sin(3 * x) + 0.1 * torch.randn(x.shape, dtype=F64, generator=torch.Generator().manual_seed(0))


def small_net() -> nn.Module:
    torch.manual_seed(0)
    return nets.MLP([1, 5, 1], nn.Tanh).double()


def posterior(**options: Any) -> ggmc.Posterior:
    """Of a small network on a sine, unless said otherwise."""
    module = options.pop("module", None) or small_net()
    likelihood = options.pop("likelihood", likelihoods.Gaussian(0.2))
    prior = options.pop("prior", NORMAL)
    return ggmc.Posterior(module, likelihood, prior, *options.pop("data", regression()), **options)


def dropping(p: float = 0.5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Dropout(p), nn.Linear(8, 1)).double()


def normalising(**options: Any) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, **options), nn.Linear(4, 1)).double()


def rows_of(target: ggmc.Posterior, number: int = 3, spread: float = 0.5) -> Tensor:
    noise = torch.randn(number, target.layout.size, dtype=F64, generator=torch.Generator().manual_seed(2))
    return target.start + spread * noise.to(target.dtype)


@functools.cache
def line_trace() -> ggmc.Trace:
    """A run of a straight line through `regression()`, whose posterior is known in closed form."""
    module = nn.Linear(1, 1).double()
    return ggmc.sample(posterior(module=module), draws=200, warmup=300, chains=4, progress=False)


class Examples(Dataset[Any]):
    """A map-style data set that calls a function."""

    def __init__(self, function: Callable[[int], Any], number: int = 12):
        self.function, self.number = function, number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, i: int) -> Any:
        return self.function(i)
