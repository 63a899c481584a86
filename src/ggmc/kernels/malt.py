"""MALT: Metropolis-adjusted Langevin trajectories, `OBABO` × steps from a fresh momentum with one test at the end.

    m ~ N(0, T·M);   steps times O, B, A, B, O with friction γ;   test

Targets exp(−(U(θ) + K(m))/T), exactly. Friction along the way makes it less sensitive to the trajectory's length than
HMC. Riou-Durand and Vogrinc, "Metropolis Adjusted Langevin Trajectories", 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

from ggmc.dynamics import length
from ggmc.dynamics.exactness import scheme_of
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import MassLike
from ggmc.errors import BadInput, require_not_negative
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel


@dataclass(frozen=True, eq=False)
class MALT(WordKernel):
    """Metropolis-adjusted Langevin trajectories.

    Args:
        step_size: h; None leaves it to warm-up.
        friction: γ, along the trajectory.
        steps: Steps of a trajectory, as in `ggmc.GGMC`; needed where a step size is given.
        guide: The gradient field.
        temperature: T.
        mass: As in `ggmc.GGMC`.
        adjust: Whether trajectories are tested.
        scheme: The word, with an O in each step: by default "OBABO"; or one of several stages such as "OBCSS3O".

    Example:
        >>> import ggmc
        >>> ggmc.MALT(step_size=0.1, steps=10).friction
        1.0
    """

    step_size: float | None = None
    friction: float = 1.0
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True
    scheme: str | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        require_not_negative("friction", self.friction, finite=False)
        length.check(self.steps)
        if self.step_size is not None and self.steps is None:
            raise BadInput("MALT with a given step_size needs steps too: give steps, or leave both to warm-up")
        if self.scheme is not None and not scheme_of(self.scheme, self.adjust).tempered:
            raise BadInput(
                f"MALT has friction along the trajectory, but the scheme {self.scheme!r} has no O in its steps: use a "
                'word such as "OBABO", or ggmc.HMC'
            )

    def program(self, field: GradientField) -> Program:
        return Program("OBABO" if self.scheme is None else self.scheme, self.friction, self.steps, fresh_momentum=True)
