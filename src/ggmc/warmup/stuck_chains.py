"""Chains that early warm-up finds trapped far above the others."""

from __future__ import annotations

import logging
import math
from typing import Any

from ggmc.dynamics import metropolis
from ggmc.dynamics.scheme import State

log = logging.getLogger("ggmc")

LOST, LOST_PER_ROOT_DIMENSION = 10.0, 5.0  # how far above the others, in temperatures, a chain counts as left behind


def left_behind_by(state: State, temperature: float) -> float:
    """A difference in potential that chains in equilibrium do not show: theirs is a few T√(d/2)."""
    return temperature * (LOST + LOST_PER_ROOT_DIMENSION * math.sqrt(state.position.shape[-1]))


def bring_back_lost_chains(state: State, temperature: float) -> State:
    """Move a chain that is far above the others in potential to where the best of them is.

    A chain left so far behind sits in a trap that holds no probability to speak of, and would spoil the pooled mass
    for all. Modes of comparable height are left alone: that the chains disagree about them is for R̂ to show.
    """
    assert state.potential is not None
    lost = state.potential > state.potential.median() + left_behind_by(state, temperature)
    best = int(state.potential.argmin())
    for chain in lost.nonzero().flatten().tolist():
        log.warning(
            "Warm-up: chain %d was left behind at a potential of %.4g and goes on from chain %d, at %.4g.",
            chain,
            state.potential[chain].item(),
            best,
            state.potential[best].item(),
        )

    everyone_at_best: list[Any] = [None if rows is None else rows[best].expand_as(rows) for rows in state[:4]]
    return metropolis.choose(lost, state._replace(**dict(zip(state._fields, everyone_at_best, strict=False))), state)
