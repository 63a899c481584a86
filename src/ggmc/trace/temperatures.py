"""Temperatures with their intervals: do momenta and positions have the distribution they should have?

In equilibrium at temperature T, with d numbers, momentum m, mass M and potential U,

    kinetic          mᵀM⁻¹m / d      has mean T, and d/T times it is χ² with d degrees of freedom
    configurational  θᵀ∇U(θ) / d     has mean T, where the density falls off fast enough

overall and for each tensor. Without the Metropolis test, the noise of minibatch gradients makes a chain hotter than T.
The kinetic interval is that of χ² with d · (effective draws) degrees of freedom; the configurational one comes from
batch means.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch

from ggmc import progress
from ggmc.errors import BadInput, require_between, require_count
from ggmc.targets.base import Target
from ggmc.trace.store import Rows

if TYPE_CHECKING:
    import pandas

    from ggmc.trace.trace import Trace

BATCHES = 10  # of consecutive draws in each chain, whose means are taken to be independent

Interval = tuple[float, float, float]  # the mean, and the lower and the upper end


@np.errstate(over="ignore", invalid="ignore")  # a chain without a test may go to infinity
def temperatures(trace: Trace, draws: int = 50, level: float = 0.95) -> pandas.DataFrame:
    """Kinetic and configurational temperature, with a row for all numbers together ("all") and one for each tensor.

    Args:
        trace: The trace, with its target.
        draws: How many draws of each chain, evenly spread, the configurational temperature uses: it takes one exact
            gradient for each.
        level: Probability of the intervals, between 0 and 1.

    Returns:
        A table with the columns `kinetic`, `kinetic_low`, `kinetic_high`, and the same of `configurational`.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.temperatures import temperatures
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(20, dtype=torch.float64))
        >>> trace = ggmc.sample(target, progress=False)
        >>> table = temperatures(trace, draws=500)
        >>> bool(abs(table.loc["all", "kinetic"] - 1) < 0.1), bool(abs(table.loc["all", "configurational"] - 1) < 0.1)
        (True, True)
    """
    import pandas

    require_count("draws", draws, least=2)
    require_between("level", level)
    target = trace.target
    if target is None:
        raise BadInput("temperatures need the target, which this trace does not have: set trace.target")
    layout = target.layout
    sizes = [layout.size, *(shape.numel() for shape in layout.shapes.values())]
    kinetic = trace.stats["kinetic_temperature"][..., None]
    per_tensor = trace.stats.get("kinetic_temperatures", kinetic)  # of one tensor, they are the same
    seen = np.concatenate([kinetic, per_tensor], -1)
    configurational = _configurational(trace.positions, target, draws)
    table: dict[str, list[float]] = {}
    for i, name in enumerate(["all", *layout.shapes]):
        table[name] = [*kinetic_interval(seen[..., i], sizes[i], level), *_batch_means(configurational[..., i], level)]
    heads = [f"{kind}{end}" for kind in ("kinetic", "configurational") for end in ("", "_low", "_high")]
    return pandas.DataFrame.from_dict(table, orient="index", columns=heads)


def kinetic_interval(seen: np.ndarray, size: int, level: float) -> Interval:
    """The mean of temperatures [chains, draws] of `size` numbers each, and the values of T that χ² allows for it.

    Args:
        seen: [chains, draws].
        size: How many numbers each is the mean of.
        level: Probability of the interval.
    """
    from scipy.stats import chi2

    degrees = size * _effective(seen)
    mean = float(seen.mean())
    low, high = degrees * mean / chi2.ppf([(1 + level) / 2, (1 - level) / 2], degrees)
    return mean, float(low), float(high)


def _batch_means(seen: np.ndarray, level: float) -> Interval:
    """The mean with a t interval from the means of batches of consecutive draws."""
    from scipy.stats import t

    number = max(1, min(BATCHES, seen.shape[1] // 2))
    if number * len(seen) < 2:
        return float(seen.mean()), math.nan, math.nan
    means = np.concatenate([part.mean(1) for part in np.array_split(seen, number, axis=1)])
    half = t.ppf((1 + level) / 2, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    return float(seen.mean()), float(seen.mean() - half), float(seen.mean() + half)


def _effective(seen: np.ndarray) -> float:
    """Effective draws of all chains together; never more than there are."""
    import arviz

    if seen.shape[1] < 8:
        return float(seen.size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = float(arviz.ess(seen, method="mean"))
    return float(np.clip(np.nan_to_num(found, nan=1.0), 1.0, seen.size))


def _configurational(positions: Rows, target: Target, draws: int) -> np.ndarray:
    """θᵀ∇U/d of some draws, overall and for each tensor: [chains, draws, 1 + tensors]."""
    available = positions.shape[1]
    spread = np.linspace(0, available - 1, min(draws, available)).round().astype(int)
    found: list[np.ndarray] = []
    with progress.bar(spread, desc="configurational temperature") as numbers:
        for number in numbers:
            rows = torch.tensor(positions[:, number], dtype=target.dtype, device=target.device)
            product = (rows * target.potential_and_gradient(rows)[1]).double()
            parts = target.layout.views(product)
            means = [product.mean(1), *(part.reshape(len(part), -1).mean(1) for part in parts.values())]
            found.append(torch.stack(means, 1).cpu().numpy())
    return np.stack(found, 1)
