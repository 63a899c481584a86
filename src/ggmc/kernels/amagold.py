"""AMAGOLD: friction and kick in one implicit step, tested once for many minibatches: the word `ACA`.

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

import math
from dataclasses import dataclass

from ggmc.dynamics import length
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import MassLike
from ggmc.errors import BadInput, require_not_negative
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel


@dataclass(frozen=True, eq=False)
class AMAGOLD(WordKernel):
    """Amortised Metropolis-adjusted stochastic-gradient sampling: the correctable relabelling of SGHMC.

    Args:
        step_size: h; None leaves it to warm-up.
        friction: γ, finite.
        steps: Steps of a trajectory, as in `ggmc.GGMC`.
        guide: The gradient field.
        temperature: T.
        mass: As in `ggmc.GGMC`.
        adjust: Whether trajectories are tested.

    Example:
        >>> import ggmc
        >>> ggmc.AMAGOLD(step_size=0.1, steps=10).steps
        10
    """

    step_size: float | None = None
    friction: float = 1.0
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True

    def __post_init__(self) -> None:
        check_settings(self)
        require_not_negative("friction", self.friction, finite=False)
        if math.isinf(self.friction):
            raise BadInput("AMAGOLD has no limit of infinite friction: give a finite friction, or use ggmc.MALA")
        length.check(self.steps)

    def program(self, field: GradientField) -> Program:
        return Program("ACA", self.friction, self.steps)
