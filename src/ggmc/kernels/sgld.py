"""SGLD: stochastic-gradient Langevin dynamics, in its usual one line.

    θ ← θ − (h²/2) M⁻¹g(θ; ζ) + h √T M^(−½) ε

that is, with learning rate h². Biased, by O(h²) and by the gradient's noise. It is `OBABO` without the test, in the
limit of infinite friction: there a step's last kick is forgotten at once, but still tells log α, for one more gradient
at a trajectory's end. Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics import length as lengths
from ggmc.dynamics import metropolis
from ggmc.dynamics.exactness import check_unadjusted
from ggmc.dynamics.length import Steps
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.schedule import Over
from ggmc.dynamics.scheme import Dynamics, State, normals
from ggmc.errors import NotExact
from ggmc.guides import Exact, Field, Guide
from ggmc.kernels.ggmc import GGMC, Init, Step, fixed_mass, start_state
from ggmc.targets.base import Target


@dataclass(frozen=True)
class SGLD:
    """The simplest stochastic-gradient sampler, biased, as a baseline; settings as in `ggmc.GGMC`.

    Each draw is `steps` steps; the default is a sweep of the guide's order, with palindromes two passes over the data.
    `over` changes the step size over the run.

    Example:
        >>> import ggmc
        >>> ggmc.SGLD(step_size=0.1, adjust=True)
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: SGLD is what remains of MALA without its test: use ggmc.MALA, or adjust=False
    """

    step_size: float
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = False
    monitor_every: int = 1
    over: Over | None = None

    def __post_init__(self) -> None:
        if self.adjust:
            raise NotExact("SGLD is what remains of MALA without its test: use ggmc.MALA, or adjust=False")
        check_unadjusted(self)

    def as_ggmc(self) -> GGMC:
        """The same sampler as a word, with a momentum."""
        return GGMC(
            self.step_size, math.inf, self.steps, "OBABO", self.guide, self.temperature, self.mass, adjust=False,
            monitor_every=self.monitor_every, over=self.over,
        )  # fmt: skip

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        return self.on(target, self.guide.bind(target))

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound."""
        constants = Dynamics(self.step_size, math.inf, self.temperature, fixed_mass(self.mass, target))
        steps_or_range = lengths.in_steps(self.steps, field)

        def init(position: Tensor, generator: torch.Generator) -> State:
            return start_state(target, field, position, constants, generator)

        def step(state: State, generator: torch.Generator) -> tuple[State, Info]:
            dynamics = constants if self.over is None else constants.scaled(*self.over.at(state.trajectories))
            h, _, temperature, mass = dynamics
            steps = lengths.draw(steps_or_range, generator)
            tape = field.tape(steps + 1, len(state.position), generator)
            noise = normals(state.position, generator)
            position, momentum = state.position, state.momentum
            gradient = field(position, tape[0])[0] if state.gradient is None else state.gradient
            work = torch.zeros(len(position), dtype=torch.float64, device=position.device)
            for entry in tape[1:]:
                drawn = math.sqrt(temperature) * mass.colour(next(noise))
                position = position - (h * h / 2) * mass.velocity(gradient) + h * mass.velocity(drawn)
                following, _ = field(position, entry)
                # What OBABO's two half kicks did, from the momentum drawn to the one that will be forgotten.
                both = gradient + following
                momentum = drawn - (h / 2) * both
                work = work - (h / 4) * (both * mass.velocity(drawn + momentum)).sum(-1, dtype=torch.float64)
                gradient = following
            kept = gradient if field.deterministic else None
            end = State(position, momentum, None, kept, state.owed, state.trajectories + 1)
            potential = target.potential if end.trajectories % self.monitor_every == 0 else None
            return metropolis.watch(state, end, work, steps, temperature, potential)

        return init, step
