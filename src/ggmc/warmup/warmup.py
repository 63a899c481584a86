"""Warm-up: step size, mass and trajectory length from the chains themselves.

It goes in windows, each half as long again as the one before. At the end of each window the mass becomes the inverse
covariance of its positions, pooled over chains, and the trajectory's length the cheapest one seen along its paths; a
chain that was left far behind joins the others. The step size follows a wanted acceptance throughout, and settles in a
closing phase. After that nothing adapts: adaptation during sampling would void exactness.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics.exactness import refuse_if_not_exact
from ggmc.dynamics.mass import Identity, Mass, as_mass
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.scheme import Dynamics, Scheme, State, normals, refresh
from ggmc.errors import BadInput, require_positive
from ggmc.guides import Field
from ggmc.kernels import GGMC, Kernel
from ggmc.kernels.ggmc import fixed_mass
from ggmc.targets.base import Target
from ggmc.warmup import batch_size
from ggmc.warmup.explore import explore
from ggmc.warmup.length import LONGEST, Paths, steps_around
from ggmc.warmup.mass import LARGEST_LEARNT, Moments, per_tensor, suitable_kind
from ggmc.warmup.step_size import DualAveraging, acceptance, first_step_size
from ggmc.warmup.stuck_chains import bring_back_lost_chains, left_behind_by
from ggmc.warmup.windows import windows

FIRST_REACH = 10  # steps of the first paths, before any have been seen ...
FIRST_SWEEPS = 5  # ... or sweeps, where trajectories are whole numbers of those


class Warmup:
    """Tunes what a kernel leaves open, one trajectory at a time."""

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        iterations: int,
        wanted_acceptance: float | None = None,
        anneal: float | None = None,
    ):
        self.kernel: Any = kernel
        self.target = target
        self.iterations = iterations
        self.iteration = 0
        if anneal is not None:
            require_positive("anneal", anneal)
            require_positive("temperature", self.kernel.temperature)
        self.anneal = anneal
        self.tuning = self.kernel.step_size is None
        self.settings: Any = self.kernel.as_ggmc() if hasattr(kernel, "as_ggmc") else self.kernel
        if self.tuning:
            self._check()
        self.guide = batch_size.first_guess(self.settings.guide, target)
        self.field = self.guide.bind(target)
        refuse_if_not_exact(self.settings, target, self.field)
        self.wanted = wanted_acceptance or self._usual_acceptance()
        self.ends = windows(iterations)
        self.mass: Mass = fixed_mass(self.settings.mass, target)
        self.known_mass = self._known_mass() if self.tuning and self.settings.mass is None else None
        self.mass = self.known_mass or self.mass
        # Trajectories are whole numbers of this many steps: single ones, or sweeps, whose noise cancels at their end.
        self.unit = self.field.sweep if self.field.whole_sweeps else 1
        self.time: float | None = None  # the trajectory's length in units of time, once known
        self.reach = FIRST_REACH if self.unit == 1 else FIRST_SWEEPS
        self.lowest_potential: float | None = None  # of any chain, at the end of the last window
        self.dual: DualAveraging | None = None
        self.moments: Moments | None = None
        self.paths = Paths()
        self.notes: dict[str, str] = {}  # what was chosen, and why
        self._given_step = None if self.tuning else self.kernel.on(target, self.field)[1]

    @property
    def temperature(self) -> float:
        """The kernel's own, or, in the first half of an annealed warm-up, one on the (geometric) way to it."""
        own = self.settings.temperature
        if self.anneal is None or 2 * self.iteration >= self.iterations:
            return own
        return self.anneal * (own / self.anneal) ** (2 * self.iteration / self.iterations)

    @property
    def current_step_size(self) -> float:
        """The one now in use; NaN before the first trajectory of a warm-up that tunes it."""
        if not self.tuning:
            return self.kernel.step_size
        return math.nan if self.dual is None else self.dual.exploring

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        """Where the chains begin: where the guide says, else where the target does."""
        found = self.field.starts(chains, self.settings.temperature, generator)
        return self.target.starts(chains, generator) if found is None else found

    def step(self, state: State, generator: torch.Generator) -> tuple[State, Info]:
        """One trajectory of every chain, and what is learnt from it."""
        if self._given_step is not None:
            step = self._given_step
            if self.temperature != self.settings.temperature:
                step = replace(self.kernel, temperature=self.temperature).on(self.target, self.field)[1]
            self.iteration += 1
            return step(state, generator)
        if self.dual is None:
            self.dual = DualAveraging.around(self._first_step_size(state, generator), self.wanted)
            self._open_window(state)
        previous = state.position
        if self.settings.steps is None and self.iteration < self.ends[-1]:
            state, info = self._explore(state, self.dual.exploring, generator)
        else:
            _, kernel_step = self._kernel(self.dual.exploring).on(self.target, self.field, early_stop=False)
            state, info = kernel_step(state, generator)
        self.dual.update(acceptance(info.log_accept, self.field))
        if self.moments is not None:
            self.moments.add(state.position, previous)
        self.iteration += 1
        if self.iteration in self.ends:
            state = self._close_window(state, generator)
        return state, info

    def tuned(self) -> Any:
        """The user's kernel with everything it left open filled in."""
        if self.dual is None:
            return self.kernel
        found = self._kernel(self.dual.settled)  # warm-up is over, and with it any annealing
        open_settings: dict[str, Any] = {"step_size": found.step_size, "mass": found.mass, "guide": self.guide}
        if self.settings.steps is None:
            open_settings["steps"] = found.steps
        return replace(self.kernel, **open_settings)

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of what has been learnt so far, as plain tensors and numbers."""
        return {
            "iteration": self.iteration,
            "mass": getattr(self.mass, "matrix", None),
            "time": self.time,
            "reach": self.reach,
            "lowest_potential": self.lowest_potential,
            "dual": None if self.dual is None else asdict(self.dual),
            "moments": None if self.moments is None else asdict(self.moments),
            "paths": list(self.paths.kept),
            "size": getattr(self.guide, "size", None),
            "notes": dict(self.notes),
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Become what was stored."""
        like = torch.empty(0, self.target.layout.size, dtype=self.target.dtype, device=self.target.device)
        self.iteration, self.time, self.reach = stored["iteration"], stored["time"], stored["reach"]
        self.lowest_potential = stored["lowest_potential"]
        self.mass = Identity() if stored["mass"] is None else as_mass(stored["mass"]).to(like)
        self.dual = None if stored["dual"] is None else DualAveraging(**stored["dual"])
        self.moments = None if stored["moments"] is None else Moments(**stored["moments"]).copy(like.device)
        self.paths = Paths((positions.to(like.device), a.to(like.device)) for positions, a in stored["paths"])
        self.notes = dict(stored["notes"])
        if stored["size"] != getattr(self.guide, "size", None):
            guide: Any = replace(self.guide, size=stored["size"])
            self._take_guide(guide, guide.bind(self.target))

    def _check(self) -> None:
        if self.iterations == 0:
            raise BadInput("step_size=None is tuned in warm-up, but warmup is 0: give a step_size or some warm-up")
        if self.settings.temperature == 0:
            raise BadInput("temperature 0 has no acceptance to tune a step size by: give a step_size")
        if self.settings.steps is None:
            try:
                _ = Scheme(self.settings.scheme).repeated
            except BadInput as error:
                word = self.settings.scheme
                raise BadInput(
                    f"steps cannot be tuned for the word {word!r}, whose steps do not move: give steps"
                ) from error

    def _known_mass(self) -> Mass | None:
        """The mass that the guide or the target knows to suit; else it is found from the chains."""
        known = self.field.mass(self.settings.temperature)
        if known is None and hasattr(self.target, "mass") and self.target.layout.size > LARGEST_LEARNT:
            known = self.target.mass()  # pyright: ignore[reportAttributeAccessIssue]
        return known

    def _usual_acceptance(self) -> float:
        if self.field.whole_sweeps:
            return 0.65
        if not self.field.deterministic:  # steps cost little beside the test: rather more of them than a rejection
            return 0.9
        return 0.6 if self.settings.steps == 1 and math.isinf(getattr(self.settings, "friction", 0.0)) else 0.8

    def _take_guide(self, guide: Any, field: Field) -> None:
        self.guide, self.field = guide, field
        self.unit = self.field.sweep if self.field.whole_sweeps else 1

    # What happens at each trajectory

    def _kernel(self, step_size: float) -> GGMC:
        steps = self.settings.steps
        if steps is None and self.unit > 1:
            sweeps = max(1, round((self.time or 0.0) / step_size / self.unit))
            steps = f"{sweeps} sweep{'s' if sweeps > 1 else ''}"
        elif steps is None:
            steps = steps_around((self.time or FIRST_REACH * step_size) / step_size)
        return replace(
            self.settings,
            step_size=step_size,
            steps=steps,
            mass=self.mass,
            guide=self.guide,
            monitor_every=1,
            temperature=self.temperature,
        )

    def _dynamics(self, step_size: float) -> Dynamics:
        return Dynamics(step_size, self.settings.friction, self.temperature, self.mass)

    def _explore(self, state: State, step_size: float, generator: torch.Generator) -> tuple[State, Info]:
        word, dynamics = Scheme(self.settings.scheme).repeated, self._dynamics(step_size)
        return explore(word, self.unit, self.reach, state, dynamics, self.target, self.field, self.paths, generator)

    def _first_step_size(self, state: State, generator: torch.Generator) -> float:
        steps = 1 if self.field.deterministic else self.field.default_steps
        short = replace(
            self.settings,
            steps=steps,
            mass=self.mass,
            guide=self.guide,
            fresh_momentum=True,
            monitor_every=1,
            temperature=self.temperature,
        )
        return first_step_size(short, self.target, self.field, state, generator)

    # What happens between windows

    def _open_window(self, state: State) -> None:
        kind: Any = self.settings.mass
        if kind is None and self.known_mass is None:
            last = self.ends[-1] - (self.ends[-2] if len(self.ends) > 1 else 0)
            kind = suitable_kind(self.target.layout.size, last * len(state.position))
        adapts = kind in ("diagonal", "dense") and self.iteration < self.ends[-1]
        self.moments = Moments.none(state.position, kind) if adapts else None  # pyright: ignore[reportArgumentType]
        self.paths = Paths()

    def _close_window(self, state: State, generator: torch.Generator) -> State:
        assert self.dual is not None
        assert state.potential is not None
        lowest, before = state.potential.min().item(), self.lowest_potential
        arrived = before is not None and before - lowest < left_behind_by(state, self.settings.temperature)
        if arrived and self.iteration < self.ends[-1]:  # before the best has arrived, nobody is lost
            state = bring_back_lost_chains(state, self.settings.temperature)
        self.lowest_potential = lowest
        best = self.paths.best_steps(self._units_per_test())
        if best is not None:
            self.time = best * self.unit * self.dual.settled
            # Paths reach beyond the best length seen, and grow shorter only by halves: a hasty choice is seen again.
            least = 5 if self.unit == 1 else FIRST_SWEEPS
            self.reach = min(max(least, LONGEST // self.unit), max(least, round(2.5 * best), self.reach // 2))
        self._change_mass(self._found_mass(state))
        step_size = self._first_step_size(state, generator)
        if self.iteration == self.ends[-1] and self.settings.guide != self.guide:
            kernel = self._kernel(step_size)
            steps_at = (lambda h: self._kernel(h).steps) if self.unit == 1 else (lambda _: kernel.steps)
            search = batch_size.Search(kernel, self.target, self.field, steps_at, self.wanted)
            state, guide, step_size, self.notes["batch_size"] = search.run(state, step_size, generator)
            self._take_guide(guide, search.field)
        self._open_window(state)
        self.dual = DualAveraging.around(step_size, self.wanted)
        # The momentum was drawn for the mass before, or belongs to the chain that a lost one joined.
        noise = normals(state.position, generator)
        return state._replace(momentum=refresh(state.momentum, math.inf, self._dynamics(step_size), noise))

    def _units_per_test(self) -> float:
        """What a test costs, in units of the trajectory."""
        if self.field.exact:
            return 0.0
        return batch_size.TEST * self.field.epoch / self.unit

    def _found_mass(self, state: State) -> Mass | None:
        if self.settings.mass == "tensor":
            return per_tensor(self.target, state.position)
        return self.moments.mass(self.settings.temperature, state.position) if self.moments is not None else None

    def _change_mass(self, found: Mass | None) -> None:
        if found is None:
            return
        if self.time is not None:  # with another mass positions move at another speed: as far takes another time
            speed_up = found.velocity_variance().log() - self.mass.velocity_variance().double().log()
            self.time *= math.exp(-speed_up.median().item() / 2)
        self.mass = found
