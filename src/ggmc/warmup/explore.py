"""Trajectories that are looked at all along their way, so that their best length can be told."""

from __future__ import annotations

import math

import torch

from ggmc.dynamics import length as lengths
from ggmc.dynamics import metropolis
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.scheme import Dynamics, Scheme, State, normals, refresh, run
from ggmc.guides import Field
from ggmc.targets.base import Target
from ggmc.warmup.length import Paths


def explore(
    word: Scheme,
    unit: int,
    reach: int,
    state: State,
    dynamics: Dynamics,
    target: Target,
    field: Field,
    paths: Paths,
    generator: torch.Generator,
) -> tuple[State, Info]:
    """Go up to `reach` units of `unit` steps from a fresh momentum; `paths` keeps where each unit ends."""
    plan = word.plan(unit)
    chains = len(state.position)
    noise = normals(state.position, generator)
    log_uniform = metropolis.log_uniforms(chains, generator)
    units = lengths.draw((1, reach), generator)
    # One tape for the whole trajectory; where a unit's last kick meets the next one's first, they share an entry.
    stride = word.plan(2 * unit).gradients - plan.gradients
    tape = field.tape(stride * (units - 1) + plan.gradients, chains, generator)

    start = here = state._replace(momentum=refresh(state.momentum, math.inf, dynamics, noise))
    assert start.potential is not None
    work = torch.zeros_like(start.potential)
    positions = [paths.watched(start.position)]
    log_accepts = [torch.zeros_like(start.potential)]
    for number in range(units):
        momentum = refresh(here.momentum, dynamics.decay(plan.outer), dynamics, noise)
        part = tape[number * stride : number * stride + plan.gradients]
        here, more = run(plan, here._replace(momentum=momentum), dynamics, field, part, noise)
        work = work + more
        if here.potential is None and (field.deterministic or number == units - 1):
            here = here._replace(potential=target.potential(here.position))
        positions.append(paths.watched(here.position))
        if here.potential is not None:
            log_accepts.append(-(here.potential - start.potential + work) / dynamics.temperature)
    if len(log_accepts) < len(positions):  # not tested on the way: taken to have grown in proportion
        log_accepts = [log_accepts[-1] * (number / units) for number in range(units + 1)]
    acceptances = torch.stack(log_accepts).nan_to_num(-torch.inf).clamp_max(0.0).exp()
    paths.add(torch.stack(positions), acceptances)
    here = here._replace(trajectories=start.trajectories + 1)
    return metropolis.decide(start, here, work, units * unit, dynamics.temperature, log_uniform)
