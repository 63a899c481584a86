"""A small net and its training loop, for tests of `ggmc.optim`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ggmc import optim

F64 = torch.float64
N = 20
BATCHES = torch.randn(5, N, 3, dtype=F64, generator=torch.Generator().manual_seed(0))


def net(seed: int = 0, dtype: torch.dtype = F64) -> nn.Sequential:
    """A net of 21 parameters."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(dtype)


def loss(module: nn.Module, k: int) -> Tensor:
    """The mean over a batch."""
    x = BATCHES[k % len(BATCHES)].to(next(module.parameters()).dtype)
    return ((module(x) - x.sum(1, keepdim=True)) ** 2).mean()


def compute_gradient(module: nn.Module, optimiser: Any, k: int) -> None:
    """Of one batch."""
    optimiser.zero_grad()
    loss(module, k).backward()


def steps(module: nn.Module, optimiser: Any, number: int, first: int = 0) -> None:
    """An ordinary training loop."""
    for k in range(first, first + number):
        compute_gradient(module, optimiser, k)
        optimiser.step()


def values(module: nn.Module) -> Tensor:
    """All parameters in a row."""
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def total(module: nn.Module) -> Callable[[], Tensor]:
    """The loss summed over all data."""
    return lambda: N * loss(module, 0)


def ggmc(module: Any, **changes: Any) -> optim.GGMC:
    """With settings that suit the net."""
    return optim.GGMC(module, **{"lr": 0.01, "momentum": 0.9, "num_data": N, "seed": 0} | changes)


def halves(module: nn.Sequential, *settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The net's two layers as two parameter groups, in the order of its parameters."""
    layers = (module[0], module[2])
    return [{"params": list(layer.parameters()), **own} for layer, own in zip(layers, settings, strict=True)]
