"""Means with their Monte Carlo errors, and the order at which they fall with the step size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor


class Estimate(NamedTuple):
    """A mean and its standard error; an error of 0 says that it was computed and not sampled."""

    mean: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether it differs from 0 by more than two standard errors and more than rounding."""
        return abs(self.mean) > max(2 * self.error, 1e-12)


def estimate(values: Tensor) -> Estimate:
    """The mean of independent values.

    Args:
        values: [number].
    """
    return Estimate(values.mean().item(), values.std().item() / len(values) ** 0.5)


def slope(step_sizes: Sequence[float], found: Sequence[Estimate]) -> Estimate | None:
    """The slope of log |bias| against log h.

    Where biases were computed, it is that of the two smallest step sizes. Where they were sampled, it is fitted by
    weighted least squares to those that are clear of noise.

    Args:
        step_sizes: h.
        found: The bias at each.

    Returns:
        The slope and its error; None where fewer than two biases are clear of noise.
    """
    clear = sorted((h, each) for h, each in zip(step_sizes, found, strict=True) if each.is_clear)
    if len(clear) < 2:
        return None
    computed = all(each.error == 0 for _, each in clear)
    if computed:
        clear = clear[:2]
    x, y = np.log([h for h, _ in clear]), np.log([abs(each.mean) for _, each in clear])
    weights = np.array([1.0 if computed else (each.mean / each.error) ** 2 for _, each in clear])
    centred = x - np.average(x, weights=weights)
    scale = (weights * centred**2).sum()
    return Estimate(float((weights * centred * y).sum() / scale), 0.0 if computed else float(scale**-0.5))
