"""Schedules: step sizes and temperatures along a trajectory, and over a run.

A schedule is a function on [0, 1] of factors by which a constant is multiplied. Along a trajectory (`Along`) it must
read the same backwards, or the way back would take other steps and the acceptance probability would be zero: a cosine
decay is refused, its palindrome `ThereAndBack(Cosine())` is not. Or it may be travelled forwards or backwards with
probability one half each, which is exact as well (`either_way=True`). From one trajectory to the next (`Over`) step
sizes may change as they like.

Example:
    >>> from ggmc.dynamics.schedule import Along, Cosine, ThereAndBack
    >>> [round(x, 2) for x in Along(step_size=Cosine()).factors(4).step_sizes]
    [0.96, 0.69, 0.31, 0.04]
    >>> [round(x, 2) for x in Along(step_size=ThereAndBack(Cosine())).factors(4).step_sizes]
    [0.15, 0.85, 0.85, 0.15]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ggmc.errors import (
    BadInput,
    require_between,
    require_count,
    require_not_negative,
    require_positive,
    require_switch,
)
from ggmc.plain import PlainDict


class Schedule(Protocol):
    """Factors as a function of how far along one is, from 0 to 1: any function will do.

    Example:
        >>> from ggmc import schedule
        >>> schedule.Over(period=2, step_size=lambda along: 1.0 - along / 2).at(0)
        (0.875, 1.0)
    """

    def __call__(self, along: float, /) -> float: ...


@dataclass(frozen=True)
class Flat:
    """No change.

    Example:
        >>> from ggmc.dynamics import schedule
        >>> schedule.Flat()(0.3)
        1.0
    """

    def __call__(self, along: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """From 1 down to `low` along half a cosine.

    Args:
        low: The factor at the end.

    Example:
        >>> from ggmc.dynamics import schedule
        >>> [round(schedule.Cosine()(along), 2) for along in (0.0, 0.5, 1.0)]
        [1.0, 0.5, 0.0]
    """

    low: float = 0.0

    def __post_init__(self) -> None:
        require_not_negative("low", self.low)

    def __call__(self, along: float) -> float:
        return self.low + (1 - self.low) * (1 + math.cos(math.pi * along)) / 2


@dataclass(frozen=True)
class Drops:
    """A step function.

    Args:
        at: Places between 0 and 1.
        factor: By which the schedule is multiplied at each of them.

    Example:
        >>> from ggmc.dynamics import schedule
        >>> [round(schedule.Drops()(along), 2) for along in (0.0, 0.6, 0.9)]
        [1.0, 0.1, 0.01]
    """

    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 0.1

    def __post_init__(self) -> None:
        require_positive("factor", self.factor)
        for place in self.at:
            require_between("at", place, ends=True)

    def __call__(self, along: float) -> float:
        return self.factor ** sum(along >= place for place in self.at)


@dataclass(frozen=True)
class Cyclical:
    """Another schedule several times over: with `Cosine`, cyclical SG-MCMC; with `ThereAndBack`, its correctable form.

    Args:
        cycles: How many times.
        of: The schedule.

    Example:
        >>> from ggmc.dynamics import schedule
        >>> [round(schedule.Cyclical(2)(along), 2) for along in (0.0, 0.25, 0.5, 0.75)]
        [1.0, 0.5, 1.0, 0.5]
    """

    cycles: int
    of: Schedule = field(default_factory=Cosine)

    def __post_init__(self) -> None:
        require_count("cycles", self.cycles)
        _require_schedule("of", self.of)

    def __call__(self, along: float) -> float:
        return self.of(along * self.cycles % 1.0)


@dataclass(frozen=True)
class ThereAndBack:
    """Another schedule backwards and then forwards, which reads the same backwards: from low to high to low.

    Args:
        of: The schedule.

    Example:
        >>> from ggmc.dynamics import schedule
        >>> [round(schedule.ThereAndBack()(along), 2) for along in (0.0, 0.25, 0.5, 0.75, 1.0)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    of: Schedule = field(default_factory=Cosine)

    def __post_init__(self) -> None:
        _require_schedule("of", self.of)

    def __call__(self, along: float) -> float:
        return self.of(round(abs(2 * along - 1), 12))  # rounding must not break the symmetry


class Factors(NamedTuple):
    """One trajectory's factors, step by step."""

    step_sizes: tuple[float, ...]
    temperatures: tuple[float, ...]

    def reversed(self) -> Factors:
        return Factors(self.step_sizes[::-1], self.temperatures[::-1])


@dataclass(frozen=True)
class Along:
    """How step size and temperature change from step to step of one trajectory.

    Args:
        step_size: Factors of the step size.
        temperature: Factors of the noise's temperature.
        either_way: Whether each trajectory follows the schedule forwards or backwards, with probability one half each.

    Example:
        >>> import ggmc
        >>> from ggmc.dynamics import schedule
        >>> kernel = ggmc.GGMC(0.1, steps=10, along=schedule.Along(schedule.ThereAndBack(schedule.Cosine(low=0.2))))
        >>> [round(factor, 2) for factor in kernel.along.factors(4).step_sizes]
        [0.32, 0.88, 0.88, 0.32]
    """

    step_size: Schedule = Flat()
    temperature: Schedule = Flat()
    either_way: bool = False

    def __post_init__(self) -> None:
        _require_schedule("step_size", self.step_size)
        _require_schedule("temperature", self.temperature)
        require_switch("either_way", self.either_way)

    def factors(self, steps: int) -> Factors:
        """The factors at the middle of each step."""
        places = [(k + 0.5) / steps for k in range(steps)]
        factors = Factors(tuple(map(self.step_size, places)), tuple(map(self.temperature, places)))
        for name, values in zip(("step size", "temperature"), factors, strict=True):
            _require_positive(name, values)
        return factors

    @property
    def keeps_temperature(self) -> bool:
        """Whether the temperature stays the same."""
        return self.temperature == Flat()

    def lopsided(self, steps: int = 64) -> str | None:
        """Why a trajectory of so many steps cannot be retraced, if it cannot."""
        if self.either_way:
            return None
        factors = self.factors(steps)
        for name, schedule, values in (
            ("step sizes", self.step_size, factors.step_sizes),
            ("temperatures", self.temperature, factors.temperatures),
        ):
            if not all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(values, values[::-1], strict=True)):
                return (
                    f"{name} along a trajectory must read the same backwards, got {schedule!r} with factors "
                    f"{values[0]:.3g} → {values[-1]:.3g}: use schedule.ThereAndBack({schedule!r}), either_way=True, or "
                    "adjust=False"
                )
        return None


