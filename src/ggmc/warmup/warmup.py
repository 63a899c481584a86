"""Warm-up: step size, mass and trajectory length from the chains themselves.

It goes in windows, each 1.5 times as long as the one before. At the end of each window the mass becomes the inverse
covariance of its positions, pooled over chains, and the trajectory's length the cheapest one seen along its paths; a
chain that is stuck where there is next to no probability joins the others. The step size follows a wanted acceptance
throughout, and settles in a closing phase. After that nothing adapts: adaptation during sampling would not be exact.

Settings stay as they are: warm-up changes the `Parameters` of the motion, and `tuned()` gives a kernel with them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from ggmc.dynamics import length
from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.mass import Mass, fixed_mass
from ggmc.dynamics.state import Info, Parameters, State, normals
from ggmc.errors import require_positive
from ggmc.guides import BatchGuide, GradientField, Guide
from ggmc.kernels import Kernel, Sampler, WordSampler
from ggmc.plain import PlainDict
from ggmc.targets.base import DataTarget, Target
from ggmc.warmup import batch_size, low_rank, stuck_chains
from ggmc.warmup.defaults import advised_mass, annealed, check_tunable, steps_are_open, tuning_sampler, usual_acceptance
from ggmc.warmup.learnt import Learnt
from ggmc.warmup.length import LONGEST, explore, next_reach, steps_of_time
from ggmc.warmup.mass import kind_to_learn, per_tensor
from ggmc.warmup.step_size import DualAveraging, acceptance, first_step_size
from ggmc.warmup.windows import Window, refuse_if_nothing_moves, windows

FIRST_REACH, FIRST_SWEEPS = 10, 5  # gradients of the first paths, or sweeps where those must be whole


class Warmup:
    """Tunes what a kernel leaves open, one trajectory at a time.

    Args:
        kernel: Whose `step_size=None` is tuned, along with what else is None.
        target: What is sampled.
        iterations: Trajectories of warm-up.
        wanted: The acceptance to tune the step size for; by default what suits the guide.
        anneal: A temperature to start from, which reaches the kernel's own half-way; by default the kernel's own.
        stored: The `state_dict` of an earlier warm-up with these settings, to go on from; by default a new beginning.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.warmup import Warmup
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3, dtype=torch.float64))
        >>> warmup = Warmup(ggmc.HMC(steps=4), target, iterations=200)
        >>> random = torch.Generator().manual_seed(0)
        >>> state = warmup.init(warmup.starts(4, random), random)
        >>> for _ in range(200):
        ...     state, info = warmup.step(state, random)
        >>> 0.2 < warmup.tuned().step_size < 2.0
        True
    """

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        iterations: int,
        wanted: float | None = None,
        anneal: float | None = None,
        stored: PlainDict | None = None,
    ):
        if anneal is not None:
            require_positive("anneal", anneal)
            require_positive("temperature", kernel.temperature)
        self.kernel, self.target, self.iterations, self.anneal = kernel, target, iterations, anneal
        self.tuning = kernel.step_size is None
        self._compiles, self._per_draw = False, 0.0
        self.ends = windows(iterations)
        self.guide: Guide = batch_size.first_guess(kernel.guide, target)
        self._take_field(self.guide.bind(target) if stored is None else self._stored_field(stored))
        if self.tuning:
            check_tunable(kernel, self.sampler, iterations)
        self.wanted = wanted or usual_acceptance(self.sampler)
        known = advised_mass(kernel, target, self.field) if self.tuning else None
        self._mass_is_known = known is not None
        mass = fixed_mass(kernel.mass, target.start) if known is None else known
        begin = Learnt(mass, math.ceil(FIRST_REACH / self.per_step) if self.unit == 1 else FIRST_SWEEPS)
        self.learnt = begin if stored is None else Learnt.restored(stored, target.start)

    @property
    def iteration(self) -> int:
        """Trajectories so far."""
        return self.learnt.iteration

    @property
    def mass(self) -> Mass:
        """The one now in use."""
        return self.learnt.mass

    @property
    def temperature(self) -> float:
        """The kernel's own, or, in the first half of an annealed warm-up, one on the (geometric) way to it."""
        return annealed(self.anneal, self.kernel.temperature, 2 * self.iteration / max(1, self.iterations))

    @property
    def current_step_size(self) -> float:
        """The one now in use; NaN before the first trajectory of a warm-up that tunes it."""
        tuned = math.nan if self.learnt.dual is None else self.learnt.dual.exploring
        return tuned if self.kernel.step_size is None else self.kernel.step_size

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        """Where the chains begin, [chains, d]: where the guide advises, else where the target does."""
        advised = self.field.advice.starts
        if advised is None:
            return self.target.starts(chains, generator)
        return advised(chains, self.kernel.temperature, generator)

    def init(self, position: Tensor, generator: torch.Generator) -> State:
        """Positions [chains, d] as a state, with momenta of the mass that is known."""
        state = self.sampler.init(position, generator)
        return state._replace(momentum=self.mass.colour(state.momentum)) if self._mass_is_known else state

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One trajectory of every chain, and what is learnt from it."""
        learnt = self.learnt
        if not self.tuning:
            own, cooling = self.sampler.parameters, self.temperature != self.kernel.temperature
            parameters = own.change(temperature=self.temperature) if cooling else own
            learnt.iteration += 1
            return self.sampler.step(state, parameters, generator)
        if learnt.dual is None or learnt.window is None:
            learnt.dual = DualAveraging.around(self._first_step_size(state, generator), self.wanted)
            learnt.window = self._new_window(state)
        previous = state.position
        if self.tunes_length and self.iteration < self.ends[-1]:
            state, info = self._explore(state, learnt.dual.exploring, generator)
        else:
            state, info = self.sampler.step(state, self._parameters(learnt.dual.exploring), generator)
        learnt.dual.update(acceptance(info.log_accept, self.field))
        learnt.window.add(state, previous, info)
        learnt.iteration += 1
        if self.iteration in self.ends:
            state = self._close_window(learnt.window, learnt.dual, state, generator)
        return state, info

    def tuned(self) -> Kernel:
        """The user's kernel with everything it left open filled in."""
        dual = self.learnt.dual
        if dual is None:
            return self.kernel
        found: dict[str, object] = {"step_size": dual.settled, "mass": self.mass, "guide": self.guide}
        if self.tunes_length:
            ends = self._steps(dual.settled, self.field)
            found["steps"] = ends[0] if ends[0] == ends[1] else ends
        return replace(self.kernel, **found)  # pyright: ignore[reportArgumentType]

    def state_dict(self) -> PlainDict:
        """A snapshot of what has been learnt so far, as plain tensors and numbers."""
        size = self.guide.size if isinstance(self.guide, BatchGuide) else None
        return self.learnt.state_dict() | {"size": size, "found": dict(self.field.found)}

    def _stored_field(self, stored: PlainDict) -> GradientField:
        """The field that an earlier warm-up had come to, with nothing searched for again."""
        if isinstance(self.guide, BatchGuide):
            self.guide = self.guide.with_size(stored["size"])
        return self.guide.bind_again(self.target, stored["found"])

    def _take_field(self, field: GradientField) -> None:
        """A bound guide, and the sampler on it."""
        self.field = field
        self.sampler = self._sampler_on(field)
        self.per_step = self.sampler.gradients_per_step
        # Trajectories are whole numbers of this many steps: single ones, or sweeps, whose noise cancels at their end.
        self.unit = length.sweep_in_steps(field, self.per_step)
        self.tunes_length = self.tuning and steps_are_open(self.sampler)

    def _sampler_on(self, field: GradientField) -> Sampler:
        make = tuning_sampler if self.tuning else type(self.kernel).sampler
        sampler = make(self.kernel, self.target, field)
        if self._compiles and isinstance(sampler, WordSampler):
            sampler.compiled = CompiledMoves(field, sampler.program.letters)
        return sampler

    def compile(self, per_draw: float) -> None:
        """Have trajectories compiled from now on, those of samplers on other guides too.

        Args:
            per_draw: What a draw costs beside its gradients, as so many of them: this decides on the length.
        """
        self._compiles, self._per_draw = True, per_draw
        self._take_field(self.field)

    def _steps(self, step_size: float, field: GradientField) -> tuple[int, int]:
        """The range of steps that the length found so far makes."""
        if not self.tunes_length:
            return self.sampler.parameters.steps
        unit, shortest = length.sweep_in_steps(field, self.per_step), 0.0
        if field.deterministic and not field.exact and self.learnt.dual is not None:
            # Shorter steps do not correct what the guide gets wrong over a given time; a shorter time does.
            shortest = self.learnt.dual.first / 4
        return steps_of_time(self.learnt.time, step_size, unit, math.ceil(FIRST_REACH / self.per_step), shortest)

    def _parameters(self, step_size: float, steps: tuple[int, int] | None = None) -> Parameters:
        return self.sampler.parameters.change(
            step_size=step_size,
            temperature=self.temperature,
            mass=self.mass,
            steps=self._steps(step_size, self.field) if steps is None else steps,
        )

    def _explore(self, state: State, step_size: float, generator: torch.Generator) -> tuple[State, Info]:
        assert isinstance(self.sampler, WordSampler)
        assert self.learnt.window is not None
        word, parameters = self.sampler.scheme.repeated, self._parameters(step_size)
        reach, paths = self.learnt.reach, self.learnt.window.paths
        compiled = self.sampler.compiled
        return explore(word, self.unit, reach, state, parameters, self.target, self.field, paths, generator, compiled)

    def _first_step_size(self, state: State, generator: torch.Generator) -> float:
        steps = 1 if self.field.deterministic else length.own_length(self.field, self.per_step)
        short = self.sampler.parameters.change(temperature=self.temperature, mass=self.mass, steps=(steps, steps))
        return first_step_size(self.sampler, short, state, generator)

    def _new_window(self, state: State, settled: Tensor | None = None) -> Window:
        adapting = self.iteration < self.ends[-1]
        draws = len(state.position) * (self.ends[-1] - (0, *self.ends)[-2])
        kind = kind_to_learn(self.kernel.mass, self._mass_is_known, self.target.layout.size, draws)
        past, learnt_kind = low_rank.is_wanted(self.kernel.mass), kind if adapting else None
        return Window.opened(state, self.temperature, learnt_kind, adapting, settled, past)

    def _close_window(self, window: Window, dual: DualAveraging, state: State, generator: torch.Generator) -> State:
        learnt = self.learnt
        refuse_if_nothing_moves(window, self.ends, self.iteration, dual.exploring)
        state, settled = self._without_stuck_chains(window, state)
        per_unit = self.unit * self.per_step
        per_test = self._per_draw if self.field.exact else batch_size.TEST * self.field.epoch / per_unit
        best = window.paths.best_steps(per_test)
        if best is not None:
            learnt.time = best * self.unit * dual.settled
            least = math.ceil(FIRST_REACH / 2 / self.per_step) if self.unit == 1 else FIRST_SWEEPS
            ends = least, LONGEST // per_unit
            learnt.reach = next_reach(best, window.paths.longest, learnt.reach, *ends, self._mass_is_known)
        learnt.change_mass(self._found_mass(window, state))
        step_size = self._first_step_size(state, generator)
        if self.iteration == self.ends[-1] and isinstance(self.guide, BatchGuide) and self.kernel.guide != self.guide:
            state, step_size = self._choose_batch_size(self.guide, state, step_size, generator)
        learnt.window = self._new_window(state, settled)
        learnt.dual = DualAveraging.around(step_size, self.wanted)
        # The momentum was drawn for the mass before, or belongs to the chain that a stuck one joined.
        drawn = fresh_momentum(self._parameters(step_size), normals(state.position, generator)())
        return state._replace(momentum=drawn)

    def _without_stuck_chains(self, window: Window, state: State) -> tuple[State, Tensor | None]:
        """The chains, stuck ones moved, and which of them count for the mass of the next window; None for all."""
        if state.potential is None:
            return state, None
        lowest, before = state.potential.min().item(), self.learnt.lowest_potential
        self.learnt.lowest_potential = lowest
        fall = self.kernel.temperature * stuck_chains.allowance(state.position.shape[1])
        # Before the best chain has arrived, none counts as stuck.
        arrived = before is not None and before - lowest < fall
        if not arrived or window.by_chain is None or self.iteration == self.ends[-1]:
            return state, None
        gradient = self.target.potential_and_gradient(state.position)[1]
        judged = stuck_chains.judge(window.by_chain, state.potential, gradient, window.temperature)
        settled = ~judged.travelling if judged.travelling.any() else None
        if judged.stuck.any():
            state, moved = stuck_chains.move_stuck_chains(state, window.by_chain, judged)
            self.learnt.remarks += moved
        return state, settled

    def _choose_batch_size(
        self, guide: BatchGuide, state: State, step_size: float, generator: torch.Generator
    ) -> tuple[State, float]:
        assert isinstance(self.target, DataTarget)
        sweeps = max(1, self._steps(step_size, self.field)[0] // self.unit)

        def parameters_at(h: float, field: GradientField) -> Parameters:
            whole = sweeps * length.sweep_in_steps(field, self.per_step)
            in_sweeps = self.unit > 1 and self.tunes_length
            return self._parameters(h, (whole, whole) if in_sweeps else self._steps(h, field))

        search = batch_size.Search(guide, self.target, self._sampler_on, self.field, parameters_at, self.wanted)
        state, self.guide, found, self.learnt.notes["batch_size"] = search.run(state, step_size, generator)
        self._take_field(search.field)
        return state, found

    def _found_mass(self, window: Window, state: State) -> Mass | None:
        if isinstance(self.kernel.mass, str) and self.kernel.mass == "tensor":
            return per_tensor(self.target, state.position)
        found = None if window.moments is None else window.moments.mass(self.kernel.temperature, state.position)
        if low_rank.is_wanted(self.kernel.mass):
            part, notes = self.iteration / self.iterations, self.learnt.notes
            found, notes["mass"] = low_rank.found_mass(self.target, window, self.mass, found, part)
        return found
