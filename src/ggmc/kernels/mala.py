"""MALA: the Metropolis-adjusted Langevin algorithm, one step of the word `OBABO` with infinite friction.

    θ' = θ − (h²/2) M⁻¹∇U(θ) + h √T M^(−½) ε,   then the test

Targets exp(−U(θ)/T), exactly. Without the test it is SGLD with the exact gradient. Roberts and Tweedie, 1996.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ggmc.dynamics.mass import MassLike
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel


@dataclass(frozen=True, eq=False)
class MALA(WordKernel):
    """The Metropolis-adjusted Langevin algorithm.

    Args:
        step_size: h; None leaves it to warm-up.
        guide: The gradient field.
        temperature: T.
        mass: As in `ggmc.GGMC`.
        adjust: Whether steps are tested.

    Example:
        >>> import ggmc
        >>> ggmc.MALA(step_size=0.1)
        MALA(step_size=0.1, guide=Exact(), temperature=1.0, mass=None, adjust=True)
    """

    step_size: float | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True

    def __post_init__(self) -> None:
        check_settings(self)

    def program(self, field: GradientField) -> Program:
        return Program("OBABO", math.inf, 1)
