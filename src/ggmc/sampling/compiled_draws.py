"""Whole draws by one call: refreshment, moves, test and statistics of many trajectories, compiled.

Three programs take turns, each made of the very functions that carry out single trajectories: the letters outside the
test, the step that is repeated, and `WordSampler.test` with what is kept of a draw. The random numbers of each draw are
drawn before, in the order in which a single trajectory draws them: so it does not matter how draws are put together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]

from ggmc.dynamics import length, metropolis
from ggmc.dynamics.compiled_stretch import Stretch, StretchProgram
from ggmc.dynamics.scheme import Move
from ggmc.dynamics.state import Info, State, normals
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import Condition, NotExact
from ggmc.kernels import WordSampler
from ggmc.kernels.words import Setup
from ggmc.programs.chained import prepare, take_turns
from ggmc.programs.compiled import Compiled
from ggmc.programs.loops import CannotCompile
from ggmc.programs.record import as_written, record

log = logging.getLogger("ggmc")

Describe = Callable[[State, Info], dict[str, Tensor]]
"""What is kept of a draw, beside the position: [chains, ...] each, by name."""
ALIKE = 1e-4  # what rounding may change of an acceptance probability
STEPS = "n_steps"
"""Of these statistics, the one that is known before."""


class Draws(NamedTuple):
    """Some consecutive draws of every chain."""

    position: Tensor
    """[draws, chains, d]."""
    stats: dict[str, Tensor]
    """[draws, chains, ...] each."""


class _Randomness(NamedTuple):
    """The random numbers of some draws."""

    steps: list[int]
    log_uniforms: list[Tensor]
    """[chains] each."""
    refreshing: list[list[Tensor]]
    """The noises before each trajectory, [chains, d] each."""
    moving: list[list[Tensor]]
    """Those along it."""


class CompiledDraws:
    """The draws of a sampler whose moves are compiled.

    Args:
        sampler: After warm-up: a tested word whose steps are alike, with a deterministic gradient.
        describe: What is kept of each draw.
        state: Where the chains are.
    """

    def __init__(self, sampler: WordSampler, describe: Describe, state: State):
        self._sampler, self._describe = sampler, describe
        self._stretches: dict[int, tuple[StretchProgram, Stretch]] = {}
        """The refreshment and its numbers, by the steps of the trajectory that follows."""
        unit = sampler.scheme.unit
        if not can_be_compiled(sampler, state) or unit is None:
            raise CannotCompile("its draws are no plain words")
        self._step, self._unit = self._program(state, unit)
        if not self._step.repeats or self._step.gives != (True, True):
            raise CannotCompile("a step does not end with a gradient and a potential")
        self._refreshes = bool(sampler.scheme.plan(1).before)
        if self._refreshes:
            self._refreshment(state, sampler.parameters.steps[0])
        example = [*_of(state), *_of(state), torch.zeros_like(_known(state.potential)), _known(state.potential)]
        inputs = [x.clone(memory_format=torch.contiguous_format) for x in example]
        calls, (after, stats) = record(lambda: self._tested(inputs))
        self._names = [name for name in stats if name != STEPS]
        results = [*after, after[0], *(stats[name] for name in self._names)]
        self._test = Compiled(calls, inputs, results, {})
        prepare()
        self._blocks = 0

    def __call__(self, state: State, number: int, generator: torch.Generator) -> tuple[State, Draws]:
        """Some draws.

        Args:
            state: Where the chains are.
            number: How many.
            generator: Of the random numbers.
        """
        self._sampler.check_unchanged(self._sampler.parameters)
        random = self._drawn(state, number, generator)
        self._blocks += 1
        if self._blocks & (self._blocks - 1) == 0:  # at powers of two
            self._check(state, random)
        try:
            return self._compiled(state, random)
        except LinAlgError:  # of one chain, which must not stop the others; with the same numbers, so without bias
            return self._one_by_one(state, random)

    def _program(self, state: State, moves: Sequence[Move]) -> tuple[StretchProgram, Stretch]:
        assert self._sampler.compiled is not None
        path = Trajectory(state, self._sampler.parameters, self._sampler.field, None, lambda: state.momentum)
        found = self._sampler.compiled.program_of(path, moves)
        if found is None:
            raise CannotCompile("some of its moves cannot be compiled")
        return found

    def _drawn(self, state: State, number: int, generator: torch.Generator) -> _Randomness:
        """The random numbers, in the order of `WordSampler.step`."""
        made, noise = _Randomness([], [], [], []), normals(state.position, generator)
        chains, moving = len(state.position), self._step.noises
        for _ in range(number):
            steps = length.draw(self._sampler.parameters.steps, generator)
            made.steps.append(steps)
            made.log_uniforms.append(metropolis.log_uniforms(chains, generator))
            before = self._refreshment(state, steps)[0].noises if self._refreshes else 0
            made.refreshing.append([noise() for _ in range(before)])
            made.moving.append([noise() for _ in range(steps * moving)])
        return made

    def _refreshment(self, state: State, steps: int) -> tuple[StretchProgram, Stretch]:
        if steps not in self._stretches:
            self._stretches[steps] = self._program(state, self._sampler.scheme.plan(steps).before)
        return self._stretches[steps]

    def _compiled(self, state: State, random: _Randomness) -> tuple[State, Draws]:
        number, chains = len(random.steps), len(state.position)
        here = [x.clone(memory_format=torch.contiguous_format) for x in _of(state)]
        there = [torch.empty_like(x) for x in here]
        position, momentum, gradient, potential = here
        nothing, work, ignored = (torch.zeros_like(potential) for _ in range(3))
        rows = torch.empty((number, *position.shape), dtype=position.dtype)
        stats = [torch.empty((number, *shape), dtype=dtype) for shape, dtype in self._test.made[5:]]
        programs, turns = [self._step.compiled, self._test], []
        fixed = self._step.fixed(self._sampler.parameters)
        once = [position, momentum, nothing, gradient, potential, *fixed]
        if self._refreshes:
            found = [self._refreshment(state, steps) for steps in random.steps]
            program = found[0][0]
            noises = [torch.stack(each) for each in zip(*random.refreshing, strict=True)]
            numbers = [torch.cat(each) for each in zip(*(stretch.tensors for _, stretch in found), strict=True)]
            inputs = [*once, *noises, *numbers]
            each = range(program.first, len(inputs))
            turns.append(
                program.compiled.turn(None, inputs, each, [position, momentum, ignored, gradient, potential], ())
            )
            programs.append(program.compiled)
        moving = [noise for draw in random.moving for noise in draw]
        noises = [torch.stack(moving[i :: self._step.noises]) for i in range(self._step.noises)]
        inputs = [*once, *noises, *(x[0] for x in self._unit.tensors)]
        times = torch.tensor(random.steps)
        each = range(self._step.first, self._step.first + len(noises))
        ends = [there[0], there[1], work, there[2], there[3]]
        turns.append(self._step.compiled.turn(times, inputs, each, ends, ()))
        inputs = [*here, *there, work, torch.stack(random.log_uniforms)]
        results = [*here, rows, *stats]
        turns.append(self._test.turn(None, inputs, {len(inputs) - 1}, results, range(4, len(results))))
        take_turns(number, programs, turns)
        found_stats = dict(zip(self._names, stats, strict=True))
        found_stats[STEPS] = times[:, None].expand(number, chains)
        after = State(position, momentum, potential, gradient, trajectories=state.trajectories + number)
        return after, Draws(rows, found_stats)

    def _tested(self, inputs: Sequence[Tensor]) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The test of one trajectory, and what is kept of it."""
        start, end = (State(p, m, u, g) for p, m, g, u in (inputs[:4], inputs[4:8]))
        after, info = self._sampler.test(start, end, inputs[8], self._setup(1, inputs[9], iter(())))
        return _of(after), self._describe(after, info)

    def _setup(self, steps: int, log_uniform: Tensor, noises: Iterator[Tensor]) -> Setup:
        sampler = self._sampler
        plan, generator = sampler.scheme.plan(steps), torch.Generator("cpu")  # of which nothing is drawn
        return Setup(steps, plan, None, sampler.parameters, lambda: next(noises), log_uniform, None, None, generator)

    def _one_by_one(self, state: State, random: _Randomness) -> tuple[State, Draws]:
        """The same draws as single trajectories, by the functions as they were written."""
        compiled, self._sampler.compiled = self._sampler.compiled, None
        try:
            with as_written():
                return self._as_written(state, random)
        finally:
            self._sampler.compiled = compiled

    def _as_written(self, state: State, random: _Randomness) -> tuple[State, Draws]:
        positions: list[Tensor] = []
        kept: list[dict[str, Tensor]] = []
        for steps, log_uniform, refreshing, moving in zip(*random, strict=True):
            setup = self._setup(steps, log_uniform, iter([*refreshing, *moving]))
            state, info = self._sampler.trajectory(self._sampler.refreshed(state, setup), setup)
            positions.append(state.position)
            kept.append(self._describe(state, info))
        return state, Draws(torch.stack(positions), {n: torch.stack([one[n] for one in kept]) for n in kept[0]})

    def _check(self, state: State, random: _Randomness) -> None:
        """Compare a step with a single trajectory of the same random numbers: in long ones rounding grows."""
        moving = [random.moving[0][: self._step.noises]]
        first = _Randomness([1], random.log_uniforms[:1], random.refreshing[:1], moving)
        try:
            found = self._compiled(state, first)[1]
        except LinAlgError:
            return
        expected = self._one_by_one(state, first)[1]
        one, other = (draws.stats["log_accept"][0] for draws in (found, expected))
        if ((one.clamp_max(0.0).exp() - other.clamp_max(0.0).exp()).abs() > ALIKE).any():
            raise NotExact(
                "compiled trajectories no longer give what single ones give: the density or guide reads something that "
                "has changed since. It must be a function of its arguments alone: after a change, make a new target",
                Condition.POTENTIAL,
            )


def can_be_compiled(sampler: object, state: State) -> bool:
    """Whether whole draws can be one call: of tested words whose steps are alike, with a deterministic gradient."""
    if type(sampler) is not WordSampler or sampler.compiled is None or sampler.compiled.gave_up:
        return False
    program = sampler.program
    plain = program.along is None and program.over is None and not program.explain and not program.variables
    known = state.gradient is not None and state.potential is not None and state.untested_work is None
    return plain and known and sampler.adjust and not program.fresh_momentum and program.statistics is None


def compiled_draws(sampler: object, describe: Describe, state: State) -> CompiledDraws | None:
    """The draws of a sampler by the block; None where they are single trajectories.

    Args:
        sampler: After warm-up.
        describe: What is kept of each draw.
        state: Where the chains are.
    """
    if not isinstance(sampler, WordSampler) or not can_be_compiled(sampler, state) or sampler.scheme.unit is None:
        return None
    try:
        return CompiledDraws(sampler, describe, state)
    except Exception as reason:  # whatever cannot be compiled is carried out as it is
        log.debug("draws are single trajectories: %s", reason)
        return None


def _of(state: State) -> list[Tensor]:
    return [state.position, state.momentum, _known(state.gradient), _known(state.potential)]


def _known(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor
