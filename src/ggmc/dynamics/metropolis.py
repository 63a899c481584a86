"""The one accept/reject.

For a trajectory from s = (θ, m) to s' = (θ', m') whose kicks did the work W,

    log α = −(1/T) · [ U(θ') − U(θ) + W ],      accept with probability min(1, α).

Accepted, the chain goes to s'. Rejected, it goes to F(s) = (θ, −m): same position, *negated* momentum, the *start's*
potential and gradient. Without the flip the chain samples something else, and on symmetric targets nobody notices. A
non-finite end means α = 0: it is rejected and counted as divergent, never tried again. Where nothing is to be rejected,
`watch` reports the same log α.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ggmc.dynamics.scheme import State

DIVERGENCE = 1000.0  # an energy error of this many temperatures is called a divergence too, as is usual in the field


class Info(NamedTuple):
    """What one trajectory of each chain did; every tensor has shape [chains]."""

    log_accept: Tensor  # log α, float64; −∞ where the end is not finite, NaN where nobody looked
    accepted: Tensor  # bool
    diverging: Tensor  # bool
    energy_error: Tensor  # U(θ') − U(θ) + W, float64
    work: Tensor  # W, float64
    steps: int
    noise_error: Tensor | None = None
    """The part of the energy error that the guide's noise made; the rest is the step size's. None if not asked for."""


def log_uniforms(chains: int, generator: torch.Generator) -> Tensor:
    """log u for each chain, u ~ U(0, 1]: every chain decides for itself."""
    u = torch.rand(chains, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.log1p(-u)


def certain_rejection(start: State, work: Tensor, temperature: float, log_uniform: Tensor) -> Tensor:
    """The potential above which an end is rejected: the sum of it may stop there."""
    assert start.potential is not None
    return start.potential - work - temperature * log_uniform


def decide(
    start: State, end: State, work: Tensor, steps: int, temperature: float, log_uniform: Tensor
) -> tuple[State, Info]:
    """Accept or flip, chain by chain."""
    assert start.potential is not None
    assert end.potential is not None
    energy_error = end.potential - start.potential + work
    finite = energy_error.isfinite() & _finite(end)
    log_accept = torch.where(finite, -energy_error / temperature, -torch.inf)
    accepted = finite & (log_uniform < log_accept)
    diverging = ~finite | (energy_error > DIVERGENCE * temperature)
    info = Info(log_accept, accepted, diverging, energy_error, work, steps)
    return choose(accepted, end, flip(start)), info


def watch(
    start: State, end: State, work: Tensor, steps: int, temperature: float, potential: Callable[[Tensor], Tensor] | None
) -> tuple[State, Info]:
    """No decision: every finite end is kept. log α of all since the last look, if this is the time to look.

    `potential` gives U where the chains are, or is None while nobody looks: the work then stays owed.
    """
    kept = _finite(end) & work.isfinite()
    owed = torch.zeros_like(work) if start.owed is None else start.owed
    owed = owed + torch.where(kept, work, torch.inf)  # once divergent, a stretch has α = 0
    after = choose(kept, end, flip(start))
    if potential is None:
        unknown = torch.full_like(owed, torch.nan)
        info = Info(unknown, kept, ~kept, unknown, work, steps)
        return after._replace(potential=start.potential, owed=owed), info
    assert start.potential is not None
    now = potential(after.position) if end.potential is None else torch.where(kept, end.potential, torch.inf)
    if not now.isfinite().all():  # a step out of the support is not kept either
        kept = kept & now.isfinite()
        after = choose(kept, end, flip(start))
        now = torch.where(kept, now, potential(after.position))
        owed = torch.where(kept, owed, torch.inf)
    energy_error = now - start.potential + owed
    if temperature:
        # A stretch that began or ended outside the support has no acceptance probability to speak of.
        known = start.potential.isfinite() & energy_error.isfinite()
        log_accept = torch.where(known, -energy_error / temperature, -torch.inf)
        diverging = ~kept | ~known | (energy_error > DIVERGENCE * temperature)
    else:  # no test to pass, only a direction: any rise in energy is impossible, any fall certain
        log_accept = (-energy_error.sign() * torch.inf).nan_to_num(0.0, torch.inf, -torch.inf)
        diverging = ~kept
    info = Info(log_accept, kept, diverging, energy_error, work, steps)
    return after._replace(potential=now, owed=None), info


def _finite(state: State) -> Tensor:
    return state.position.isfinite().all(-1) & state.momentum.isfinite().all(-1)


def flip(state: State) -> State:
    """F: the same point, about to travel back where it came from."""
    return state._replace(momentum=-state.momentum)


def choose(accepted: Tensor, end: State, stay: State) -> State:
    """Each chain's row from one state or the other."""

    def pick(moved: Tensor | None, stayed: Tensor | None) -> Tensor | None:
        if moved is None or stayed is None:
            return None
        return torch.where(accepted if moved.dim() == 1 else accepted[:, None], moved, stayed)

    position, momentum, potential, gradient = (pick(a, b) for a, b in zip(end[:4], stay[:4], strict=True))
    assert position is not None
    assert momentum is not None
    return State(position, momentum, potential, gradient, end.owed, end.trajectories)
