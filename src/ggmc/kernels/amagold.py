"""AMAGOLD: friction and kick in one implicit step, tested once for many minibatches: GGMC's word `ACA`.

    θ ← θ + (h/2) M⁻¹m
    m ← [(1 − c) m − h g(θ; ζ) + √(4cT) M^½ ε] / (1 + c),   c = γh/2
    θ ← θ + (h/2) M⁻¹m

where the half drifts of neighbouring steps merge. (1 − c)/(1 + c) = e^(−γh) up to h³, and the noise's variance is T
times one minus its square, so that γ means what it means for GGMC. With s = m + m' and d = m' − m, the noise used is
d + cs + hg, and that of the way back, from −m' to −m, is d − cs + hg, both of variance 4cT·M: their log densities
differ by [ΔK + (h/2) g·M⁻¹s]/T, so the work is W = −(h/2) g·M⁻¹(m + m') and the test that of GGMC.

Targets exp(−(U(θ) + K(m))/T), exactly. Zhang, Cooper and De Sa, "AMAGOLD: Amortized Metropolis adjustment for efficient
stochastic gradient MCMC", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ggmc.dynamics.length import Steps
from ggmc.guides import Exact, Field, Guide
from ggmc.kernels.ggmc import GGMC, Init, Step
from ggmc.targets.base import Target


@dataclass(frozen=True)
class AMAGOLD:
    """Amortised Metropolis-adjusted stochastic-gradient sampling; settings as in `ggmc.GGMC`.

    Example:
        >>> import ggmc
        >>> ggmc.AMAGOLD(step_size=0.1, steps=10).as_ggmc().scheme
        'ACA'
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

    def as_ggmc(self) -> GGMC:
        """The same sampler as a word."""
        return GGMC(
            self.step_size, self.friction, self.steps, "ACA", self.guide, self.temperature, self.mass, self.adjust
        )

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        return self.as_ggmc().bind(target)

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound."""
        return self.as_ggmc().on(target, field, early_stop)
