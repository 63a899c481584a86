"""Can a sampler retrace its steps? If not, no Metropolis test can correct it.

A step takes (θ, m) with some noise to (θ', m'). It can be corrected only if, from (θ', −m') and with the same
minibatches in reverse order, *some* noise takes it to (θ, −m): else the density of the way back is zero, and so is the
acceptance probability. `retrace` looks for that noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ggmc.dynamics import length as lengths
from ggmc.dynamics.scheme import Dynamics, Scheme, State, run
from ggmc.errors import BadInput
from ggmc.kernels.ggmc import fixed_mass
from ggmc.kernels.sghmc import SGHMC, euler
from ggmc.targets.base import Target

Update = Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
"""(position [1, d], momentum [1, d], noise [n, 1, d], backwards) -> position, momentum; backwards, the tape is too."""

ITERATIONS = 200
NUDGE = 1e-4
NEAR = 1e-6  # of the way that the step went


class Retraced(NamedTuple):
    """How near the way back comes."""

    distance: float
    """From (θ, −m) to the nearest point that any noise reaches, in units of the way the step went."""
    noise: Tensor
    """The noise that comes nearest."""

    @property
    def possible(self) -> bool:
        return self.distance < NEAR


def retrace(sampler: Any, target: Target, noises: int | None = None, seed: int = 0) -> Retraced:
    """Take a step, then look for the noise of the way back.

    `sampler` is a kernel of this library, or a function `update(position, momentum, noise, backwards)` of your own that
    carries out one step with `noises` standard normal draws [noises, 1, d].

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(2, dtype=torch.float64))
        >>> ggmc.retrace(ggmc.GGMC(step_size=0.3), target).possible
        True
        >>> ggmc.retrace(ggmc.SGHMC(step_size=0.3), target).possible
        False
    """
    generator = torch.Generator().manual_seed(seed)
    if target.dtype != torch.float64:
        raise BadInput(f"retrace needs a target in float64 to tell zero from small, got {target.dtype}")
    if getattr(sampler, "step_size", 1.0) is None:
        raise BadInput("retrace needs a kernel with a step_size, got None")
    update: Update
    if hasattr(sampler, "bind"):
        update, noises = _update_of(sampler, target, generator)
    elif callable(sampler) and noises is not None:
        update = sampler  # pyright: ignore[reportAssignmentType]
    else:
        raise BadInput(f"retrace needs a kernel, or a function and its number of noises, got {sampler!r}")
    position = target.starts(1, generator).double()
    shape = (noises, *position.shape)
    momentum = torch.randn(position.shape, generator=generator, dtype=torch.float64)
    there, after = update(position, momentum, torch.randn(shape, generator=generator, dtype=torch.float64), False)
    way = torch.cat([there - position, after - momentum]).norm().item()

    def miss(noise: Tensor) -> Tensor:
        back, flipped = update(there, -after, noise.view(shape), True)
        return torch.cat([back - position, flipped + momentum]).flatten()

    noise = torch.zeros(math.prod(shape), dtype=torch.float64)
    if noise.numel() == 0:
        return Retraced(miss(noise).norm().item() / way, noise.view(shape))
    nudges = NUDGE * torch.eye(len(noise), dtype=torch.float64)
    for _ in range(ITERATIONS):  # Gauss and Newton, by differences: guides do not keep their graph
        slope = torch.stack([(miss(noise + nudge) - miss(noise - nudge)) / (2 * NUDGE) for nudge in nudges], 1)
        change = torch.linalg.lstsq(slope, -miss(noise)[:, None], driver="gelsd").solution[:, 0]
        here = miss(noise).norm()
        while not miss(noise + change).norm() < here and change.norm() > 1e-12 * (1 + noise.norm()):
            change = change / 2
        noise = noise + change
        if change.norm() < 1e-12 * (1 + noise.norm()):
            break
    return Retraced(miss(noise).norm().item() / way, noise.view(shape))


def _update_of(kernel: Any, target: Target, generator: torch.Generator) -> tuple[Update, int]:
    """One trajectory of a kernel as a function of its noise, and how many noises that takes."""
    field = kernel.guide.bind(target)
    is_word = not isinstance(kernel, SGHMC)
    settings: Any = kernel.as_ggmc() if is_word else kernel
    # Any finite friction will do to see where noise can reach; infinite friction has it reach everywhere.
    friction = min(settings.friction, 1.0 / settings.step_size)
    dynamics = Dynamics(settings.step_size, friction, settings.temperature, fixed_mass(settings.mass, target))
    steps = lengths.ends(lengths.in_steps(settings.steps, field))[0]
    along = getattr(settings, "along", None)
    plan = Scheme(settings.scheme).plan(steps, along and along.factors(steps)) if is_word else None
    tape = field.tape(plan.gradients if plan else steps, 1, generator)
    reversed_tape: Any = tape.flip(0) if isinstance(tape, Tensor) else tape[::-1]

    def update(position: Tensor, momentum: Tensor, noise: Tensor, backwards: bool) -> tuple[Tensor, Tensor]:
        state = State(position, momentum, None, None)
        its: Any = reversed_tape if backwards else tape
        if plan is None:
            return euler(state, dynamics, field, its, iter(noise))
        end, _ = run(plan, state, dynamics, field, its, iter(noise))
        return end.position, end.momentum

    if plan is None:
        return update, steps
    return update, sum(move.letter in "OC" and dynamics.decay(move.time) > 0 for move in plan.moves)
