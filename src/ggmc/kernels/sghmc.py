"""SGHMC: stochastic-gradient Hamiltonian Monte Carlo, by symplectic Euler and Maruyama: the word `EA`.

    m ← (1 − γh) m − h g(θ; ζ) + √(2γhT) M^½ ε
    θ ← θ + h M⁻¹m

Biased: its momenta by O(h), its positions, with exact gradients, by O(h²). The word is not a palindrome. A step drifts
with the momentum it ends with: the way back from (θ', −m') reaches θ only if it ends with momentum −m', but retracing
the step means to end with −m. So the acceptance probability of the pair (θ, m) is 0 at every step size (Theorem 1 of
Garriga-Alonso and Fortuin, 2020), and log α is reported as −∞. Its positions alone are those of AMAGOLD without the
test, at its kick points, with c = γh/(2 − γh), step size h√(1 + c) and momentum m/√(1 + c): there log α is finite.
AMAGOLD is the correctable relabelling of SGHMC.

Chen, Fox and Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", 2014.
"""

from __future__ import annotations

from dataclasses import dataclass

from ggmc.dynamics import length
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import MassLike
from ggmc.dynamics.schedule import Over, check_along_and_over
from ggmc.errors import Condition, NotExact, require_count, require_not_negative, require_positive
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel

THEOREM_1 = (
    "SGHMC cannot be Metropolis-corrected: symplectic Euler–Maruyama never retraces its step, so its acceptance "
    "probability is 0 at every step size (Theorem 1). Use ggmc.AMAGOLD, whose positions it shares, ggmc.GGMC, the "
    "reversible integrator, or adjust=False"
)
NOT_REVERSIBLE = (
    "SGHMC is biased, and its word EA cannot be retraced. Its positions are those of ggmc.AMAGOLD without the test, "
    "whose log α is finite: use that to see how large the bias is, and ggmc.AMAGOLD or ggmc.GGMC with the test to have "
    "none"
)


@dataclass(frozen=True, eq=False)
class SGHMC(WordKernel):
    """The usual stochastic-gradient sampler with momentum, biased, as a baseline.

    Args:
        step_size: h.
        friction: γ.
        steps: Steps of each draw, as in `ggmc.GGMC`; by default a sweep of the guide's order, with palindromes two
            passes over the data.
        guide: The gradient field.
        temperature: T.
        mass: A tensor [d] or [d, d]; by default the identity.
        adjust: Must be False: see the error for the reason.
        monitor_every: The exact potential is computed after every so many draws.
        over: A schedule of the step size over the run.

    Example:
        >>> import ggmc
        >>> ggmc.SGHMC(step_size=0.1, adjust=True)
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: SGHMC cannot be Metropolis-corrected: symplectic Euler–Maruyama never retraces ...
    """

    step_size: float  # pyright: ignore[reportIncompatibleVariableOverride]  # never None here
    friction: float = 1.0
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = False
    monitor_every: int = 1
    over: Over | None = None

    def __post_init__(self) -> None:
        if self.adjust:
            raise NotExact(THEOREM_1, Condition.WORD)
        require_positive("step_size", self.step_size)
        check_settings(self)
        require_not_negative("friction", self.friction)
        require_count("monitor_every", self.monitor_every)
        length.check(self.steps)
        check_along_and_over(None, self.over)

    def program(self, field: GradientField) -> Program:
        return Program(
            "EA",
            self.friction,
            self.steps,
            monitor_every=self.monitor_every,
            over=self.over,
            not_testable=NOT_REVERSIBLE,
        )
