"""The one accept/reject.

For a trajectory from s = (θ, m) to s' = (θ', m') whose kicks did the work W,

    log α = −(1/T) · [ U(θ') − U(θ) + W ],      accept with probability min(1, α).

Accepted, the chain goes to s'. Rejected, it goes to F(s) = (θ, −m): same position, *negated* momentum, the *start's*
potential and gradient. Without the flip the chain samples something else, and on symmetric targets nobody notices. A
non-finite end means α = 0: it is rejected and counted as divergent, never tried again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ggmc.scheme import State

DIVERGENCE = 1000.0  # an energy error of this many temperatures is called a divergence too, as is usual in the field


class Info(NamedTuple):
    """What one trajectory of each chain did; every tensor has shape [chains]."""

    log_accept: Tensor  # log α, float64; −∞ where the end is not finite
    accepted: Tensor  # bool
    diverging: Tensor  # bool
    energy_error: Tensor  # U(θ') − U(θ) + W, float64
    work: Tensor  # W, float64
    steps: int


def log_uniforms(chains: int, generator: torch.Generator) -> Tensor:
    """log u for each chain, u ~ U(0, 1]: every chain decides for itself."""
    u = torch.rand(chains, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.log1p(-u)


def decide(
    start: State, end: State, work: Tensor, steps: int, temperature: float, log_uniform: Tensor, adjust: bool = True
) -> tuple[State, Info]:
    """Accept or flip, chain by chain. With `adjust=False` every finite end is accepted, and log α only reported."""
    assert start.potential is not None
    assert end.potential is not None
    energy_error = end.potential - start.potential + work
    finite = energy_error.isfinite() & end.position.isfinite().all(-1) & end.momentum.isfinite().all(-1)
    # Temperature 0 has no test to pass, only a direction: any rise in energy is impossible, any fall certain.
    log_ratio = -energy_error / temperature if temperature else -energy_error.sign() * torch.inf
    log_accept = torch.where(finite, log_ratio, -torch.inf)
    accepted = finite & (log_uniform < log_accept) if adjust else finite
    diverging = ~finite | (energy_error > DIVERGENCE * temperature) if temperature else ~finite
    info = Info(log_accept, accepted, diverging, energy_error, work, steps)
    return choose(accepted, end, flip(start)), info


def flip(state: State) -> State:
    """F: the same point, about to travel back where it came from."""
    return state._replace(momentum=-state.momentum)


def choose(accepted: Tensor, end: State, stay: State) -> State:
    """Each chain's row from one state or the other."""

    def pick(moved: Tensor | None, stayed: Tensor | None) -> Tensor | None:
        if moved is None or stayed is None:
            return None
        return torch.where(accepted if moved.dim() == 1 else accepted[:, None], moved, stayed)

    return State(
        position=torch.where(accepted[:, None], end.position, stay.position),
        momentum=torch.where(accepted[:, None], end.momentum, stay.momentum),
        potential=pick(end.potential, stay.potential),
        gradient=pick(end.gradient, stay.gradient),
    )
