"""Mixing: did the chains move, do they agree, and how many effective draws do they give?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ggmc.targets.base import PredictiveTarget
from ggmc.targets.layout import Layout
from ggmc.trace.record import draws_at_once, rows_in_groups, values_in_groups
from ggmc.trace.trace import Trace

SCALARS = 300  # whose R̂ and effective draws are computed, at milliseconds each; of more, evenly spread ones
NUMBERS = 2**23  # held in memory for that, at the most; of very many draws, fewer scalars are looked at
LEAST_DRAWS = 8  # per chain, below which R̂ and effective draws mean nothing

Columns = tuple[list[str], list[np.ndarray]]


class Measured(NamedTuple):
    """R̂ and effective draws of the numbers by which mixing is judged."""

    names: list[str]
    columns: list[np.ndarray]
    """The draws of each number, [chains, draws]; one chain is cut into two halves."""
    rhat: np.ndarray
    bulk: np.ndarray
    """Effective draws of the middle of each distribution."""
    tail: np.ndarray
    """Those of its tails."""

    @property
    def ess(self) -> np.ndarray:
        """The fewer of the two."""
        return np.minimum(self.bulk, self.tail)


def measure(trace: Trace) -> Measured:
    """R̂ and effective draws: of predictions where the target makes them, else of up to 300 values, evenly spread.

    Args:
        trace: The trace, with its target or with values of its own.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.mixing import measure
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> measure(ggmc.sample(target, draws=50, warmup=50, progress=False)).names
        ['theta[0]', 'theta[1]']
    """
    names, columns = _scalars(trace)
    return Measured(names, columns, *_rhat_and_ess(columns))


def mixing(trace: Trace, measured: Measured | None = None) -> list[str]:
    """Whether the chains moved, agree with one another and have given enough effective draws.

    Args:
        trace: The trace, with its target.
        measured: From `measure`, where that is known already.

    Returns:
        What is wrong, one sentence or two each; nothing where all is well.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.mixing import mixing
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> mixing(ggmc.sample(target, ggmc.MALA(1.0), draws=3, warmup=0, progress=False))
        ['3 draws per chain are too few to judge convergence: draw at least 100.']
    """
    if trace.num_draws < LEAST_DRAWS:
        return [f"{trace.num_draws} draws per chain are too few to judge convergence: draw at least 100."]
    still = _never_moved(trace) if trace.store.keeps_rows else []
    found = [_at_one_point(still)] if still else []
    if len(still) == trace.num_chains:
        return found
    measured = measure(trace) if measured is None else measured
    names, rhat, ess = measured.names, measured.rhat, measured.ess
    unknown = ~(np.isfinite(rhat) & np.isfinite(ess))
    if unknown.any():
        found.append(
            f"R̂ cannot be computed for {_some(names, np.flatnonzero(unknown))}: the values do not change or are not "
            "finite, so nothing says that they have converged. Look at the draws."
        )
    bad = np.flatnonzero(~unknown & (rhat > 1.01))
    if bad.size:
        worst = bad[np.argmax(rhat[bad])]
        who = "The chains" if trace.num_chains > 1 else "The halves of the chain"
        found.append(
            f"{who} disagree on {_some(names, bad)} (worst R̂ = {rhat[worst]:.4g} for {names[worst]}, above 1.01): they "
            "have not reached the same distribution. Run longer, with more warm-up; look for several modes."
        )
    wanted = 100 * trace.num_chains
    low = np.flatnonzero(~unknown & (ess < wanted))
    if low.size:
        worst = low[np.argmin(ess[low])]
        found.append(
            f"Few effective draws for {_some(names, low)} (least {ess[worst]:.0f} for {names[worst]}, below {wanted}): "
            "means and intervals are rough. Take more draws."
        )
    return found


def _never_moved(trace: Trace) -> list[int]:
    """The chains whose draws are all the same."""
    first = np.asarray(trace.positions[:, :1])
    same = np.ones(trace.num_chains, bool)
    for draws in draws_at_once(trace):
        same &= (trace.positions[:, draws] == first).all((1, 2))
        if not same.any():
            break
    return np.flatnonzero(same).tolist()


def _at_one_point(chains: list[int]) -> str:
    one = len(chains) == 1
    numbers = ", ".join(map(str, chains[:10])) + (", …" if len(chains) > 10 else "")
    return (
        f"{'Chain' if one else 'Chains'} {numbers} never moved: all draws of {'it' if one else 'each'} are the same "
        "point. Use a smaller step_size, or other starts."
    )


def _rhat_and_ess(columns: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """R̂ of each scalar, and the effective draws of its bulk and of its tails."""
    import arviz

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns, which are reported as such
        rhat = np.array([float(arviz.rhat(column)) for column in columns])
        bulk, tail = (np.array([float(arviz.ess(c, method=m)) for c in columns]) for m in ("bulk", "tail"))
    return rhat, bulk, tail


def _scalars(trace: Trace) -> Columns:
    """The numbers by which mixing is judged, with their names."""
    target = trace.target
    if not isinstance(target, PredictiveTarget) or not trace.store.keeps_rows:
        return _columns(trace, values_in_groups(trace), SCALARS)
    # Predictions, since a network's weights may be permuted and yet mean the same; but they do not tell of the noise.
    features = (
        (draws, {"prediction": target.prediction_features(rows.flatten(0, 1)).unflatten(0, (len(rows), -1))})
        for draws, rows in rows_in_groups(trace)
    )
    arrays = ((draws, {name: value.detach().cpu().numpy() for name, value in some.items()}) for draws, some in features)
    names, columns = _columns(trace, arrays, SCALARS)
    watched = target.watched_latents()
    if not watched:
        return names, columns
    latents, values = _columns(trace, values_in_groups(trace, watched), NUMBERS)
    return [*latents, *names], [*values, *columns]


def _columns(trace: Trace, groups: Iterable[tuple[slice, dict[str, np.ndarray]]], most: int) -> Columns:
    """Single numbers of named arrays [chains, draws, *shape], evenly spread, by their own names, as `weight[1, 2]`."""
    most = max(1, min(most, NUMBERS // max(1, trace.num_chains * trace.num_draws)))
    found: np.ndarray | None = None
    names: list[str] = []
    for draws, arrays in groups:
        flat = [array.reshape(*array.shape[:2], -1) for array in arrays.values()]
        stride = math.ceil(sum(part.shape[2] for part in flat) / most)
        some = np.concatenate(flat, 2)[:, :, ::stride]
        if found is None:
            layout = Layout({name: array.shape[2:] for name, array in arrays.items()})
            names = [layout.locate(column) for column in range(0, layout.size, stride)]
            found = np.empty((some.shape[0], trace.num_draws, some.shape[2]), some.dtype)
        found[:, draws] = some
    assert found is not None
    return names, [_at_least_two(column) for column in np.moveaxis(found, -1, 0)]


def _at_least_two(column: np.ndarray) -> np.ndarray:
    """One chain is compared with itself: its first half with its second."""
    half = column.shape[1] // 2
    return column if len(column) > 1 else np.concatenate([column[:, :half], column[:, half : 2 * half]])


def _some(names: list[str], indices: np.ndarray) -> str:
    shown = ", ".join(names[i] for i in indices[:3])
    return shown if len(indices) <= 3 else f"{shown} and {len(indices) - 3} more"
