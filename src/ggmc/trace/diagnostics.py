"""What a run says about itself, in plain language, each finding with a remedy."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass
from ggmc.dynamics.scheme import State
from ggmc.targets.layout import Layout
from ggmc.trace.trace import Trace

LOOKED_AT = 300  # scalars for R̂ and effective draws, which take milliseconds each; of more, evenly spread ones


def kinetic_temperature(state: State, mass: Mass) -> Tensor:
    """mᵀM⁻¹m / d of each chain: T on average in equilibrium."""
    return (state.momentum * mass.velocity(state.momentum)).sum(-1) / state.position.shape[-1]


def kinetic_temperatures(state: State, mass: Mass, layout: Layout) -> Tensor:
    """The same for each named tensor: [chains, tensors]."""
    parts = layout.views(state.momentum * mass.velocity(state.momentum))
    return torch.stack([part.reshape(len(part), -1).mean(1) for part in parts.values()], 1)


def configurational_temperature(position: Tensor, gradient: Tensor | None) -> Tensor:
    """θᵀ∇U / d of each chain: T on average in equilibrium; NaN where ∇U is not at hand."""
    if gradient is None:
        return position[:, 0] * math.nan
    return (position * gradient).sum(-1) / position.shape[-1]


def check(trace: Trace, wanted_acceptance: float | None = None) -> list[str]:
    """Everything that should keep a reader from trusting the draws; an empty list is good news.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.diagnostics import check
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
    if not hasattr(trace.kernel, "as_ggmc"):
        return None
    kernel = trace.kernel.as_ggmc()
    if kernel.fresh_momentum or (kernel.friction > 0 and {"O", "C"} & set(kernel.scheme)):
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
    rates = trace.stats["acceptance_rate"]
    mean = rates[np.isfinite(rates)].mean() if np.isfinite(rates).any() else np.nan
    if not trace.kernel.adjust:
        if not mean < 0.9:
            return None
        if not hasattr(trace.kernel, "as_ggmc"):
            name = type(trace.kernel).__name__
            return f"{name} is biased, and no test can say by how much: it cannot retrace its steps. Use ggmc.GGMC."
        return (
            f"Without the Metropolis test the draws are biased: it would have accepted {mean:.2f} on average. "
            f"Use adjust=True, or a smaller step_size.{_blame(trace)}"
        )
    if wanted is not None and mean < wanted - 0.15:
        return (
            f"Acceptance is {mean:.2f}, but {wanted:.2f} was wanted: the chains met regions that warm-up had not seen. "
            f"Give more warm-up.{_blame(trace)}"
        )
    if wanted is None and mean < 0.4:
        return (
            f"Acceptance is {mean:.2f}: most of the work is thrown away. Use a smaller step_size, or leave it "
            f"None.{_blame(trace)}"
        )
    return None


def _blame(trace: Trace) -> str:
    """Whether the step or the guide is to blame, where the kernel was asked to `explain`."""
    if "noise_error" not in trace.stats:
        return ""
    noise = trace.stats["noise_error"]
    sizes = [np.nanstd(part) for part in (noise, trace.stats["energy_error"] - noise)]
    remedy = "improve the guide (larger batches, order='palindrome', control variates)"
    if sizes[1] > sizes[0]:
        remedy = "shrink the step"
    return (
        f" Of the energy error, the guide's noise makes {sizes[0]:.2g} (standard deviation) and the step size "
        f"{sizes[1]:.2g}: {remedy}."
    )


def _rounding(trace: Trace) -> str | None:
    name = trace.attributes.get("dtype", "float64")
    error = float(np.nanmax(np.abs(trace.stats["lp"]), initial=0.0)) * torch.finfo(getattr(torch, name)).eps
    temperature = trace.kernel.temperature
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
    if hasattr(trace.target, "watched"):  # of a network, predictions: weights may be permuted and yet mean the same
        rows = trace.rows()
        seen = trace.target.watched(rows.flatten(0, 1)).unflatten(0, rows.shape[:2]).cpu().numpy()
        names, columns = [f"prediction {i}" for i in range(seen.shape[-1])], list(np.moveaxis(seen, -1, 0))
        noise = trace.target.likelihood.latents()  # the mean predictions do not tell of it
        names, columns = _thinned(names, columns)
        return [*noise, *names], [*(_at_least_two(trace.draws[name]) for name in noise), *columns]
    for name, array in trace.draws.items():
        for index in np.ndindex(array.shape[2:]):
            names.append(f"{name}[{', '.join(map(str, index))}]" if index else name)
            columns.append(array[(slice(None), slice(None), *index)])
    return _thinned(names, columns)


def _thinned(names: list[str], columns: list[np.ndarray]) -> tuple[list[str], list[np.ndarray]]:
    stride = math.ceil(len(names) / LOOKED_AT)
    return names[::stride], [_at_least_two(column) for column in columns[::stride]]


def _at_least_two(column: np.ndarray) -> np.ndarray:
    """One chain is compared with itself: its first half with its second."""
    half = column.shape[1] // 2
    return column if len(column) > 1 else np.concatenate([column[:, :half], column[:, half : 2 * half]])


def _some(names: list[str], indices: np.ndarray) -> str:
    shown = ", ".join(names[i] for i in indices[:3])
    return shown if len(indices) <= 3 else f"{shown} and {len(indices) - 3} more"
