"""SGHMC: stochastic-gradient Hamiltonian Monte Carlo, by symplectic Euler and Maruyama.

    m ← (1 − γh) m − h g(θ; ζ) + √(2γhT) M^½ ε
    θ ← θ + h M⁻¹m

Biased, by O(h), and no test can correct it or tell how wrong it is. A step drifts with the momentum it ends with: the
way back from (θ', −m') reaches θ only if it ends with momentum −m', but retracing the step means to end with −m. Its
density there, and so the acceptance probability, is 0 at every step size (Theorem 1 of Garriga-Alonso and Fortuin,
2020). log α is reported as −∞. Chen, Fox and Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", 2014.
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
from ggmc.errors import NotExact, require_not_negative
from ggmc.guides import Exact, Field, Guide
from ggmc.kernels.ggmc import Init, Step, fixed_mass, start_state
from ggmc.targets.base import Target

THEOREM_1 = (
    "SGHMC cannot be Metropolis-corrected: symplectic Euler–Maruyama never retraces its step, so its acceptance "
    "probability is 0 at every step size (Theorem 1). Use ggmc.GGMC, the reversible integrator, or adjust=False"
)


@dataclass(frozen=True)
class SGHMC:
    """The usual stochastic-gradient sampler with momentum, biased, as a baseline; settings as in `ggmc.GGMC`.

    Each draw is `steps` steps; the default is a sweep of the guide's order, with palindromes two passes over the data.
    `over` changes the step size over the run.

    Example:
        >>> import ggmc
        >>> ggmc.SGHMC(step_size=0.1, adjust=True)
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: SGHMC cannot be Metropolis-corrected: symplectic Euler–Maruyama never retraces ...
    """

    step_size: float
    friction: float = 1.0
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = False
    monitor_every: int = 1
    over: Over | None = None

    def __post_init__(self) -> None:
        if self.adjust:
            raise NotExact(THEOREM_1)
        require_not_negative("friction", self.friction)
        check_unadjusted(self)

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        return self.on(target, self.guide.bind(target))

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound."""
        constants = Dynamics(self.step_size, self.friction, self.temperature, fixed_mass(self.mass, target))
        steps_or_range = lengths.in_steps(self.steps, field)

        def init(position: Tensor, generator: torch.Generator) -> State:
            return start_state(target, field, position, constants, generator)

        def step(state: State, generator: torch.Generator) -> tuple[State, Info]:
            dynamics = constants if self.over is None else constants.scaled(*self.over.at(state.trajectories))
            steps = lengths.draw(steps_or_range, generator)
            tape = field.tape(steps, len(state.position), generator)
            position, momentum = euler(state, dynamics, field, tape, normals(state.position, generator))
            end = State(position, momentum, None, None, state.owed, state.trajectories + 1)
            no_work = torch.zeros(len(position), dtype=torch.float64, device=position.device)
            looked_at = end.trajectories % self.monitor_every == 0
            potential = target.potential if looked_at else None
            after, info = metropolis.watch(state, end, no_work, steps, dynamics.temperature, potential)
            if looked_at:
                never = torch.full_like(no_work, torch.inf)
                info = info._replace(log_accept=-never, energy_error=never)
            return after, info

        return init, step


def euler(state: State, dynamics: Dynamics, field: Field, tape: Any, noise: Any) -> tuple[Tensor, Tensor]:
    """Symplectic Euler–Maruyama, once for each entry of the tape."""
    h, friction, temperature, mass = dynamics
    position, momentum = state.position, state.momentum
    spread = math.sqrt(2 * friction * h * temperature)
    for entry in tape:
        gradient, _ = field(position, entry)
        momentum = (1 - friction * h) * momentum - h * gradient
        if spread:
            momentum = momentum + spread * mass.colour(next(noise))
        position = position + h * mass.velocity(momentum)
    return position, momentum
