"""Can a sampler retrace its steps? If not, no Metropolis test can correct it.

A step takes (θ, m) with some noise to (θ', m'). It can be corrected only if, from (θ', −m') and with the same
minibatches in reverse order, *some* noise takes it to (θ, −m): else the density of the way back is zero, and so is the
acceptance probability. A trajectory must be retraced step by step: over several steps there is noise enough to connect
almost any two ends, by a path that is not the way back. For the same reason letters such as O, which are reversible by
themselves, are retraced by themselves. `retrace` looks for the noise of each part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from ggmc.dynamics.schedule import Factors
from ggmc.dynamics.scheme import Move, Scheme
from ggmc.dynamics.state import State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import BadInput, require_count, require_seed
from ggmc.kernels.base import Kernel
from ggmc.kernels.words import WordKernel
from ggmc.targets.base import Target, require_target

Update = Callable[[Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]
"""(position [1, d], momentum [1, d], noise [n, 1, d], backwards) -> position, momentum; backwards, the tape is too."""

Point = tuple[Tensor, ...]
"""Position [1, d], momentum [1, d], and a kernel's own variables, which must be retraced too."""

ITERATIONS = 200
NUDGE = 1e-4
NEAR = 1e-6  # of the way that the step went


class Retraced(NamedTuple):
    """How near the way back comes."""

    distance: float
    """From (θ, −m), and a kernel's own variables as they were, to the nearest point that any noise reaches, in units of
    the way the step went; of the worst step."""
    noise: Tensor
    """The noise that comes nearest, in that step."""

    @property
    def possible(self) -> bool:
        """Whether the way back exists."""
        return self.distance < NEAR


def retrace(sampler: Kernel | Update, target: Target, noises: int | None = None, seed: int = 0) -> Retraced:
    """Take a trajectory, then look for the noise of the way back, step by step.

    Args:
        sampler: A kernel that is a word, or a function `update(position, momentum, noise, backwards)` of your own that
            carries out one step.
        target: A target in float64.
        noises: For a function: how many standard normal draws [noises, 1, d] it takes.
        seed: Of the start, the tape and the noise.

    Returns:
        The distance by which the worst step misses; `possible` tells whether it is zero up to rounding.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(2, dtype=torch.float64))
        >>> ggmc.retrace(ggmc.GGMC(step_size=0.3), target).possible
        True
        >>> ggmc.retrace(ggmc.SGHMC(step_size=0.3, steps=4), target).possible
        False
    """
    require_target(target)
    require_seed("seed", seed)
    if noises is not None:
        require_count("noises", noises, least=0)
    generator = torch.Generator(target.device).manual_seed(seed)
    if target.dtype != torch.float64:
        raise BadInput(f"retrace needs a target in float64 to tell zero from small, got {target.dtype}")
    own: Sequence[Callable[[Tensor], Tensor]] = ()
    if isinstance(sampler, Kernel):
        segments, own = _segments_of(sampler, target, generator)
    elif callable(sampler) and noises is not None:
        segments = [_Segment(partial(_one_step, sampler), noises)]
    else:
        raise BadInput(f"retrace needs a kernel, or a function and its number of noises, got {sampler!r}")
    position = target.starts(1, generator).double()
    momentum = torch.randn(position.shape, generator=generator, dtype=torch.float64, device=target.device)
    ends: list[Point] = [(position, momentum, *(first(position) for first in own))]
    for segment in segments:
        noise = torch.randn(
            (segment.noises, *position.shape), generator=generator, dtype=torch.float64, device=target.device
        )
        ends.append(segment.move(ends[-1], noise, False))
    worst = Retraced(0.0, torch.zeros(0, device=target.device))
    for number, segment in enumerate(segments):  # the way back carries out the same segments in the same order
        found = _nearest(segment, ends[-1 - number], ends[-2 - number])
        worst = found if not found.distance <= worst.distance else worst
    return worst


@dataclass(frozen=True)
class _Segment:
    """One step: how it moves, forwards or as that part of the way back."""

    move: Callable[[Point, Tensor, bool], Point]
    noises: int


def _one_step(update: Update, here: Point, noise: Tensor, backwards: bool) -> Point:
    after = tuple(update(here[0], here[1], noise, backwards))
    if [part.shape for part in after] != [part.shape for part in here]:
        raise BadInput(
            f"the function must return a position and a momentum, {list(here[0].shape)} each, got shapes "
            f"{[list(part.shape) for part in after]}"
        )
    return after


def _flip(point: Point) -> Point:
    return point[0], -point[1], *point[2:]


def _difference(one: Point, other: Point) -> Tensor:
    return torch.cat([(a - b).flatten() for a, b in zip(one, other, strict=True)])


