"""SGLD: stochastic-gradient Langevin dynamics, the word `OBABO` with infinite friction and no test.

    θ ← θ − (h²/2) M⁻¹g(θ; ζ) + h √T M^(−½) ε

The learning rate is ℓ = N h², as everywhere (`ggmc.from_learning_rate` with momentum 0): the gradient of the mean loss
is multiplied by ℓ/2. Biased, by O(h²) and by the gradient's noise. The last half kick does not
change θ: it is computed only to report log α, and costs one gradient per draw.

Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ggmc.dynamics import length
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import MassLike
from ggmc.dynamics.schedule import Over, check_along_and_over
from ggmc.errors import Condition, NotExact, require_count, require_positive
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel


@dataclass(frozen=True, eq=False)
class SGLD(WordKernel):
    """The simplest stochastic-gradient sampler, biased, as a baseline.

    Args:
        step_size: h; the learning rate is N h².
        steps: Steps of each draw, as in `ggmc.GGMC`; by default a sweep of the guide's order, with palindromes two
            passes over the data.
        guide: The gradient field.
        temperature: T.
        mass: A tensor [d] or [d, d]; by default the identity.
        adjust: Must be False: SGLD with the test is `ggmc.MALA`.
        monitor_every: log α is reported for so many draws together.
        over: A schedule of the step size over the run.

    Example:
        >>> import ggmc
        >>> ggmc.SGLD(step_size=0.1, adjust=True)
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: SGLD is what remains of MALA without its test: use ggmc.MALA, or adjust=False
    """

    step_size: float  # pyright: ignore[reportIncompatibleVariableOverride]  # never None here
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = False
    monitor_every: int = 1
    over: Over | None = None

    def __post_init__(self) -> None:
        if self.adjust:
            message = "SGLD is what remains of MALA without its test: use ggmc.MALA, or adjust=False"
            raise NotExact(message, Condition.TEST)
        require_positive("step_size", self.step_size)
        check_settings(self)
        require_count("monitor_every", self.monitor_every)
        length.check(self.steps)
        check_along_and_over(None, self.over)

    def program(self, field: GradientField) -> Program:
        return Program("OBABO", math.inf, self.steps, monitor_every=self.monitor_every, over=self.over)
