"""WordKernel and WordSampler: any splitting scheme, carried out and tested.

A kernel states its word, friction, refreshment and test as a `Program`, with every default filled in. `WordSampler`
draws the tape, carries the trajectory out, and gives it to the one test in `ggmc.dynamics.metropolis`. A kernel with
another rule, such as several tests along a trajectory, overrides `WordKernel.on` and `WordSampler.trajectory`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from ggmc.dynamics import length, metropolis
from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.dynamics.exactness import (
    Unchanged,
    not_retraceable,
    refuse_letters_without_way_back,
    refuse_moving_temperature,
)
from ggmc.dynamics.guide_noise import Comparison
from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.mass import fixed_mass
from ggmc.dynamics.schedule import Factors
from ggmc.dynamics.scheme import Plan, Scheme
from ggmc.dynamics.state import Info, Parameters, State, normals
from ggmc.dynamics.trajectory import Trajectory, run_either_way
from ggmc.errors import BadInput, Condition, NotExact
from ggmc.guides.base import GradientField
from ggmc.kernels.base import NOT_TUNED, Kernel, Sampler, as_rows, check_start
from ggmc.kernels.program import Program
from ggmc.targets.base import Target


class WordKernel(Kernel):
    """A kernel that is a word: it states a program."""

    @abstractmethod
    def program(self, field: GradientField) -> Program:
        """What this kernel does with a bound guide, every default filled in."""

    def on(self, program: Program, target: Target, field: GradientField) -> WordSampler:
        """A program carried out on a target. A kernel whose trajectories are more than one test of one plan, such as
        several chances, returns a subclass with a `trajectory` of its own. Warm-up then finds the trajectory's length
        with one test at its end, and the step size, in its closing phase, with the kernel's own rule.

        Args:
            program: From `program`; warm-up leaves out what it does not need.
            target: What is sampled.
            field: The guide, bound.
        """
        return WordSampler(self, program, target, field)

    @final
    def sampler(self, target: Target, field: GradientField) -> WordSampler:
        return self.on(self.program(field), target, field)


class Setup(NamedTuple):
    """What is drawn or known before a trajectory starts, independently of the state."""

    steps: int
    plan: Plan
    factors: Factors | None
    """Of a schedule along the trajectory."""
    parameters: Parameters
    noise: Callable[[], Tensor]
    """Draws standard normal noise in the shape of the momentum."""
    log_uniform: Tensor
    """Of the test, [chains]."""
    tape: Tensor | None
    compare: Comparison | None
    generator: torch.Generator


class WordSampler(Sampler):
    """A program carried out on a target.

    Args:
        kernel: Gives step size, temperature, mass, and whether trajectories are tested.
        program: The rest.
        target: What is sampled.
        field: The guide, bound.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=torch.float64))
        >>> kernel = ggmc.HMC(0.1, steps=5)
        >>> sampler = kernel.sampler(target, kernel.guide.bind(target))
        >>> generator = torch.Generator().manual_seed(0)
        >>> state, info = sampler.step(sampler.init(torch.zeros(2, 1), generator), sampler.parameters, generator)
        >>> info.steps
        5
    """

    def __init__(self, kernel: WordKernel, program: Program, target: Target, field: GradientField):
        self.program = program
        self.scheme = Scheme(program.word, program.letters)
        parameters = Parameters.of(
            NOT_TUNED if kernel.step_size is None else kernel.step_size,
            program.friction,
            kernel.temperature,
            fixed_mass(kernel.mass, target.start),
            length.in_steps(program.steps, field, self.scheme.gradients_per_step),
            target.device,
        )
        refusal = not_retraceable(self.scheme, parameters.steps, program.along, field)
        if program.not_testable is not None:
            refusal = NotExact(program.not_testable, Condition.WORD)
        if kernel.adjust and refusal is not None:
            raise refusal
        self.not_testable = None if refusal is None else str(refusal)
        lengths = length.some(parameters.steps) if kernel.adjust else ()
        gradients = [self.scheme.plan(number).gradients for number in lengths]
        super().__init__(target, field, parameters, adjust=kernel.adjust, gradients=gradients)
        self.gradients_per_step = self.scheme.gradients_per_step
        if program.along is not None and not program.along.keeps_temperature and not self.scheme.tempered:
            raise BadInput(
                f"temperature={program.along.temperature!r} along a trajectory has no effect on the word "
                f"{program.word!r}, whose noise is drawn outside the steps: use a word such as OBABO, or no schedule"
            )
        if self.adjust:
            refuse_moving_temperature(program.over)
            variables = {name: first(target.start[None]) for name, first in program.variables.items()}
            refuse_letters_without_way_back(self.scheme, target.start[None], variables, parameters, field)
        elif self.not_testable is not None:
            reason = self.not_testable.replace(", or adjust=False", "")
            self.remarks.append(f"log α is reported as −∞: {reason}.")
        if not self._refreshes():
            self.remarks.append(
                f"The momentum is never refreshed (friction {program.friction:g}, scheme {program.word}), so the "
                "chains cannot reach every energy: use a positive friction and a word with an O."
            )
        self.compiled: CompiledMoves | None = None
        """Carries out the moves of trajectories, where they are compiled."""
        self._frozen = Unchanged(field.frozen)
        self._mass, self._frozen_mass = parameters.mass, Unchanged(parameters.mass.tensors)

    def init(self, position: Tensor, generator: torch.Generator) -> State:
        """Positions as given, momenta from their distribution. A start that is not finite is an error."""
        position = as_rows(self.target, position)
        gradient, potential = self.field(position, None) if self.field.deterministic else (None, None)
        if potential is None:
            potential = self.target.potential(position)
        check_start(self.target, position, potential, gradient)
        momentum = fresh_momentum(self.parameters, normals(position, generator)())
        variables = {name: first(position) for name, first in self.program.variables.items()}
        return State(position, momentum, potential, gradient, extra=variables)

    def step(self, state: State, parameters: Parameters, generator: torch.Generator) -> tuple[State, Info]:
        """One trajectory of every chain, and its test."""
        program, field = self.program, self.field
        if self.adjust:
            self.check_unchanged(parameters)
        if program.over is not None:
            h, warmth = program.over.at(state.trajectories)
            parameters = parameters.change(
                step_size=parameters.step_size * h, temperature=parameters.temperature * warmth
            )
        chains = len(state.position)
        steps = length.draw(parameters.steps, generator)
        factors = self._factors(steps)
        plan = self.scheme.plan(steps, factors)
        noise = normals(state.position, generator)
        log_uniform = metropolis.log_uniforms(chains, generator)
        tape = field.tape(plan.gradients, chains, generator)
        compare = Comparison(self.target, plan.kicks, program.explain, generator) if program.explain else None

        setup = Setup(steps, plan, factors, parameters, noise, log_uniform, tape, compare, generator)
        after, info = self.trajectory(self.refreshed(state, setup), setup)
        return after, self._with_statistics(info, after, parameters, compare)

    def trajectory(self, start: State, setup: Setup) -> tuple[State, Info]:
        """One trajectory from a refreshed start, and its test.

        Args:
            start: Where it starts.
            setup: What was settled before.
        """
        end, work = self.carry_out(start, setup)
        temperature = setup.parameters.temperature
        if self.adjust:
            return self.test(start, end, work, setup)
        potential = self.target.potential if self._reports_after(start.trajectories) else None
        testable = self.not_testable is None
        return metropolis.monitor(start, end, work, setup.steps, temperature, potential, testable)

    def carry_out(self, start: State, setup: Setup) -> tuple[State, Tensor]:
        """The moves of a trajectory: its end, and the work.

        Args:
            start: Where it starts.
            setup: What was settled before.
        """
        steps, plan, factors, parameters, along = *setup[:4], self.program.along
        if factors is not None and along is not None and along.either_way:
            both = plan, self.scheme.plan(steps, factors.reversed())
            letters, generator = self.program.letters, setup.generator
            return run_either_way(both, start, parameters, self.field, setup.tape, letters, generator)
        letters, compare = self.program.letters, setup.compare
        path = Trajectory(start, parameters, self.field, setup.tape, setup.noise, letters, compare, self.compiled)
        path.run(plan.moves, self.scheme.unit if factors is None else None, steps)
        return path.end(), path.work

    def refreshed(self, state: State, setup: Setup) -> State:
        """The O's at the trajectory's ends, outside the test: a rejection flips the momentum that they left.

        Args:
            state: Where the chains are.
            setup: What was settled before.
        """
        if self.program.fresh_momentum:
            return state._replace(momentum=fresh_momentum(setup.parameters, setup.noise()))
        if not setup.plan.before:
            return state
        path = Trajectory(state, setup.parameters, self.field, None, setup.noise, self.program.letters)
        path.run(setup.plan.before)
        return path.state

    def test(self, start: State, end: State, work: Tensor, setup: Setup) -> tuple[State, Info]:
        """The Metropolis test of a trajectory.

        Args:
            start: Where it started.
            end: Where it ended; its potential is computed if it is not known.
            work: W, [chains] float64.
            setup: What was settled before.
        """
        temperature, log_uniform = setup.parameters.temperature, setup.log_uniform
        stopping = self.early_stop and self.target.stops_early
        if end.potential is None:
            limit = metropolis.certain_rejection(start, work, temperature, log_uniform) if stopping else None
            end = end._replace(potential=self.target.potential(end.position, limit))
        after, info = metropolis.decide(start, end, work, setup.steps, temperature, log_uniform)
        if stopping:
            # A sum that stopped early knows only that log α was too small: the decision itself stands for the rate.
            info = info._replace(statistics={"acceptance_rate": info.accepted.double()})
        return after, info

    def _with_statistics(self, info: Info, state: State, parameters: Parameters, compare: Comparison | None) -> Info:
        found = dict(info.statistics)
        if self.program.over is not None:
            found["step_size"] = parameters.step_size.expand_as(info.work)
        if compare is not None and compare.by_noise is not None:
            found["noise_error"] = compare.by_noise
        if self.program.statistics is not None:
            found |= self.program.statistics(state)
        return info._replace(statistics=found) if found else info

    def _factors(self, steps: int) -> Factors | None:
        along = self.program.along
        if along is None:
            return None
        lopsided = along.lopsided(steps) if self.adjust else None  # what is a palindrome at one length may not be here
        if lopsided is not None:
            raise NotExact(lopsided, Condition.STEPS)
        return along.factors(steps)

    def _reports_after(self, trajectory: int) -> bool:
        """Whether log α is due after this trajectory: at every n-th, and wherever the temperature changes."""
        over = self.program.over
        if over is not None and not over.keeps_temperature and over.at(trajectory)[1] != over.at(trajectory + 1)[1]:
            return True
        return (trajectory + 1) % self.program.monitor_every == 0

    def _refreshes(self) -> bool:
        return self.program.fresh_momentum or (self.program.friction > 0 and self.scheme.noisy)

    def check_unchanged(self, parameters: Parameters) -> None:
        """Refuse a mass or a field that has changed since sampling began.

        Args:
            parameters: The numbers of the motion.
        """
        self._frozen.check()
        if parameters.mass is not self._mass:  # other numbers, given on purpose
            self._mass, self._frozen_mass = parameters.mass, Unchanged(parameters.mass.tensors)
        self._frozen_mass.check()
