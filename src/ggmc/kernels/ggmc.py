"""GGMC: gradient-guided Monte Carlo, the reversible Langevin integrator with an exact Metropolis test.

One trajectory carries out a word of O, B, A (see `scheme.py`, where each letter is an equation); `OBABO`, repeated
`steps` times, is the paper's. One step of size h is

    O  m ← e^(−γh/2) m + √((1 − e^(−γh)) T) M^½ ε
    B  m ← m − (h/2) g(θ; ζ)
    A  θ ← θ + h M⁻¹m
    B, O  as above

where the O's of neighbouring steps, and kicks with no O between them, merge into one.

Targets exp(−(U(θ) + K(m))/T), exactly, at every step size and with every guide: the word can retrace its steps, so the
one test of `metropolis.py`, log α = −[U(θ') − U(θ) + W]/T, corrects the whole trajectory. With `adjust=False` it is
biased by O(h²), and log α says how much.

Reference: Garriga-Alonso and Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", AABI 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics import length as lengths
from ggmc.dynamics import metropolis
from ggmc.dynamics.comparison import Comparison
from ggmc.dynamics.either_way import run_either_way
from ggmc.dynamics.exactness import Unchanged, refuse_if_not_exact
from ggmc.dynamics.length import Steps
from ggmc.dynamics.mass import Identity, Mass, as_mass
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.schedule import Along, Factors, Flat, Over
from ggmc.dynamics.scheme import Dynamics, Scheme, State, normals, refresh, run
from ggmc.errors import BadInput, NotExact, require_count, require_not_negative, require_positive
from ggmc.guides import Exact, Field, Guide
from ggmc.targets.base import Target

MASS_KINDS = ("identity", "diagonal", "dense", "tensor")

Init = Callable[[Tensor, torch.Generator], State]
Step = Callable[[State, torch.Generator], tuple[State, Info]]


@dataclass(frozen=True)
class GGMC:
    """The sampler all others here are special cases of.

    `step_size=None` leaves the step size, and of `steps` and `mass` what is None too, to the warm-up of `ggmc.sample`;
    given a step size, nothing is tuned, and None means the guide's own length (one step; for minibatches a sweep) and
    the identity. `steps` may be a pair: each trajectory then draws its number of steps uniformly from that range; or
    text, "3 epochs" (passes over the data) or "2 sweeps" (until the order of minibatches has come round: with
    palindromes, out and back). `scheme` is "OBABO", or "O(ABA)O" for palindromic minibatches. `mass` is a tensor [d] or
    [d, d], or the kind that warm-up shall find: "identity", "diagonal", "dense", or "tensor" (one number per named
    tensor, from the size of its gradients). `fresh_momentum` forgets the momentum before every trajectory, whatever the
    friction.

    `adjust=False` leaves out the test and reports log α; with `monitor_every=n` only after every n-th trajectory, for
    all n together. `along` and `over` are schedules (`ggmc.schedule`) along each trajectory and from one to the next.
    `explain` is the share of kicks at which the exact gradient is computed too, to tell how much of the energy error is
    the guide's noise (`Info.noise_error`, and `noise_error` in traces) and how much the step's.

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
    scheme: str = None  # pyright: ignore[reportAssignmentType]  # a word once it is made, as above
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = True
    fresh_momentum: bool = False
    monitor_every: int = 1
    along: Along | None = None
    over: Over | None = None
    explain: float = 0.0

    def __post_init__(self) -> None:
        if self.step_size is not None:
            require_positive("step_size", self.step_size)
        require_not_negative("friction", self.friction, finite=False)
        require_not_negative("temperature", self.temperature)
        if self.adjust and self.temperature == 0:
            raise BadInput("temperature 0 is optimisation, which has no law to test against: use adjust=False")
        lengths.check(self.steps)
        if not hasattr(self.guide, "bind"):
            raise BadInput(f"guide must be a guide such as ggmc.Exact(), got {self.guide!r}")
        if self.scheme is None:
            palindromic = getattr(self.guide, "order", None) == "palindrome"
            object.__setattr__(self, "scheme", "O(ABA)O" if palindromic else "OBABO")
        if "C" in Scheme(self.scheme).word and math.isinf(self.friction):
            raise BadInput("the letter C has no limit of infinite friction: give a finite friction")
        if self.step_size is not None and getattr(self.guide, "size", None) == "auto":
            raise BadInput('size="auto" is found in warm-up: leave step_size out too, or give a size')
        if isinstance(self.mass, str) and self.mass in MASS_KINDS:
            if self.mass != "identity" and self.step_size is not None:
                raise BadInput(f"mass={self.mass!r} is found in warm-up: leave step_size out too, or give a tensor")
        elif self.mass is not None:
            object.__setattr__(self, "mass", as_mass(self.mass))
        require_count("monitor_every", self.monitor_every)
        if self.adjust and self.monitor_every > 1:
            raise BadInput(f"monitor_every={self.monitor_every} needs adjust=False: with the test, all are tested")
        if not 0 <= self.explain <= 1:
            raise BadInput(f"explain must be a share between 0 and 1, got {self.explain!r}")
        if self.explain and self.monitor_every > 1:
            raise BadInput("explain tells of single trajectories, and monitor_every of several: use one of them")
        if self.explain and self.along is not None and self.along.either_way:
            raise BadInput(
                "explain cannot compare trajectories that go either way: use a schedule that is a palindrome"
            )
        if self.adjust and self.along is not None:
            self.along.refuse_if_lopsided()
        if self.adjust and self.over is not None and self.over.temperature != Flat():
            raise NotExact(
                f"a temperature that changes over the run has no one law to sample, got {self.over.temperature!r}: "
                "use adjust=False, or a constant temperature"
            )

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        field = self.guide.bind(target)
        refuse_if_not_exact(self, target, field)
        return self.on(target, field)

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]:
        """The same with a guide that is already bound. Without `early_stop`, every log α is computed to the end."""
        if self.step_size is None:
            raise BadInput("step_size=None is tuned by ggmc.sample: give a number to bind the kernel by hand")
        scheme = Scheme(self.scheme)
        steps_or_range = lengths.in_steps(self.steps, field)
        constants = Dynamics(
            float(self.step_size), float(self.friction), float(self.temperature), fixed_mass(self.mass, target)
        )
        unchanged = Unchanged(constants.mass, field)
        stops = early_stop and getattr(target, "bound", None) is not None

        def potential_of(position: Tensor, limit: Tensor) -> Tensor:
            given: Any = target
            return given.potential_below(position, limit) if stops else target.potential(position)

        def init(position: Tensor, generator: torch.Generator) -> State:
            return start_state(target, field, position, constants, generator)

        def step(state: State, generator: torch.Generator) -> tuple[State, Info]:
            if self.adjust:
                unchanged.check()
            dynamics = constants if self.over is None else constants.scaled(*self.over.at(state.trajectories))
            chains = len(state.position)
            steps = lengths.draw(steps_or_range, generator)
            factors = self._factors(steps)
            plan = scheme.plan(steps, factors)
            noise = normals(state.position, generator)
            log_uniform = metropolis.log_uniforms(chains, generator)
            tape = field.tape(plan.gradients, chains, generator)
            look = Comparison(target, plan.kicks, self.explain, generator) if self.explain else None

            # The O's at the trajectory's ends, outside the test: a rejection flips the momentum that they left.
            decay = math.inf if self.fresh_momentum else dynamics.decay(plan.outer)
            start = state._replace(momentum=refresh(state.momentum, decay, dynamics, noise))
            if factors is not None and self.along is not None and self.along.either_way:
                both = plan, scheme.plan(steps, factors.reversed())
                end, work = run_either_way(both, start, dynamics, field, tape, generator)
            else:
                end, work = run(plan, start, dynamics, field, tape, noise, look)
            if not self.adjust:
                looked_at = end.trajectories % self.monitor_every == 0
                potential = target.potential if looked_at else None
                after, info = metropolis.watch(start, end, work, steps, dynamics.temperature, potential)
            else:
                if end.potential is None:
                    limit = metropolis.certain_rejection(start, work, dynamics.temperature, log_uniform)
                    end = end._replace(potential=potential_of(end.position, limit))
                after, info = metropolis.decide(start, end, work, steps, dynamics.temperature, log_uniform)
            return after, info if look is None else info._replace(noise_error=look.by_noise)

        return init, step

    def _factors(self, steps: int) -> Factors | None:
        if self.along is None:
            return None
        if self.adjust:  # what reads the same backwards at one number of steps need not at another
            self.along.refuse_if_lopsided(steps)
        return self.along.factors(steps)

    def as_ggmc(self) -> GGMC:
        """Itself: the form in which warm-up tunes every kernel."""
        return self


