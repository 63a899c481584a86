"""SGNHT: the stochastic-gradient Nosé–Hoover thermostat, in its splitting form, the word `BADNDAB`.

A variable ξ of each chain takes the place of the friction. It grows while the momentum is too warm and shrinks while it
is too cold, and so absorbs gradient noise of unknown size. Beside B and A (`ggmc.dynamics.letters`), for a time t,

    D   ξ ← ξ + t · (mᵀM⁻¹m/d − T)/μ
    N   m ← e^(−ξt) m + √(2γT) · √((1 − e^(−2ξt))/(2ξ)) · M^½ ε

with thermal mass μ. Gradient noise of covariance σ²M adds the variance h²σ²M to the momentum at each kick, which is a
diffusion of hσ²/2, so that the thermostat settles at γ + hσ²/(2T). Targets exp(−(U(θ) + K(m))/T) × N(ξ; γ + hσ²/(2T),
T/(dμ)) where σ is the same everywhere; biased by O(h²), and beyond that where σ changes with θ. D is not reversible
with respect to exp(−K/T), and ξ is not part of the test: there is no Metropolis correction.

Ding et al., "Bayesian sampling using stochastic gradient thermostats", 2014; Leimkuhler and Shang, "Adaptive
thermostats for noisy gradient systems", 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ggmc.dynamics import length
from ggmc.dynamics.length import Steps
from ggmc.dynamics.letters import LETTERS, Letter, Motion, dot
from ggmc.dynamics.mass import MassLike
from ggmc.dynamics.state import Parameters, State, per_row
from ggmc.errors import Condition, NotExact, require_count, require_not_negative, require_positive
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.base import check_settings
from ggmc.kernels.words import Program, WordKernel

NO_WAY_BACK = "the thermostat is not reversible with respect to the momentum's distribution"
NO_TEST = f"SGNHT is biased and has no Metropolis test: {NO_WAY_BACK}"


class _Thermostat(Letter[Tensor]):
    """D."""

    kicks, drifts, merges, outside = False, False, False, False
    noisy, not_reversible = False, NO_WAY_BACK

    def __init__(self, thermal_mass: float):
        self._thermal_mass = thermal_mass

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Tensor:
        return time * parameters.step_size / self._thermal_mass

    def apply(self, motion: Motion, numbers: Tensor) -> None:
        momentum, parameters = motion.momentum, motion.parameters
        kinetic = dot(momentum, parameters.mass.velocity(momentum)) / momentum.shape[-1]
        motion.extra["thermostat"] = motion.extra["thermostat"] + numbers * (kinetic - parameters.temperature)

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0


class _ThermostatFriction(Letter[tuple[Tensor, Tensor]]):
    """N."""

    kicks, drifts, merges, outside = False, False, False, False
    noisy, not_reversible = True, NO_WAY_BACK

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> tuple[Tensor, Tensor]:
        t = time * parameters.step_size
        return t, 2 * parameters.friction * parameters.temperature * warmth

    def apply(self, motion: Motion, numbers: tuple[Tensor, Tensor]) -> None:
        t, diffusion = numbers
        decay = motion.extra["thermostat"] * t
        # (1 − e^(−2ξt))/(2ξ) is t at ξ = 0.
        tiny = decay.abs() < 1e-8
        share = torch.where(tiny, t * (1 - decay), -torch.expm1(-2 * decay) * t / torch.where(tiny, 1.0, 2 * decay))
        spread, keep = per_row((diffusion * share).sqrt(), motion.momentum), per_row(torch.exp(-decay), motion.momentum)
        motion.momentum = keep * motion.momentum + spread * motion.parameters.mass.colour(motion.noise())

    def noises(self, time: float, parameters: Parameters) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class SGNHT(WordKernel):
    """The stochastic-gradient Nosé–Hoover thermostat, biased: a friction that adapts to the gradient's noise.

    Args:
        step_size: h.
        friction: γ, the thermostat's value without gradient noise, and so how much noise is added.
        steps: Steps of each draw, as in `ggmc.GGMC`; by default a sweep of the guide's order.
        guide: The gradient field.
        temperature: T.
        mass: A tensor [d] or [d, d]; by default the identity.
        adjust: Must be False: see the error for the reason.
        thermal_mass: μ: the larger, the slower the thermostat reacts.
        monitor_every: The exact potential is computed after every so many draws.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(10, dtype=torch.float64))
        >>> trace = ggmc.sample(target, ggmc.SGNHT(0.2, steps=5), draws=500, warmup=100, progress=False)
        >>> trace.stats["thermostat"].shape
        (4, 500)
    """

    step_size: float  # pyright: ignore[reportIncompatibleVariableOverride]  # never None here
    friction: float = 1.0
    steps: Steps | None = None
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None
    adjust: bool = False
    thermal_mass: float = 1.0
    monitor_every: int = 1

    def __post_init__(self) -> None:
        if self.adjust:
            message = f"SGNHT is biased and has no Metropolis test: {NO_WAY_BACK}. Use ggmc.GGMC, or adjust=False"
            raise NotExact(message, Condition.WORD)
        require_positive("step_size", self.step_size)
        check_settings(self)
        require_not_negative("friction", self.friction)
        require_positive("thermal_mass", self.thermal_mass)
        require_count("monitor_every", self.monitor_every)
        length.check(self.steps)

    def program(self, field: GradientField) -> Program:
        def first(position: Tensor) -> Tensor:
            return torch.full((len(position),), self.friction, dtype=torch.float64, device=position.device)

        def statistics(state: State) -> Mapping[str, Tensor]:
            return {"thermostat": state.extra["thermostat"]}

        return Program(
            "BADNDAB",
            self.friction,
            self.steps,
            letters=LETTERS | {"D": _Thermostat(self.thermal_mass), "N": _ThermostatFriction()},
            monitor_every=self.monitor_every,
            not_testable=NO_TEST,
            variables={"thermostat": first},
            statistics=statistics,
        )
