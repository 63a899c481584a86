"""HMC: Hamiltonian Monte Carlo, GGMC's word `O(BAB)O` with infinite friction.

    m ~ N(0, T·M);   steps times:  m ← m − (h/2) ∇U(θ),  θ ← θ + h M⁻¹m,  m ← m − (h/2) ∇U(θ);   test

Targets exp(−(U(θ) + K(m))/T), exactly. Neal, "MCMC using Hamiltonian dynamics", 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ggmc.dynamics.length import Steps
from ggmc.errors import BadInput
from ggmc.guides import Exact, Field, Guide
from ggmc.kernels.ggmc import GGMC, Init, Step
from ggmc.targets.base import Target


@dataclass(frozen=True)
class HMC:
    """Hamiltonian Monte Carlo; settings as in `ggmc.GGMC`.

    Example:
        >>> import ggmc
        >>> ggmc.HMC(step_size=0.1, steps=(5, 10))
        HMC(step_size=0.1, steps=(5, 10), guide=Exact(), temperature=1.0, mass=None, adjust=True)
    """

    step_size: float | None = None
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mass", self.as_ggmc().mass)
        if self.step_size is not None and self.steps is None:
            raise BadInput("HMC with a given step_size needs steps too: give steps, or leave both to warm-up")

    def as_ggmc(self) -> GGMC:
        """The same sampler as a word."""
        return GGMC(
            self.step_size, math.inf, self.steps, "O(BAB)O", self.guide, self.temperature, self.mass, self.adjust
        )

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        return self.as_ggmc().bind(target)

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound."""
        return self.as_ggmc().on(target, field, early_stop)
