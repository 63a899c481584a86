"""All warnings about the draws of a run, in plain language and with remedies; the temperatures of one draw.

What the warnings are judged by is computed here, in `mixing.py` and in `rounding.py`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass
from ggmc.targets.layout import Layout
from ggmc.trace.mixing import Measured, mixing
from ggmc.trace.rounding import rounding_error
from ggmc.trace.trace import Trace

HARDLY_ANY = 0.01  # share of accepted trajectories below which the step size is far too long


def kinetic_temperature(momentum: Tensor, mass: Mass) -> Tensor:
    """mᵀM⁻¹m / d of each chain, whose mean is T in equilibrium.

    Args:
        momentum: [chains, d].
        mass: M.

    Returns:
        [chains].

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import as_mass
        >>> from ggmc.trace.diagnostics import kinetic_temperature
        >>> kinetic_temperature(torch.tensor([[1.0, 2.0]]), as_mass(torch.tensor([1.0, 4.0])))
        tensor([1.])
    """
    return (momentum * mass.velocity(momentum)).sum(-1) / momentum.shape[-1]


def kinetic_temperatures(momentum: Tensor, mass: Mass, layout: Layout) -> Tensor:
    """The kinetic temperature of each named tensor.

    Args:
        momentum: [chains, d].
        mass: M.
        layout: The names and shapes of the tensors in one row.

    Returns:
        [chains, tensors].

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import Identity
        >>> from ggmc.targets.layout import Layout
        >>> from ggmc.trace.diagnostics import kinetic_temperatures
        >>> kinetic_temperatures(torch.tensor([[1.0, 2.0, 3.0]]), Identity(), Layout({"a": (2,), "b": (1,)}))
        tensor([[2.5000, 9.0000]])
    """
    parts = layout.views(momentum * mass.velocity(momentum))
    return torch.stack([part.reshape(len(part), -1).mean(1) for part in parts.values()], 1)


def configurational_temperature(position: Tensor, gradient: Tensor | None) -> Tensor:
    """θᵀ∇U / d of each chain, whose mean is T in equilibrium.

    Args:
        position: [chains, d].
        gradient: ∇U [chains, d], or None where it is not known.

    Returns:
        [chains]; NaN where ∇U is not known.

    Example:
        >>> import torch
        >>> from ggmc.trace.diagnostics import configurational_temperature
        >>> configurational_temperature(torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 1.0]]))
        tensor([2.])
    """
    if gradient is None:
        return torch.full_like(position[:, 0], math.nan)
    return (position * gradient).sum(-1) / position.shape[-1]


@np.errstate(over="ignore", invalid="ignore")  # a chain without a test may go to infinity
def check(trace: Trace, wanted_acceptance: float | None = None, measured: Measured | None = None) -> list[str]:
    """Everything that should keep a reader from trusting the draws; an empty list is good news.

    Args:
        trace: The trace, with its target. Its remarks come first.
        wanted_acceptance: The acceptance that warm-up tuned the step size for; None where the user gave the step size.
        measured: R̂ and effective draws, where they are known already.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.diagnostics import check
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> check(ggmc.sample(target, progress=False))
        []
    """
    tuned = wanted_acceptance is not None
    hopeless = _hopeless(trace, tuned)
    steps = [hopeless] if hopeless else [_divergences(trace, tuned), _acceptance(trace, wanted_acceptance)]
    found = [*trace.remarks, *steps, _rounding(trace), *mixing(trace, measured)]
    return [message for message in found if message]


# The step size


def _hopeless(trace: Trace, tuned: bool) -> str | None:
    """The finding where (almost) no trajectory was accepted, or all diverged: then nothing else matters."""
    diverging, accepted = trace.stats["diverging"], trace.stats["is_accepted"]
    number = int(accepted.sum())
    if diverging.all():
        happened = f"Every one of the {diverging.size} trajectories diverged"
    elif trace.kernel.adjust and number == 0:
        happened = "No trajectory was accepted"
    elif trace.kernel.adjust and number < HARDLY_ANY * accepted.size:
        happened = f"Only {number} of {accepted.size} trajectories were accepted"
    else:
        return None
    if 0 < diverging.sum() < diverging.size:
        happened += f", and {diverging.sum()} of {diverging.size} diverged"
    if tuned:
        return (
            f"{happened}: the step_size h = {_step_size(trace)}, found by warm-up, is far too long where the chains "
            f"are now. Give more warm-up.{_source_of_error(trace)}"
        )
    return (
        f"{happened}: the step_size h = {_step_size(trace)} is far too long: use a smaller one, or leave it None."
        f"{_source_of_error(trace)}"
    )


def _divergences(trace: Trace, tuned: bool) -> str | None:
    diverging = trace.stats["diverging"]
    if not diverging.any():
        return None
    shorter = "Raise target_accept (0.9, 0.95)"
    if not tuned:
        shorter = f"Use a smaller step_size than h = {_step_size(trace)}"
    return (
        f"{diverging.sum()} of {diverging.size} trajectories diverged: the step is too long for the sharpest curvature "
        f"they met, and that region may be missing from the draws. {shorter}, or reparameterise (a scale times a "
        "standard normal in place of a normal with that scale)."
    )


def _acceptance(trace: Trace, wanted: float | None) -> str | None:
    rates = trace.stats["acceptance_rate"]
    if not np.isfinite(rates).any():
        return None
    mean = float(rates[np.isfinite(rates)].mean())
    if not trace.kernel.adjust:
        return _bias(trace, mean)
    if wanted is not None and mean < wanted - 0.15:
        return (
            f"Acceptance is {mean:.2f}, but {wanted:.2f} was wanted: the chains met regions that warm-up had not seen. "
            f"Give more warm-up.{_source_of_error(trace)}"
        )
    if wanted is None and mean < 0.4:
        return (
            f"Acceptance is {mean:.2f}: most trajectories are rejected, and their work is lost. Use a smaller "
            f"step_size, or leave it None.{_source_of_error(trace)}"
        )
    return None


def _bias(trace: Trace, mean: float) -> str | None:
    """Of a run without the test, from the acceptance that the test would have had."""
    log_accept = trace.stats["log_accept"]
    # Minus infinity at every trajectory means that the kernel has no valid test, and the sampler's remarks say why.
    if mean >= 0.9 or np.isneginf(log_accept[~np.isnan(log_accept)]).all():
        return None
    return (
        f"Without the Metropolis test the draws are biased: it would have accepted {mean:.2f} on average. Use "
        "adjust=True, or a smaller step_size h: the bias falls as h² with a deterministic guide, but only as h with "
        f"independent minibatches.{_source_of_error(trace)}"
    )


def _source_of_error(trace: Trace) -> str:
    """Whether the energy error comes from the step or from the guide, where the kernel was asked to `explain` it."""
    if "noise_error" not in trace.stats:
        return ""
    noise = trace.stats["noise_error"]
    with np.errstate(invalid="ignore"):  # of divergences, both may be infinite
        parts = noise, trace.stats["energy_error"] - noise
    if not all(np.isfinite(part).any() for part in parts):
        return ""
    sizes = [np.std(part[np.isfinite(part)]) for part in parts]
    remedy = "improve the guide (larger batches, order='palindrome', control variates)"
    if sizes[1] > sizes[0]:
        remedy = "shrink the step"
    return (
        f" Of the energy error, the guide's noise makes {sizes[0]:.2g} (standard deviation) and the step size "
        f"{sizes[1]:.2g}: {remedy}."
    )


def _step_size(trace: Trace) -> str:
    size = trace.kernel.step_size
    return "None" if size is None else f"{size:g}"


def _rounding(trace: Trace) -> str | None:
    error, temperature = rounding_error(trace), trace.kernel.temperature
    if not error > 0.01 * temperature > 0:  # at temperature 0 there is no test
        return None
    errs = "so the test errs" if trace.kernel.adjust else "so the acceptance reported is wrong"
    return (
        f"The potential is computed in {trace.positions.dtype}, where it is off by about {error:.2g}: not small beside "
        f"the temperature {temperature:g}, {errs}. Give start, and the data that the log density uses, in float64."
    )
