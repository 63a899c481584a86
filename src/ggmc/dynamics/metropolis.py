"""The Metropolis test, which every sampler calls, once or several times per trajectory; there is no other.

For a trajectory from s = (θ, m) to s' = (θ', m') whose kicks did the work W,

    log α = −(1/T) · [ U(θ') − U(θ) + W ],      accept with probability min(1, α).

Accepted, the chain goes to s'. Rejected, it goes to F(s) = (θ, −m): same position, *negated* momentum, the *start's*
potential and gradient. Without the flip the chain samples another distribution, which tests on symmetric targets do not
detect. A non-finite end means α = 0: it is rejected and counted as divergent, never tried again. Where nothing is to be
rejected, `monitor` reports the same log α.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ggmc.dynamics.state import Info, State, choose

DIVERGENCE = 1000.0  # an energy error of this many temperatures is called a divergence too, as is usual in the field


def log_uniforms(chains: int, generator: torch.Generator) -> Tensor:
    """log u for each chain, u ~ U(0, 1]: every chain decides for itself."""
    u = torch.rand(chains, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.log1p(-u)


def log_ratio(energy_error: Tensor, temperature: Tensor) -> Tensor:
    """log α of an energy error, −∞ where it is not finite."""
    return torch.where(energy_error.isfinite(), -energy_error / temperature, -torch.inf)


def certain_rejection(start: State, work: Tensor, temperature: Tensor, log_uniform: Tensor) -> Tensor:
    """The potential above which an end is rejected: the sum of it may stop there."""
    assert start.potential is not None
    return start.potential - work - temperature * log_uniform


def decide(
    start: State, end: State, work: Tensor, steps: int, temperature: Tensor, log_uniform: Tensor
) -> tuple[State, Info]:
    """Accept or flip, chain by chain.

    Args:
        start: Where the tested part began, its potential known.
        end: Where it ended, its potential known.
        work: W, [chains] float64.
        steps: For the report.
        temperature: T, () or [chains].
        log_uniform: From `log_uniforms`.
    """
    assert start.potential is not None
    assert end.potential is not None
    energy_error = end.potential - start.potential + work
    finite = energy_error.isfinite() & end.is_finite()
    log_accept = torch.where(finite, -energy_error / temperature, -torch.inf)
    accepted = finite & (log_uniform < log_accept)
    diverging = ~finite | (energy_error > DIVERGENCE * temperature)
    info = Info(log_accept, accepted, diverging, energy_error, work, steps)
    return choose(accepted, end, start.flip()), info


def monitor(
    start: State,
    end: State,
    work: Tensor,
    steps: int,
    temperature: Tensor,
    potential: Callable[[Tensor], Tensor] | None,
    testable: bool = True,
) -> tuple[State, Info]:
    """No decision: every finite end is kept. log α of all trajectories since the last report, if this is the time.

    Args:
        start: Where the trajectory began.
        end: Where it ended.
        work: W, [chains] float64.
        steps: For the report.
        temperature: T, () or [chains], constant since the last report; 0 is optimisation.
        potential: Gives U where the chains are, or None between reports: the work is then kept for the next one.
        testable: Whether the trajectory can be retraced; else α is 0.
    """
    kept = end.is_finite() & work.isfinite()
    total = torch.zeros_like(work) if start.untested_work is None else start.untested_work
    total = total + torch.where(kept, work, torch.inf)  # once divergent, a stretch has α = 0
    after = choose(kept, end, start.flip())
    if potential is None:
        unknown = torch.full_like(total, torch.nan)
        info = Info(unknown, kept, ~kept, unknown, work, steps)
        return after._replace(potential=start.potential, untested_work=total), info
    assert start.potential is not None
    now = potential(after.position) if end.potential is None else torch.where(kept, end.potential, torch.inf)
    if not now.isfinite().all():  # a step out of the support is not kept either
        kept = kept & now.isfinite()
        after = choose(kept, end, start.flip())
        now = torch.where(kept, now, potential(after.position))
        total = torch.where(kept, total, torch.inf)
    energy_error = now - start.potential + total
    if not testable:
        energy_error = torch.full_like(energy_error, torch.inf)
    # A stretch that began or ended outside the support has no finite acceptance probability.
    known = energy_error.isfinite()
    cold = temperature == 0  # no test to pass, only a direction: any rise in energy is impossible, any fall certain
    downhill = torch.where(energy_error < 0, torch.inf, torch.where(energy_error == 0, 0.0, -torch.inf))
    log_accept = torch.where(cold, downhill, torch.where(known, log_ratio(energy_error, temperature), -torch.inf))
    rising = ~known | (energy_error > DIVERGENCE * temperature)
    diverging = ~kept | (rising & ~cold if testable else ~kept)
    info = Info(log_accept, kept, diverging, energy_error, work, steps)
    return after._replace(potential=now, untested_work=None), info
