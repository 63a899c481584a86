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

from ggmc import metropolis
from ggmc.errors import BadInput, require_count, require_not_negative, require_positive
from ggmc.guides import Exact, Field, Guide
from ggmc.mass import Identity, Mass, as_mass
from ggmc.metropolis import Info
from ggmc.scheme import Dynamics, Scheme, State, normals, refresh, run
from ggmc.target import Target

MASS_KINDS = ("identity", "diagonal", "dense")

Steps = int | tuple[int, int]

Init = Callable[[Tensor, torch.Generator], State]
Step = Callable[[State, torch.Generator], tuple[State, Info]]


@dataclass(frozen=True)
class GGMC:
    """The sampler all others here are special cases of.

    `step_size=None` leaves the step size, and of `steps` and `mass` what is None too, to the warm-up of `ggmc.sample`;
    given a step size, nothing is tuned, and None means one step and the identity. `steps` may be a pair: each
    trajectory then draws its number of steps uniformly from that range. `mass` is a tensor [d] or [d, d], or the kind
    that warm-up shall find: "identity", "diagonal" or "dense". `fresh_momentum` forgets the momentum before every
    trajectory, whatever the friction.

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
    scheme: str = "OBABO"
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: Any = None
    adjust: bool = True
    fresh_momentum: bool = False

    def __post_init__(self) -> None:
        if self.step_size is not None:
            require_positive("step_size", self.step_size)
        require_not_negative("friction", self.friction, finite=False)
        require_not_negative("temperature", self.temperature)
        if self.adjust and self.temperature == 0:
            raise BadInput("temperature 0 is optimisation, which has no law to test against: use adjust=False")
        if self.steps is not None:
            low, high = _range(self.steps)
            require_count("steps", low)
            require_count("steps", high)
            if low > high:
                raise BadInput(f"steps must be a pair (least, most), got {self.steps!r}")
        Scheme(self.scheme)
        if not hasattr(self.guide, "bind"):
            raise BadInput(f"guide must be a guide such as ggmc.Exact(), got {self.guide!r}")
        if isinstance(self.mass, str) and self.mass in MASS_KINDS:
            if self.mass != "identity" and self.step_size is not None:
                raise BadInput(f"mass={self.mass!r} is found in warm-up: leave step_size out too, or give a tensor")
        elif self.mass is not None:
            object.__setattr__(self, "mass", as_mass(self.mass))

    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form: `init(positions, generator)` and `step(state, generator)`."""
        if self.step_size is None:
            raise BadInput("step_size=None is tuned by ggmc.sample: give a number to bind the kernel by hand")
        scheme = Scheme(self.scheme)
        field = self.guide.bind(target)
        mass = self.fixed_mass(target)
        dynamics = Dynamics(float(self.step_size), float(self.friction), float(self.temperature), mass)

        def init(position: Tensor, generator: torch.Generator) -> State:
            return start_state(target, field, position, dynamics, generator)

        def step(state: State, generator: torch.Generator) -> tuple[State, Info]:
            steps = draw_steps(self.steps or 1, generator)
            plan = scheme.plan(steps)
            noise = normals(state.position, generator)
            log_uniform = metropolis.log_uniforms(len(state.position), generator)
            tape = field.tape(plan.gradients, len(state.position), generator)

            # The O's at the trajectory's ends, outside the test: a rejection flips the momentum that they left.
            decay = math.inf if self.fresh_momentum else dynamics.decay(plan.outer)
            start = state._replace(momentum=refresh(state.momentum, decay, dynamics, noise))
            end, work = run(plan, start, dynamics, field, tape, noise)
            if end.potential is None:
                end = end._replace(potential=target.potential(end.position))
            return metropolis.decide(start, end, work, steps, dynamics.temperature, log_uniform, self.adjust)

        return init, step

    def as_ggmc(self) -> GGMC:
        """Itself: the form in which warm-up tunes every kernel."""
        return self

    def fixed_mass(self, target: Target) -> Mass:
        """The mass as given, or the identity where it is left to warm-up."""
        if self.mass is None or isinstance(self.mass, str):
            return Identity()
        return self.mass.to(torch.empty(0, target.space.size, dtype=target.dtype, device=target.device))


def start_state(
    target: Target, field: Field, position: Tensor, dynamics: Dynamics, generator: torch.Generator
) -> State:
    """Positions as given, momenta from their law. A non-finite start is an error."""
    position = position.to(target.dtype).to(target.device)
    if position.dim() != 2 or position.shape[1] != target.space.size:
        raise BadInput(f"positions must have shape [chains, {target.space.size}], got {list(position.shape)}")
    gradient, potential = field(position, None) if field.deterministic else (None, None)
    if potential is None:
        potential = target.potential(position)
    for what, rows in (("position", position), ("gradient", gradient)):
        if rows is not None and not rows.isfinite().all():
            chain, column = (~rows.isfinite()).nonzero()[0].tolist()
            where, value = target.space.locate(column), rows[chain, column].item()
            raise BadInput(f"chain {chain} starts with a {what} of {value:g} in {where}: start inside the support")
    if not potential.isfinite().all():
        chain = int((~potential.isfinite()).nonzero()[0])
        value = potential[chain].item()
        raise BadInput(f"chain {chain} starts at a potential of {value:g}: start inside the support")
    momentum = refresh(torch.zeros_like(position), math.inf, dynamics, normals(position, generator))
    return State(position, momentum, potential, gradient)


def draw_steps(steps: Steps, generator: torch.Generator) -> int:
    """The number itself, or a uniform draw from the range: independent of the state, so exactness is untouched."""
    low, high = _range(steps)
    if low == high:
        return low
    return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))


def _range(steps: Any) -> tuple[Any, Any]:
    if isinstance(steps, tuple | list):
        if len(steps) != 2:
            raise BadInput(f"steps must be a whole number or a pair (least, most), got {steps!r}")
        return steps[0], steps[1]
    return steps, steps
