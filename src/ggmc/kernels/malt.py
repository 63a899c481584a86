"""MALT: Metropolis-adjusted Langevin trajectories, `OBABO` × steps from a fresh momentum with one test at the end.

    m ~ N(0, T·M);   steps times O, B, A, B, O with friction γ;   test

Targets exp(−(U(θ) + K(m))/T), exactly. Friction along the way makes it less sensitive to the trajectory's length than
HMC. Riou-Durand and Vogrinc, "Metropolis Adjusted Langevin Trajectories", 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ggmc.dynamics.length import Steps
from ggmc.errors import BadInput
from ggmc.guides import Exact, Field, Guide
from ggmc.kernels.ggmc import GGMC, Init, Step
from ggmc.targets.base import Target


@dataclass(frozen=True)
class MALT:
    """Metropolis-adjusted Langevin trajectories; settings as in `ggmc.GGMC`.

    Example:
        >>> import ggmc
        >>> ggmc.MALT(step_size=0.1, steps=10).as_ggmc().fresh_momentum
        True
    """

    step_size: float | None = None
    friction: float = 1.0
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mass", self.as_ggmc().mass)
        if self.step_size is not None and self.steps is None:
            raise BadInput("MALT with a given step_size needs steps too: give steps, or leave both to warm-up")

    def as_ggmc(self) -> GGMC:
        """The same sampler as a word."""
        return GGMC(
            self.step_size,
            self.friction,
            self.steps,
            "OBABO",
            self.guide,
            self.temperature,
            self.mass,
            self.adjust,
            fresh_momentum=True,
        )

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        return self.as_ggmc().bind(target)

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound."""
        return self.as_ggmc().on(target, field, early_stop)