def _nearest(segment: _Segment, there: Point, wanted: Point) -> Retraced:
    """How near the segment comes to `wanted` on the way back from `there`, by the best noise."""
    position = there[0]
    shape = (segment.noises, *position.shape)
    way = _difference(there, wanted).norm().clamp_min(1e-12).item()

    def miss(noise: Tensor) -> Tensor:
        return _difference(segment.move(_flip(there), noise.view(shape), True), _flip(wanted))

    noise = torch.zeros(math.prod(shape), dtype=torch.float64, device=position.device)
    if noise.numel() == 0:
        return Retraced(miss(noise).norm().item() / way, noise.view(shape))
    nudges = NUDGE * torch.eye(len(noise), dtype=torch.float64, device=position.device)
    for _ in range(ITERATIONS):  # Gauss and Newton, by differences: guides do not keep their graph
        slope = torch.stack([(miss(noise + nudge) - miss(noise - nudge)) / (2 * NUDGE) for nudge in nudges], 1)
        change = torch.linalg.lstsq(slope.cpu(), -miss(noise)[:, None].cpu(), driver="gelsd").solution[:, 0].to(noise)
        here = miss(noise).norm()
        while not miss(noise + change).norm() < here and change.norm() > 1e-12 * (1 + noise.norm()):
            change = change / 2
        noise = noise + change
        if change.norm() < 1e-12 * (1 + noise.norm()):
            break
    return Retraced(miss(noise).norm().item() / way, noise.view(shape))


def _segments_of(
    kernel: Kernel, target: Target, generator: torch.Generator
) -> tuple[list[_Segment], list[Callable[[Tensor], Tensor]]]:
    """A trajectory of a kernel, step by step, each a function of its noise; and its own variables' first values."""
    if kernel.step_size is None:
        raise BadInput("retrace needs a kernel with a step_size, got None")
    if not isinstance(kernel, WordKernel):
        raise BadInput(f"retrace needs a kernel that is a word, or a function that carries out a step, got {kernel!r}")
    field = kernel.guide.bind(target)
    sampler = _untested(kernel).sampler(target, field)
    steps, along = sampler.parameters.steps[0], sampler.program.along
    factors = None if along is None else along.factors(steps)
    there = back = _pieces(sampler.scheme, steps, factors)
    if along is not None and along.either_way and factors is not None:
        back = _pieces(sampler.scheme, steps, factors.reversed())
    # Any finite friction will do to see where noise can reach; infinite friction has it reach everywhere.
    friction = min(sampler.program.friction, 1.0 / kernel.step_size)
    parameters = sampler.parameters.change(friction=friction)
    entries = sampler.scheme.plan(steps, factors).gradients
    tape = field.tape(entries, 1, generator)

    # Where a segment's kicks read the tape: a kick that shares its position with the one before shares its entry.
    places: list[int] = []
    place, known = -1, False
    for moves in there:
        first: int | None = None
        for move in moves:
            letter = sampler.scheme.letters[move.letter]
            if letter.drifts:
                known = False
            elif letter.kicks:
                place, known = (place, True) if known else (place + 1, True)
                first = place if first is None else first
        places.append(max(place, 0) if first is None else first)

    names = list(sampler.program.variables)

    def move_of(number: int) -> Callable[[Point, Tensor, bool], Point]:
        def move(here: Point, noise: Tensor, backwards: bool) -> Point:
            moves: tuple[Move, ...] = back[number] if backwards else there[number]
            entries = None if tape is None else (tape.flip(0) if backwards else tape)[places[number] :]
            state = State(here[0], here[1], extra=dict(zip(names, here[2:], strict=True)))
            path = Trajectory(state, parameters, field, entries, iter(noise).__next__, sampler.program.letters)
            path.run(moves)
            return path.position, path.momentum, *(path.extra[name] for name in names)

        return move

    def noises(moves: tuple[Move, ...]) -> int:
        letters = sampler.scheme.letters
        return sum(letters[move.letter].noises(float(move.time), parameters) for move in moves)

    segments = [_Segment(move_of(number), noises(moves)) for number, moves in enumerate(there)]
    return segments, list(sampler.program.variables.values())


def _pieces(scheme: Scheme, steps: int, factors: Factors | None) -> list[tuple[Move, ...]]:
    """The moves of each step, where letters such as O, whose noise is part of the path, stand by themselves.

    Together with what stands between them, the noise of two O's could hide that the way between them has no way back.
    """
    return [
        tuple(piece)
        for moves in scheme.segments(steps, factors)
        for _, piece in groupby(moves, key=lambda move: scheme.letters[move.letter].outside)
    ]


def _untested(kernel: WordKernel) -> WordKernel:
    """The same without its test: whether it can be retraced is the question."""
    return replace(kernel, adjust=False)  # pyright: ignore[reportArgumentType]
