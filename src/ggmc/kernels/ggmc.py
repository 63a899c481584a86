"""GGMC: gradient-guided Monte Carlo, the reversible Langevin integrator with an exact Metropolis test.

One trajectory carries out a word of O, B, A (see `ggmc.dynamics.letters`, where each letter is an equation); `OBABO`,
repeated `steps` times, is the paper's. One step of size h is

    O  m ← e^(−γh/2) m + √((1 − e^(−γh)) T) M^½ ε
    B  m ← m − (h/2) g(θ; ζ)
    A  θ ← θ + h M⁻¹m
    B, O  as above

where the O's of neighbouring steps, and kicks with no O between them, merge into one.

Targets exp(−(U(θ) + K(m))/T), exactly, at every step size and with every guide: the word can retrace its steps, so the
one test of `metropolis.py`, log α = −[U(θ') − U(θ) + W]/T, corrects the whole trajectory. With `adjust=False` it is
biased, by O(h²) with a deterministic guide and by O(h) with independent minibatches, and log α says how much.

Reference: Garriga-Alonso and Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", AABI 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ggmc.dynamics import length
from ggmc.dynamics.exactness import scheme_of
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import MassLike
from ggmc.dynamics.schedule import Along, Over, check_along_and_over
from ggmc.errors import (
    BadInput,
    Condition,
    NotExact,
    require_between,
    require_count,
    require_not_negative,
    require_switch,
)
from ggmc.guides import Exact, GradientField, Guide
from ggmc.guides.augmentation import order_of_batches
from ggmc.guides.orders import Palindrome
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel


@dataclass(frozen=True, eq=False)
class GGMC(WordKernel):
    """The sampler all others here are special cases of.

    Args:
        step_size: h. None leaves it, and of `steps` and `mass` what is None too, to the warm-up of `ggmc.sample`.
        friction: γ, the loss of momentum per unit of time; 0 to infinity.
        steps: Steps of a trajectory. A pair (least, most) draws the number uniformly for each trajectory; text counts
            in passes over the data ("3 epochs") or until the order of minibatches has come round ("2 sweeps"). None,
            with a step size given, is the guide's own length: one step; for minibatches a sweep.
        scheme: The word. By default "OBABO", or "O(ABA)O" for palindromic minibatches. Words of several stages,
            such as "O(BCSS3)O", go further per gradient in smooth targets of many dimensions (`ggmc.STAGES`).
        guide: The gradient field that drives the motion.
        temperature: T.
        mass: A tensor [d] or [d, d], a `ggmc.dynamics.mass.LowRank`, or the kind that warm-up shall find: "identity",
            "diagonal", "dense", "tensor" (one number per named tensor, from the size of its gradients), or "low_rank"
            (the prior's precision and the stiffest directions). None, with a step size given, is the identity.
        adjust: Whether trajectories are tested. False rejects nothing and reports log α.
        fresh_momentum: Whether the momentum is drawn anew before every trajectory, whatever the friction.
        monitor_every: Without the test, log α is reported for so many trajectories together.
        along: A schedule along each trajectory (`ggmc.schedule.Along`).
        over: A schedule from one trajectory to the next (`ggmc.schedule.Over`).
        explain: The share of kicks at which the exact gradient is computed too, to tell how much of the energy error is
            the guide's noise (`noise_error` in traces) and how much the step's.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> init, step = ggmc.GGMC(step_size=0.8, friction=0.13).bind(target)
        >>> generator = torch.Generator().manual_seed(0)
        >>> state = init(target.starts(1000, generator), generator)
        >>> for _ in range(50):
        ...     state, info = step(state, generator)
        >>> bool(info.accepted.double().mean() > 0.8)
        True
        >>> bool((state.position.mean() + 0.6224).abs() < 0.1)        # the truth is −0.6224
        True
    """

    step_size: float | None = None
    friction: float = 1.0
    steps: Steps | None = None
    scheme: str | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = True
    fresh_momentum: bool = False
    monitor_every: int = 1
    along: Along | None = None
    over: Over | None = None
    explain: float = 0.0

    def __post_init__(self) -> None:
        check_settings(self)
        require_not_negative("friction", self.friction, finite=False)
        length.check(self.steps)
        require_switch("fresh_momentum", self.fresh_momentum)
        require_between("explain", self.explain, ends=True)
        require_count("monitor_every", self.monitor_every)
        if self.adjust and self.monitor_every > 1:
            raise BadInput(f"monitor_every={self.monitor_every} needs adjust=False: with the test, all are tested")
        if self.scheme is not None:
            scheme = scheme_of(self.scheme, self.adjust)
            if "C" in scheme.spelt.letters and math.isinf(self.friction):
                raise BadInput("the letter C has no limit of infinite friction: give a finite friction")
        check_along_and_over(self.along, self.over)
        if self.explain and self.monitor_every > 1:
            raise BadInput("explain tells of single trajectories, and monitor_every of several: use one of them")
        if self.explain and self.along is not None and self.along.either_way:
            raise BadInput(
                "explain cannot compare trajectories that go either way: use a schedule that is a palindrome"
            )
        if self.adjust and self.along is not None:
            lopsided = self.along.lopsided()
            if lopsided is not None:
                raise NotExact(lopsided, Condition.STEPS)
        if self.adjust and self.over is not None and not self.over.keeps_temperature:
            raise NotExact(
                "a temperature that changes over the run has no one distribution to sample, got "
                f"{self.over.temperature!r}: use adjust=False, or a constant temperature",
                Condition.TEST,
            )

    def program(self, field: GradientField) -> Program:
        sweeps = field.order is not None and isinstance(order_of_batches(field.order), Palindrome)
        suitable = "O(ABA)O" if sweeps else "OBABO"
        return Program(
            suitable if self.scheme is None else self.scheme,
            self.friction,
            self.steps,
            fresh_momentum=self.fresh_momentum,
            monitor_every=self.monitor_every,
            along=self.along,
            over=self.over,
            explain=self.explain,
        )
