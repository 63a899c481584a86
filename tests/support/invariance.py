"""The invariance check: chains that start as exact draws must still be exact draws after any number of trajectories.

Many independent chains start at exact draws of θ and of m. After some trajectories, the mean of each feature (moments
of θ, of m, and of both together) may differ from its mean at the start only by Monte Carlo error. Each check declares
its false-failure rate: 1e-6, shared out over its features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

import ggmc
from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.dynamics.state import State

FALSE_FAILURE_RATE = 1e-6


@dataclass
class Case:
    """A target that can be drawn from exactly, at a temperature."""

    name: str
    target: Any
    exact: Callable[[int, torch.Generator], Tensor]  # -> [n, d]
    temperature: float = 1.0


def by_inverse_distribution(potential: Callable[[Tensor], Tensor], low: float, high: float):
    """Exact draws of exp(−potential) on the line, through its distribution function on a fine grid."""
    grid = torch.linspace(low, high, 400_001, dtype=torch.float64)
    density = torch.exp(-(potential(grid) - potential(grid).min()))
    distribution = torch.cumsum((density[1:] + density[:-1]) / 2, 0)
    distribution = torch.cat([torch.zeros(1, dtype=torch.float64), distribution]) / distribution[-1]

    def draw(n: int, generator: torch.Generator) -> Tensor:
        u = torch.rand(n, generator=generator, dtype=torch.float64)
        return torch.from_numpy(np.interp(u.numpy(), distribution.numpy(), grid.numpy()))[:, None]

    return draw


def quartic(temperature: float = 1.0) -> Case:
    """U = x⁴/4 + x: light tails, not symmetric."""
    target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
    exact = by_inverse_distribution(lambda x: (x**4 / 4 + x) / temperature, -8.0, 8.0)
    return Case(f"quartic at T = {temperature:g}", target, exact, temperature)


def skewed(temperature: float = 1.0) -> Case:
    """The logarithm of an exponential variable: U = eˣ − x, one tail heavy, one light."""
    target = ggmc.Density(lambda x: (x - torch.exp(x)).sum(), torch.zeros(1, dtype=torch.float64))

    def exact(n: int, generator: torch.Generator) -> Tensor:
        shape = torch.full((n, 1), 1 / temperature, dtype=torch.float64)
        return torch.log(torch._standard_gamma(shape, generator=generator) * temperature)  # pyright: ignore

    return Case(f"skewed at T = {temperature:g}", target, exact, temperature)


def funnel() -> Case:
    """v ~ N(0, 1), x | v ~ N(v, eᵛ): scales that change along the way, and a correlation."""

    def log_prob(p: Tensor) -> Tensor:
        v, x = p[0], p[1]
        return -(v**2) / 2 - (x - v) ** 2 * torch.exp(-v) / 2 - v / 2

    def exact(n: int, generator: torch.Generator) -> Tensor:
        noise = torch.randn(n, 2, generator=generator, dtype=torch.float64)
        v = noise[:, 0]
        return torch.stack([v, v + torch.exp(v / 2) * noise[:, 1]], 1)

    return Case("funnel", ggmc.Density(log_prob, torch.zeros(2, dtype=torch.float64)), exact)


def noisy_quartic(temperature: float = 1.0, examples: int = 12) -> Case:
    """The quartic as a sum over examples that pull in all directions: its minibatch gradients are far off."""
    clean = quartic(temperature)
    pulls = torch.randn(2, examples, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pulls -= pulls.mean(1, keepdim=True)  # over all data they cancel

    def log_likelihood(x: Tensor, batch: Tensor) -> Tensor:
        pull, swing = batch[:, 0], batch[:, 1]
        return -(x**4 / (4 * examples) + 0.6 * pull * x + 0.3 * swing * torch.sin(2 * x))

    start = torch.zeros(1, dtype=torch.float64)
    target = ggmc.DataDensity(lambda x: -x.sum(), log_likelihood, pulls.mT.contiguous(), start)
    return Case(f"noisy {clean.name}", target, clean.exact, temperature)


def noisy_funnel(examples: int = 12) -> Case:
    """The funnel likewise: its prior is v's, its likelihood x's given v."""
    pulls = torch.randn(3, examples, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    pulls -= pulls.mean(1, keepdim=True)

    def log_likelihood(p: Tensor, batch: Tensor) -> Tensor:
        v, x = p[0], p[1]
        share = -((x - v) ** 2 * torch.exp(-v) / 2 + v / 2) / examples
        return share - 0.4 * (batch[:, 0] * v + batch[:, 1] * x + batch[:, 2] * torch.sin(x + v))

    start = torch.zeros(2, dtype=torch.float64)
    target = ggmc.DataDensity(lambda p: -(p[0] ** 2) / 2, log_likelihood, pulls.mT.contiguous(), start)
    return Case("noisy funnel", target, funnel().exact)


def features(state: State) -> dict[str, Tensor]:
    """What is compared: [chains] each. Wide tails are bent inwards, so that means have honest normal errors."""
    found: dict[str, Tensor] = {}
    d = state.position.shape[1]
    for i in range(d):
        x, m = state.position[:, i], state.momentum[:, i]
        bent = torch.tanh(x)
        found |= {
            f"θ{i}": x,
            f"θ{i}²": x.clamp(-6, 6) ** 2,
            f"tanh θ{i}": bent,
            f"m{i}": m,
            f"m{i}²": m**2,
            f"θ{i}m{i}": bent * m,
            f"θ{i}²m{i}": bent**2 * m,
            f"θ{i}m{i}²": bent * m**2,
        }
    if d > 1:
        found |= {
            "θ0θ1": torch.tanh(state.position[:, 0]) * torch.tanh(state.position[:, 1]),
            "m0m1": state.momentum[:, 0] * state.momentum[:, 1],
            "θ0m1": torch.tanh(state.position[:, 0]) * state.momentum[:, 1],
            "θ1m0": torch.tanh(state.position[:, 1]) * state.momentum[:, 0],
        }
    return found


def bound(target: Any, kernel: Any) -> tuple[Any, Any]:
    """As `kernel.bind`, with compiled trajectories."""
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)

    def step(state: State, generator: torch.Generator) -> tuple[State, Any]:
        result = sampler.step(state, sampler.parameters, generator)
        assert not sampler.compiled.gave_up
        return result

    return sampler.init, step


def violations(
    case: Case, kernel: Any, trajectories: int = 20, chains: int = 60_000, seed: int = 0, compiled: bool = False
) -> dict[str, float]:
    """The features whose mean moved by more than its Monte Carlo error allows, with their z-scores."""
    generator = torch.Generator().manual_seed(seed)
    init, step = bound(case.target, kernel) if compiled else kernel.bind(case.target)
    state = start = init(case.exact(chains, generator), generator)
    assert kernel.temperature == case.temperature
    for _ in range(trajectories):
        state, _ = step(state, generator)
    before, after = features(start), features(state)
    limit = stats.norm.isf(FALSE_FAILURE_RATE / 2 / len(before))
    found: dict[str, float] = {}
    for name in before:
        moved = after[name] - before[name]
        z = (moved.mean() / (moved.std() / chains**0.5).clamp_min(1e-300)).item()
        if not abs(z) < limit:
            found[name] = z
    return found


def independence_violations(case: Case, kernel: Any) -> dict[str, float]:
    """What varies from trajectory to trajectory, in the mean over chains, more than for independent chains."""
    generator = torch.Generator().manual_seed(5)
    chains, trajectories = 2000, 200
    init, step = kernel.bind(case.target)
    state = init(case.exact(chains, generator), generator)
    series: dict[str, list[Tensor]] = {"accepted": [], "momentum": [], "position": [], "work": []}
    for _ in range(trajectories):
        state, info = step(state, generator)
        series["accepted"].append(info.accepted.double())
        series["momentum"].append(state.momentum[:, 0])
        series["position"].append(state.position[:, 0])
        series["work"].append(torch.tanh(info.work))
    found: dict[str, float] = {}
    for name, rows in series.items():
        table = torch.stack(rows)  # [trajectories, chains]
        ratio = (table.mean(1).var() / (table.var() / chains)).item()
        # Successive trajectories are not independent: half of them at the least are taken to be.
        if ratio >= stats.chi2.isf(1e-6, trajectories // 2) / (trajectories // 2):
            found[name] = ratio
    return found
