"""Warm-up: step size, mass and trajectory length from the chains themselves.

It goes in windows, each half as long again as the one before. At the end of each window the mass becomes the inverse
covariance of its positions, pooled over chains, and the trajectory's length the cheapest one seen along its paths; a
chain that is stuck where there is next to no probability joins the others. The step size follows a wanted acceptance
throughout, and settles in a closing phase. After that nothing adapts: adaptation during sampling would not be exact.

Settings stay as they are; warm-up changes the `Parameters` of the motion, and `tuned()` writes what it found into the
kernel at the end.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.mass import Identity, Mass, as_mass, fixed_mass
from ggmc.dynamics.state import Info, Parameters, State, normals
from ggmc.errors import BadInput, require_positive
from ggmc.guides import BatchGuide, GradientField, Guide
from ggmc.kernels import Kernel, Sampler, WordKernel, WordSampler
from ggmc.targets.base import DataTarget, Target
from ggmc.warmup import batch_size
from ggmc.warmup.length import LONGEST, Paths, explore, steps_around
from ggmc.warmup.mass import LARGEST_LEARNT, Moments, per_tensor, suitable_kind
from ggmc.warmup.step_size import DualAveraging, acceptance, first_step_size
from ggmc.warmup.stuck_chains import ChainMoments, allowance, move_stuck_chains
from ggmc.warmup.windows import windows

FIRST_REACH = 10  # steps of the first paths, before any have been seen ...
FIRST_SWEEPS = 5  # ... or sweeps, where trajectories are whole numbers of those


class Warmup:
    """Tunes what a kernel leaves open, one trajectory at a time.

    Args:
        kernel: Whose `step_size=None` is tuned, along with what else is None.
        target: What is sampled.
        iterations: Trajectories of warm-up.
        wanted: The acceptance to tune the step size for; by default what suits the guide.
        anneal: A temperature to start from, which reaches the kernel's own half-way.
    """

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        iterations: int,
        wanted: float | None = None,
        anneal: float | None = None,
    ):
        self.kernel, self.target = kernel, target
        self.iterations, self.iteration = iterations, 0
        if anneal is not None:
            require_positive("anneal", anneal)
            require_positive("temperature", kernel.temperature)
        self.anneal = anneal
        self.tuning = kernel.step_size is None
        self.guide: Guide = batch_size.first_guess(kernel.guide, target)
        self._take_field(self.guide.bind(target))
        if self.tuning:
            self._check()
        self.wanted = wanted or self._usual_acceptance()
        self.ends = windows(iterations)
        known = self._known_mass() if self.tuning and kernel.mass is None else None
        self.mass_is_known = known is not None
        self.mass: Mass = fixed_mass(kernel.mass, target.start) if known is None else known
        self.time: float | None = None  # the trajectory's length in units of time, once known
        self.reach = FIRST_REACH if self.unit == 1 else FIRST_SWEEPS
        self.lowest_potential: float | None = None  # of any chain, at the end of the last window
        self.dual: DualAveraging | None = None
        self.moments: Moments | None = None
        self.by_chain: ChainMoments | None = None
        self.paths = Paths()
        self.notes: dict[str, str] = {}  # what was chosen, and why
        self.remarks: list[str] = []  # what a reader of the draws should know

    @property
    def temperature(self) -> float:
        """The kernel's own, or, in the first half of an annealed warm-up, one on the (geometric) way to it."""
        own = self.kernel.temperature
        if self.anneal is None or 2 * self.iteration >= self.iterations:
            return own
        return self.anneal * (own / self.anneal) ** (2 * self.iteration / self.iterations)

    @property
    def current_step_size(self) -> float:
        """The one now in use; NaN before the first trajectory of a warm-up that tunes it."""
        if self.kernel.step_size is not None:
            return self.kernel.step_size
        return math.nan if self.dual is None else self.dual.exploring

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        """Where the chains begin: where the guide advises, else where the target does."""
        advised = self.field.advice.starts
        if advised is None:
            return self.target.starts(chains, generator)
        return advised(chains, self.kernel.temperature, generator)

    def init(self, position: Tensor, generator: torch.Generator) -> State:
        """Positions as a state, with momenta of the mass that is known."""
        state = self.sampler.init(position, generator)
        return state._replace(momentum=self.mass.colour(state.momentum)) if self.mass_is_known else state

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One trajectory of every chain, and what is learnt from it."""
        if not self.tuning:
            parameters = self.sampler.parameters
            if self.temperature != self.kernel.temperature:
                parameters = parameters.change(temperature=self.temperature)
            self.iteration += 1
            return self.sampler.step(state, parameters, generator)
        if self.dual is None:
            self.dual = DualAveraging.around(self._first_step_size(state, generator), self.wanted)
            self._open_window(state)
        previous = state.position
        if self.tunes_length and self.iteration < self.ends[-1]:
            state, info = self._explore(state, self.dual.exploring, generator)
        else:
            state, info = self.sampler.step(state, self._parameters(self.dual.exploring), generator)
        self.dual.update(acceptance(info.log_accept, self.field))
        if self.moments is not None:
            self.moments.add(state.position, previous)
        if self.by_chain is not None:
            self.by_chain.add(state)
        self.iteration += 1
        if self.iteration in self.ends:
            state = self._close_window(state, generator)
        return state, info

    def tuned(self) -> Kernel:
        """The user's kernel with everything it left open filled in."""
        if self.dual is None:
            return self.kernel
        found: dict[str, object] = {"step_size": self.dual.settled, "mass": self.mass, "guide": self.guide}
        if self.tunes_length:
            low, high = self._steps(self.dual.settled, self.field)
            found["steps"] = low if low == high else (low, high)
        return replace(self.kernel, **found)  # pyright: ignore[reportArgumentType]

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of what has been learnt so far, as plain tensors and numbers."""
        return {
            "iteration": self.iteration,
            "mass": self.mass.as_tensor(),
            "time": self.time,
            "reach": self.reach,
            "lowest_potential": self.lowest_potential,
            "dual": None if self.dual is None else asdict(self.dual),
            "moments": None if self.moments is None else asdict(self.moments),
            "by_chain": None if self.by_chain is None else asdict(self.by_chain),
            "paths": list(self.paths.kept),
            "size": self.guide.size if isinstance(self.guide, BatchGuide) else None,
            "notes": dict(self.notes),
            "remarks": list(self.remarks),
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Restore a saved state."""
        like = self.target.start
        self.iteration, self.time, self.reach = stored["iteration"], stored["time"], stored["reach"]
        self.lowest_potential = stored["lowest_potential"]
        self.mass = Identity() if stored["mass"] is None else as_mass(stored["mass"]).to(like)
        self.dual = None if stored["dual"] is None else DualAveraging(**stored["dual"])
        self.moments = None if stored["moments"] is None else Moments(**stored["moments"]).copy(like.device)
        self.by_chain = None if stored["by_chain"] is None else ChainMoments(**stored["by_chain"]).copy(like.device)
        self.paths = Paths((positions.to(like.device), a.to(like.device)) for positions, a in stored["paths"])
        self.notes, self.remarks = dict(stored["notes"]), list(stored["remarks"])
        if isinstance(self.guide, BatchGuide) and stored["size"] != self.guide.size:
            self.guide = self.guide.with_size(stored["size"], self.field)
            self._take_field(self.guide.bind(self.target))

    def _check(self) -> None:
        if self.iterations == 0:
            raise BadInput("step_size=None is tuned in warm-up, but warmup is 0: give a step_size or some warm-up")
        if self.kernel.temperature == 0:
            raise BadInput("temperature 0 has no acceptance to tune a step size by: give a step_size")
        if isinstance(self.sampler, WordSampler):
            if self.sampler.not_testable is not None:
                raise BadInput(
                    f"the step size cannot be tuned, since log α is −∞: {self.sampler.not_testable}. Give a step_size"
                )
            if self.tunes_length:
                word = self.sampler.program.word
                try:
                    _ = self.sampler.scheme.repeated
                except BadInput as error:
                    raise BadInput(
                        f"steps cannot be tuned for the word {word!r}, whose steps do not move: give steps"
                    ) from error

    def _known_mass(self) -> Mass | None:
        """The mass that the guide or the target advises; else it is found from the chains."""
        advised = self.field.advice.mass
        if advised is None and self.target.layout.size > LARGEST_LEARNT:
            advised = self.target.advice.mass
        found = None if advised is None else advised()
        try:
            return None if found is None else as_mass(found).to(self.target.start)
        except BadInput:  # not positive definite
            return None

    def _usual_acceptance(self) -> float:
        advised = self.field.advice.acceptance or self.target.advice.acceptance
        if advised is not None:
            return advised
        if self.field.whole_sweeps:
            return 0.65
        if not self.field.deterministic:  # steps cost little beside the test: more of them rather than a rejection
            return 0.9
        parameters = self.sampler.parameters
        forgets = parameters.steps == (1, 1) and not self.tunes_length and bool(parameters.friction.isinf().all())
        return 0.6 if forgets else 0.8

    def _take_field(self, field: GradientField) -> None:
        """A bound guide, and the sampler on it."""
        self.field = field
        # Trajectories are whole numbers of this many steps: single ones, or sweeps, whose noise cancels at their end.
        self.unit = field.sweep if field.whole_sweeps else 1
        self.sampler = self._sampler_on(field)
        self.tunes_length = self.tuning and isinstance(self.sampler, WordSampler) and self.sampler.program.steps is None

    def _sampler_on(self, field: GradientField) -> Sampler:
        sampler: Sampler
        if not self.tuning:
            return self.kernel.sampler(self.target, field)
        if isinstance(self.kernel, WordKernel):  # every trajectory must tell its log α, and nothing else
            program = replace(self.kernel.program(field), monitor_every=1, explain=0.0)
            sampler = WordSampler(self.kernel, program, self.target, field)
            if program.not_testable is None and sampler.scheme.not_reversible is None:
                # Where only a schedule or an order has no way back, the energy error still tells a step too long.
                sampler.not_testable = None
        else:
            sampler = self.kernel.sampler(self.target, field)
        sampler.early_stop = False
        return sampler

    # What happens at each trajectory

    def _steps(self, step_size: float, field: GradientField) -> tuple[int, int]:
        """The range of steps that the length found so far makes."""
        if not self.tunes_length:
            return self.sampler.parameters.steps
        unit = field.sweep if field.whole_sweeps else 1
        if unit > 1:
            steps = unit * max(1, round((self.time or 0.0) / step_size / unit))
            return steps, steps
        return steps_around((self.time or FIRST_REACH * step_size) / step_size)

    def _parameters(self, step_size: float) -> Parameters:
        return self.sampler.parameters.change(
            step_size=step_size,
            temperature=self.temperature,
            mass=self.mass,
            steps=self._steps(step_size, self.field),
        )

    def _explore(self, state: State, step_size: float, generator: torch.Generator) -> tuple[State, Info]:
        assert isinstance(self.sampler, WordSampler)
        word, parameters = self.sampler.scheme.repeated, self._parameters(step_size)
        return explore(word, self.unit, self.reach, state, parameters, self.target, self.field, self.paths, generator)

    def _first_step_size(self, state: State, generator: torch.Generator) -> float:
        steps = 1 if self.field.deterministic else self.field.default_steps
        short = self.sampler.parameters.change(temperature=self.temperature, mass=self.mass, steps=(steps, steps))
        return first_step_size(self.sampler, short, state, generator)

    # What happens between windows

    def _open_window(self, state: State) -> None:
        kind: Any = self.kernel.mass
        if kind is None and not self.mass_is_known:
            last = self.ends[-1] - (self.ends[-2] if len(self.ends) > 1 else 0)
            kind = suitable_kind(self.target.layout.size, last * len(state.position))
        adapting = self.iteration < self.ends[-1]
        adapts = isinstance(kind, str) and kind in ("diagonal", "dense") and adapting
        self.moments = Moments.none(state.position, "dense" if kind == "dense" else "diagonal") if adapts else None
        self.by_chain = ChainMoments.none(state.position) if adapting and len(state.position) > 1 else None
        self.paths = Paths()

    def _close_window(self, state: State, generator: torch.Generator) -> State:
        assert self.dual is not None
        assert state.potential is not None
        temperature = self.kernel.temperature
        lowest, before = state.potential.min().item(), self.lowest_potential
        arrived = before is not None and before - lowest < temperature * allowance(state.position.shape[1])
        # Before the best has arrived, no chain counts as stuck.
        if arrived and self.by_chain is not None and self.iteration < self.ends[-1]:
            state, moved = move_stuck_chains(state, self.by_chain, temperature)
            self.remarks += moved
        self.lowest_potential = lowest
        best = self.paths.best_steps(self._units_per_test())
        if best is not None:
            self.time = best * self.unit * self.dual.settled
            # Paths reach beyond the best length seen, and grow shorter only by halves: a hasty choice is seen again.
            least = 5 if self.unit == 1 else FIRST_SWEEPS
            self.reach = min(max(least, LONGEST // self.unit), max(least, round(2.5 * best), self.reach // 2))
        self._change_mass(self._found_mass(state))
        step_size = self._first_step_size(state, generator)
        if self.iteration == self.ends[-1] and isinstance(self.guide, BatchGuide) and self.kernel.guide != self.guide:
            state, step_size = self._choose_batch_size(self.guide, state, step_size, generator)
        self._open_window(state)
        self.dual = DualAveraging.around(step_size, self.wanted)
        # The momentum was drawn for the mass before, or belongs to the chain that a stuck one joined.
        drawn = fresh_momentum(self._parameters(step_size), normals(state.position, generator)())
        return state._replace(momentum=drawn)

    def _choose_batch_size(
        self, guide: BatchGuide, state: State, step_size: float, generator: torch.Generator
    ) -> tuple[State, float]:
        assert isinstance(self.target, DataTarget)
        low_high = self._steps(step_size, self.field)

        def parameters_at(h: float, field: GradientField) -> Parameters:
            sweeps = max(1, low_high[0] // self.unit)
            steps = (sweeps * field.sweep,) * 2 if self.unit > 1 and self.tunes_length else self._steps(h, field)
            return self.sampler.parameters.change(
                step_size=h, temperature=self.temperature, mass=self.mass, steps=steps
            )

        search = batch_size.Search(guide, self.target, self._sampler_on, self.field, parameters_at, self.wanted)
        state, self.guide, step_size, self.notes["batch_size"] = search.run(state, step_size, generator)
        self._take_field(search.field)
        return state, step_size

    def _units_per_test(self) -> float:
        """What a test costs, in units of the trajectory."""
        return 0.0 if self.field.exact else batch_size.TEST * self.field.epoch / self.unit

    def _found_mass(self, state: State) -> Mass | None:
        if isinstance(self.kernel.mass, str) and self.kernel.mass == "tensor":
            return per_tensor(self.target, state.position)
        return self.moments.mass(self.kernel.temperature, state.position) if self.moments is not None else None

    def _change_mass(self, found: Mass | None) -> None:
        if found is None:
            return
        if self.time is not None:  # with another mass positions move at another speed: as far takes another time
            speed_up = found.velocity_variance().log() - self.mass.velocity_variance().double().log().to(
                found.velocity_variance().device
            )
            self.time *= math.exp(-speed_up.median().item() / 2)
        self.mass = found
