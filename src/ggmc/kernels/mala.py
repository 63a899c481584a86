"""MALA: the Metropolis-adjusted Langevin algorithm, one step of GGMC's `OBABO` with infinite friction.

    θ' = θ − (h²/2) M⁻¹∇U(θ) + h √T M^(−½) ε,   then the test

Targets exp(−U(θ)/T), exactly. Without the test it is SGLD with learning rate h²/2 on U. Roberts and Tweedie, 1996.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ggmc.guides import Exact, Field, Guide
from ggmc.kernels.ggmc import GGMC, Init, Step
from ggmc.targets.base import Target


@dataclass(frozen=True)
class MALA:
    """The Metropolis-adjusted Langevin algorithm; settings as in `ggmc.GGMC`.

    Example:
        >>> import ggmc
        >>> ggmc.MALA(step_size=0.1).as_ggmc().friction
        inf
    """

    step_size: float | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mass", self.as_ggmc().mass)

    def as_ggmc(self) -> GGMC:
        """The same sampler as a word."""
        return GGMC(self.step_size, math.inf, 1, "OBABO", self.guide, self.temperature, self.mass, self.adjust)

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        return self.as_ggmc().bind(target)

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound."""
        return self.as_ggmc().on(target, field, early_stop)
