"""HMC: Hamiltonian Monte Carlo, the word `O(BAB)O` with infinite friction.

    m ~ N(0, T·M);   steps times:  m ← m − (h/2) ∇U(θ),  θ ← θ + h M⁻¹m,  m ← m − (h/2) ∇U(θ);   test

Targets exp(−(U(θ) + K(m))/T), exactly. Neal, "MCMC using Hamiltonian dynamics", 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ggmc.dynamics import length
from ggmc.dynamics.exactness import scheme_of
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import MassLike
from ggmc.errors import BadInput
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel


@dataclass(frozen=True, eq=False)
class HMC(WordKernel):
    """Hamiltonian Monte Carlo.

    Args:
        step_size: h; None leaves it to warm-up.
        steps: Steps of a trajectory, as in `ggmc.GGMC`; needed where a step size is given.
        guide: The gradient field.
        temperature: T.
        mass: As in `ggmc.GGMC`.
        adjust: Whether trajectories are tested.
        scheme: The word, with O at both ends only: by default "O(BAB)O"; or one of several stages such as "O(BCSS3)O".

    Example:
        >>> import ggmc
        >>> ggmc.HMC(step_size=0.1, steps=(5, 10)).steps
        (5, 10)
    """

    step_size: float | None = None
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True
    scheme: str | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        length.check(self.steps)
        if self.step_size is not None and self.steps is None:
            raise BadInput("HMC with a given step_size needs steps too: give steps, or leave both to warm-up")
        if self.scheme is None:
            return
        scheme = scheme_of(self.scheme, self.adjust)
        if scheme.tempered or not scheme.plan(1).before:
            raise BadInput(
                f"HMC draws the momentum between trajectories only, but the scheme {self.scheme!r} has not just an O "
                'at each end, outside the parentheses: use a word such as "O(BAB)O", or ggmc.GGMC'
            )

    def program(self, field: GradientField) -> Program:
        return Program("O(BAB)O" if self.scheme is None else self.scheme, math.inf, self.steps)