@dataclass(frozen=True)
class Over:
    """How step size and temperature change from one trajectory to the next, over and over with a period.

    Args:
        period: Trajectories after which the schedule starts again.
        step_size: Factors of the step size.
        temperature: Factors of the temperature; only without the Metropolis test.

    Example:
        >>> from ggmc.dynamics import schedule
        >>> cyclical = schedule.Over(period=4, step_size=schedule.Cosine())
        >>> [round(cyclical.at(trajectory)[0], 2) for trajectory in range(5)]
        [0.96, 0.69, 0.31, 0.04, 0.96]
    """

    period: int
    step_size: Schedule = Flat()
    temperature: Schedule = Flat()

    def __post_init__(self) -> None:
        require_count("period", self.period)
        _require_schedule("step_size", self.step_size)
        _require_schedule("temperature", self.temperature)

    @property
    def keeps_temperature(self) -> bool:
        """Whether the temperature stays the same."""
        return self.temperature == Flat()

    def at(self, trajectory: int) -> tuple[float, float]:
        """The factors of one trajectory."""
        along = (trajectory % self.period + 0.5) / self.period
        factors = self.step_size(along), self.temperature(along)
        _require_positive("step size", factors[:1])
        _require_positive("temperature", factors[1:], or_zero=True)
        return factors


def check_along_and_over(along: Along | None, over: Over | None) -> None:
    """Refuse schedules that do not say where they apply.

    Args:
        along: A kernel's schedule along each trajectory.
        over: Its schedule from one trajectory to the next.
    """
    if along is not None and not isinstance(along, Along):
        raise BadInput(f"along must be a schedule.Along, such as schedule.Along(schedule.Flat()), got {along!r}")
    if over is not None and not isinstance(over, Over):
        raise BadInput(f"over must be a schedule.Over, such as schedule.Over(10, schedule.Cosine()), got {over!r}")


def _require_schedule(name: str, given: object) -> None:
    if not callable(given) or isinstance(given, type):
        what = f"the class {given.__name__}: make one" if isinstance(given, type) else repr(given)
        raise BadInput(f"{name} must be a schedule such as schedule.Cosine(), or a function of one number, got {what}")


def _require_positive(name: str, values: Sequence[float], or_zero: bool = False) -> None:
    for value in values:
        if not (isinstance(value, float | int) and math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
            raise BadInput(f"a schedule of the {name} must give positive factors, got {value!r}")


SCHEDULES: PlainDict = {kind.__name__: kind for kind in (Flat, Cosine, Drops, Cyclical, ThereAndBack, Along, Over)}
