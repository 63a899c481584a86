"""What tests of kernels share: a small target with data, and the first state of some chains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.state import State
from ggmc.kernels import Kernel, Step
from ggmc.targets.base import Target

F64 = torch.float64
MASS = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64)


def quartic_with_data(dtype: torch.dtype = F64) -> ggmc.DataDensity:
    """U = Σ (x⁴/4 + x) in two dimensions, the quartic part shared out over five examples."""
    shares = torch.tensor([0.1, 0.4, 0.2, 0.25, 0.05], dtype=dtype)
    start = torch.zeros(2, dtype=dtype)
    return ggmc.DataDensity(lambda x: -x.sum(), lambda x, share: -share * (x**4).sum() / 4, shares, start)


def gaussian(d: int = 1) -> ggmc.Density:
    """U = |x|²/2."""
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(d, dtype=F64))


def begin(kernel: Kernel, target: Target, chains: int = 5, at: Any = 0.0) -> tuple[State, Step, torch.Generator]:
    """The first state of chains that all begin at one place, the step, and the generator."""
    init, step = kernel.bind(target)
    generator = torch.Generator().manual_seed(0)
    position = torch.zeros(chains, target.layout.size, dtype=F64) + torch.as_tensor(at, dtype=F64)
    return init(position, generator), step, generator


def mean_and_error(series: Tensor) -> tuple[float, float]:
    """The mean over draws and chains [draws, chains], and its standard error from the chains' own means."""
    by_chain = series.mean(0)
    return by_chain.mean().item(), (by_chain.std() / len(by_chain) ** 0.5).item()
