"""How far rounding puts the potential off, where it is not computed in float64 throughout.

It is measured, since |U| · eps says little: a sum over data is added up in float64, so that only its terms are rounded.
The potential is computed at equally spaced points of a line so short that U itself is a cubic there. Differences of the
fourth order remove the cubic and leave the noise (Moré and Wild, "Estimating computational noise", SIAM Journal on
Scientific Computing, 2011). A value that is one float32 number may be the same at all these points, however, and then
shows no noise: half of its last digit is added.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ggmc.targets.base import DataTarget, PredictiveTarget, Target
from ggmc.trace.trace import Trace

POINTS = 12
ORDER = 4  # of the differences
BITS = 16  # a step is 2^-16 of each number: hundreds of times float32's eps, but 12 of them are 0.02 % only


def rounding_error(trace: Trace) -> float:
    """About how far the target's potential is off by rounding, near the last draw of each chain.

    Args:
        trace: The trace, with its target.

    Returns:
        The largest estimate, in the unit of the potential. It is 0 in float64, where U was never computed, where
        positions are not kept, and where U is not a function of the position alone, so that its rounding is the least
        of its noise.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.rounding import rounding_error
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2 - 1e6, torch.zeros(2))
        >>> trace = ggmc.sample(target, ggmc.HMC(0.5, 3), draws=10, warmup=0, progress=False)
        >>> bool(0.03 < rounding_error(trace) < 0.1)                    # float32 has 7 digits
        True
    """
    target, lp = trace.target, trace.stats["lp"]
    if target is None or target.dtype == torch.float64 or target.not_exact is not None or not np.isfinite(lp).any():
        return 0.0
    if not trace.store.keeps_rows:
        return 0.0
    rows = torch.tensor(trace.positions[:, -1], dtype=target.dtype, device=target.device)
    errors = _one_number(target, rows) * torch.finfo(target.dtype).eps / 2
    if target.dtype == torch.float32:  # coarser ones have no digits to spare for equal steps
        errors = torch.hypot(errors, _noise(target, rows))
    return float(errors[errors.isfinite()].max()) if errors.isfinite().any() else 0.0


def _one_number(target: Target, rows: Tensor) -> Tensor:
    """The size of that part of U which the target computes as one number of its own precision: [rows]."""
    if isinstance(target, PredictiveTarget):  # its prior is summed in float64 too
        return torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
    potential = target.potential(rows).double()
    if isinstance(target, DataTarget):  # what remains is the user's log prior
        potential = potential + target.log_likelihoods(rows).sum(1)
    return potential.abs()


def _noise(target: Target, rows: Tensor) -> Tensor:
    """The standard deviation of what is not smooth in U, along a line through each float32 row: [rows]."""
    exact = rows.double()
    generator = torch.Generator("cpu").manual_seed(0)
    signs = torch.randint(2, rows.shape, generator=generator, device="cpu").to(exact) * 2 - 1
    step = signs * torch.ldexp(torch.ones_like(exact), torch.frexp(exact).exponent - BITS)
    # Multiples of a power of two with few digits: every point is a float32 row to the last bit, and U alone is rounded.
    first = (exact / step).round() * step
    points = [(first + k * step).to(rows.dtype) for k in range(POINTS)]
    potentials = torch.stack([target.potential(some).double() for some in points])
    differences = torch.diff(potentials, ORDER, dim=0)
    return (differences.square().mean(0) / math.comb(2 * ORDER, ORDER)).sqrt()
