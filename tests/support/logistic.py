"""Logistic regression on a few examples, by hand: a target with data whose potential can be written down."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import ggmc

F64 = torch.float64


def log_prior(w: Tensor) -> Tensor:
    return -(w**2).sum() / 2


def log_likelihood(w: Tensor, batch: Any) -> Tensor:
    x, s = batch
    return nn.functional.logsigmoid(s * (x @ w))


def examples(number: int = 103, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(number, 3, generator=generator)
    return x.to(dtype), torch.sign(torch.randn(number, generator=generator)).to(dtype)


def logistic(number: int = 103, dtype: torch.dtype = F64, **options: Any) -> ggmc.DataDensity:
    start = torch.zeros(3, dtype=dtype)
    return ggmc.DataDensity(log_prior, log_likelihood, examples(number, dtype), start, **options)


def rows(chains: int = 4, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(chains, 3, generator=torch.Generator().manual_seed(1)).to(dtype)


def direct(position: Tensor) -> Tensor:
    """The potential of `logistic()`, by its definition."""
    return torch.stack([-(log_prior(w) + log_likelihood(w, examples()).sum()) for w in position])


def decisions(stop: bool, draws: int = 150) -> Tensor:
    """Where the chains go with steps so long that many are rejected, and whether the sums may stop."""
    target = logistic(400, bound=0.0)
    kernel = ggmc.GGMC(0.1, 0.5, guide=ggmc.Minibatch(100, "iid"), steps=4, mass=[2.0, 1.0, 3.0])
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.early_stop = stop
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(2, 3, dtype=F64), generator)
    seen = []
    for _ in range(draws):
        state, info = sampler.step(state, sampler.parameters, generator)
        seen.append(torch.cat([state.position.flatten(), state.potential, info.accepted.double()]))  # pyright: ignore
    return torch.stack(seen)
