"""What a run says about itself, in plain language, each finding with a remedy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch

from ggmc.mass import Mass
from ggmc.scheme import State
from ggmc.trace import Trace

LOOKED_AT = 300  # scalars for R̂ and effective draws, which take milliseconds each; of more, evenly spread ones


def kinetic_temperature(state: State, mass: Mass) -> Any:
    """mᵀM⁻¹m / d of each chain: T on average in equilibrium."""
    return (state.momentum * mass.velocity(state.momentum)).sum(-1) / state.position.shape[-1]


def configurational_temperature(state: State) -> Any:
    """θᵀ∇U / d of each chain: T on average in equilibrium; NaN where the word leaves no gradient at its end."""
    if state.gradient is None:
        return state.position[:, 0] * math.nan
    return (state.position * state.gradient).sum(-1) / state.position.shape[-1]


def check(trace: Trace, wanted_acceptance: float | None = None) -> list[str]:
    """Everything that should keep a reader from trusting the draws; an empty list is good news.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.diagnostics import check
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> check(ggmc.sample(target, progress=False))
        []
    """
    found = [
        _friction(trace),
        _divergences(trace),
        _acceptance(trace, wanted_acceptance),
        _rounding(trace),
        *_mixing(trace),
    ]
    return [message for message in found if message]


def _friction(trace: Trace) -> str | None:
    kernel = trace.kernel.as_ggmc()
    if kernel.fresh_momentum or (kernel.friction > 0 and "O" in kernel.scheme):
        return None
    return (
        f"The momentum is never refreshed (friction {kernel.friction:g}, scheme {kernel.scheme}), so the chains cannot "
        "reach every energy: use a positive friction and a word with an O."
    )


def _divergences(trace: Trace) -> str | None:
    diverging = trace.stats["diverging"]
    if not diverging.any():
        return None
    return (
        f"{diverging.sum()} of {diverging.size} trajectories diverged: the step is too long for the sharpest curvature "
        "they met, and that region may be missing from the draws. Raise target_accept (0.9, 0.95), or reparameterise "
        "(a scale times a standard normal in place of a normal with that scale)."
    )


def _acceptance(trace: Trace, wanted: float | None) -> str | None:
    mean = trace.stats["acceptance_rate"].mean()
    if not trace.kernel.as_ggmc().adjust:
        if mean > 0.9:
            return None
        return (
            f"Without the Metropolis test the draws are biased: it would have accepted {mean:.2f} on average. "
            "Use adjust=True, or a smaller step_size."
        )
    if wanted is not None and mean < wanted - 0.15:
        return (
            f"Acceptance is {mean:.2f}, but {wanted:.2f} was wanted: the chains met regions that warm-up had not seen. "
            "Give more warm-up."
        )
    if wanted is None and mean < 0.4:
        return f"Acceptance is {mean:.2f}: most of the work is thrown away. Use a smaller step_size, or leave it None."
    return None


def _rounding(trace: Trace) -> str | None:
    name = trace.attributes.get("dtype", "float64")
    error = float(np.abs(trace.stats["lp"]).max()) * torch.finfo(getattr(torch, name)).eps
    temperature = trace.kernel.as_ggmc().temperature
    if not error > 0.01 * temperature:
        return None
    return (
        f"The potential is computed in {name}, where it is off by about {error:.2g}: not small against the temperature "
        f"{temperature:g}, so the test errs. Give start, and the data log_prob uses, in float64."
    )


def _mixing(trace: Trace) -> list[str]:
    import arviz

    if trace.num_draws < 8:
        return [f"{trace.num_draws} draws per chain are too few to judge convergence: draw at least 100."]
    names, columns = _scalars(trace)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns: reported below as not finite
        rhat = np.array([float(arviz.rhat(column)) for column in columns])
        ess = np.array([min(float(arviz.ess(c, method="bulk")), float(arviz.ess(c, method="tail"))) for c in columns])
    found: list[str] = []
    bad = np.flatnonzero(~(rhat <= 1.01))
    if bad.size:
        worst = bad[np.argmax(np.nan_to_num(rhat[bad], nan=np.inf))]
        who = "The chains" if trace.num_chains > 1 else "The halves of the chain"
        found.append(
            f"{who} disagree on {_some(names, bad)} (worst R̂ = {rhat[worst]:.4g} for {names[worst]}, above 1.01): they "
            "have not reached the same distribution. Run longer, with more warm-up; look for several modes."
        )
    wanted = 100 * trace.num_chains
    low = np.flatnonzero(~(ess >= wanted))
    if low.size:
        worst = low[np.argmin(np.nan_to_num(ess[low], nan=-np.inf))]
        found.append(
            f"Few effective draws for {_some(names, low)} (least {ess[worst]:.0f} for {names[worst]}, below {wanted}): "
            "means and intervals are rough. Take more draws."
        )
    return found


def _scalars(trace: Trace) -> tuple[list[str], list[np.ndarray]]:
    names: list[str] = []
    columns: list[np.ndarray] = []
    for name, array in trace.draws.items():
        for index in np.ndindex(array.shape[2:]):
            names.append(f"{name}[{', '.join(map(str, index))}]" if index else name)
            columns.append(_at_least_two(array[(slice(None), slice(None), *index)]))
    stride = math.ceil(len(names) / LOOKED_AT)
    return names[::stride], columns[::stride]


def _at_least_two(column: np.ndarray) -> np.ndarray:
    """One chain is compared with itself: its first half with its second."""
    half = column.shape[1] // 2
    return column if len(column) > 1 else np.concatenate([column[:, :half], column[:, half : 2 * half]])


def _some(names: list[str], indices: np.ndarray) -> str:
    shown = ", ".join(names[i] for i in indices[:3])
    return shown if len(indices) <= 3 else f"{shown} and {len(indices) - 3} more"