def fixed_mass(mass: Any, target: Target) -> Mass:
    """The mass as given, or the identity where it is left to warm-up."""
    if mass is None or isinstance(mass, str):
        return Identity()
    return mass.to(torch.empty(0, target.layout.size, dtype=target.dtype, device=target.device))


def start_state(
    target: Target, field: Field, position: Tensor, dynamics: Dynamics, generator: torch.Generator
) -> State:
    """Positions as given, momenta from their law. A non-finite start is an error."""
    position = position.to(target.dtype).to(target.device)
    if position.dim() != 2 or position.shape[1] != target.layout.size:
        raise BadInput(f"positions must have shape [chains, {target.layout.size}], got {list(position.shape)}")
    gradient, potential = field(position, None) if field.deterministic else (None, None)
    if potential is None:
        potential = target.potential(position)
    for what, rows in (("position", position), ("gradient", gradient)):
        if rows is not None and not rows.isfinite().all():
            chain, column = (~rows.isfinite()).nonzero()[0].tolist()
            where, value = target.layout.locate(column), rows[chain, column].item()
            raise BadInput(f"chain {chain} starts with a {what} of {value:g} in {where}: start inside the support")
    if not potential.isfinite().all():
        chain = int((~potential.isfinite()).nonzero()[0])
        value = potential[chain].item()
        raise BadInput(f"chain {chain} starts at a potential of {value:g}: start inside the support")
    momentum = refresh(torch.zeros_like(position), math.inf, dynamics, normals(position, generator))
    return State(position, momentum, potential, gradient)
