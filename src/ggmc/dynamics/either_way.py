"""A trajectory whose schedule each chain travels forwards or backwards, by a coin of its own.

The coin does not look at the state, and the way back has the other face's probability, one half too: that makes any
schedule exact. One coin for all chains would leave each exact but correlate them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics.scheme import Dynamics, Plan, State, normals, run
from ggmc.guides import Field


def run_either_way(
    plans: tuple[Plan, Plan], state: State, dynamics: Dynamics, field: Field, tape: Any, generator: torch.Generator
) -> tuple[State, Tensor]:
    """As `scheme.run`, with one plan or the other."""
    coin = torch.rand(len(state.position), generator=generator, device=generator.device) < 0.5
    rows: list[Tensor] = []
    ends: list[State] = []
    works: list[Tensor] = []
    for plan, chosen in zip(plans, (~coin, coin), strict=True):
        here = chosen.nonzero().flatten()
        if len(here):
            part = _rows(state, here)
            noise = normals(part.position, generator)
            end, work = run(plan, part, dynamics, field, field.tape_of(tape, here), noise)
            rows.append(here)
            ends.append(end)
            works.append(work)
    back = torch.cat(rows).argsort()
    joined: list[Any] = []
    for parts in zip(*(end[:5] for end in ends), strict=True):
        joined.append(None if parts[0] is None else torch.cat(parts)[back])  # pyright: ignore
    return State(*joined, trajectories=ends[0].trajectories), torch.cat(works)[back]


def _rows(state: State, rows: Tensor) -> State:
    taken: list[Any] = [None if tensor is None else tensor[rows] for tensor in state[:5]]
    return State(*taken, trajectories=state.trajectories)
