"""What is refused, why, and what to do instead.

Every message names the value that was wrong and the remedy. `BadInput` is a mistake in what was given; `NotExact` is a
setting that would run but would void the guarantee of sampling the target exactly.

Example:
    >>> import ggmc
    >>> ggmc.GGMC(step_size=-0.1)
    Traceback (most recent call last):
    ...
    ggmc.errors.BadInput: step_size must be a positive number, got -0.1
"""

from __future__ import annotations

import math
from enum import Enum
from numbers import Integral
from typing import SupportsFloat


class GGMCError(Exception):
    """The base of every error this library raises on purpose."""


class BadInput(GGMCError, ValueError):
    """Something given by the user cannot be used."""


class Condition(Enum):
    """The six conditions under which a trajectory's Metropolis test makes the chain exact.

    Example:
        >>> from ggmc.errors import Condition
        >>> Condition.STEPS.number, Condition.STEPS.title
        (2, 'the step sizes')
    """

    WORD = (1, "the word", "The word, repetitions included, reads the same backwards, and each letter has a way back.")
    STEPS = (2, "the step sizes", "Step sizes and temperatures along a trajectory read the same backwards.")
    TAPE = (
        3,
        "the tape",
        "The order of minibatches has the same distribution read backwards, and is drawn afresh for each trajectory "
        "and each chain, whatever the state.",
    )
    GRADIENT = (
        4,
        "the gradient",
        "The gradient is a function of the position and the tape alone; mass and anchors stay as they are.",
    )
    POTENTIAL = (
        5,
        "the potential",
        "The potential is a function of the parameters alone: a sum over all data, with the prior.",
    )
    TEST = (6, "the test", "Trajectories are tested, rejected ones flip the momentum, and all sample one distribution.")

    def __init__(self, number: int, title: str, sentence: str):
        self.number, self.title, self.sentence = number, title, sentence


class NotExact(GGMCError, ValueError):
    """A setting under which the Metropolis test would not make the chain exact.

    Args:
        message: Why, the value, and the remedy.
        conditions: Those that it breaks, the first one foremost.
    """

    def __init__(self, message: str, *conditions: Condition):
        super().__init__(message)
        self.conditions = conditions


def _number(name: str, value: object) -> float:
    if isinstance(value, str | bytes | bool) or not isinstance(value, SupportsFloat):
        raise BadInput(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be a number, got {value!r}") from error


def require_positive(name: str, value: object) -> None:
    """Refuse what is not a finite number above zero."""
    number = _number(name, value)
    if not (math.isfinite(number) and number > 0):
        raise BadInput(f"{name} must be a positive number, got {value!r}")


def require_not_negative(name: str, value: object, *, finite: bool = True) -> None:
    """Refuse what is below zero, not a number, or, unless `finite=False`, infinite."""
    number = _number(name, value)
    if math.isnan(number) or number < 0 or (finite and math.isinf(number)):
        raise BadInput(f"{name} must be zero or a positive number, got {value!r}")


def require_between(name: str, value: object, *, ends: bool = False) -> None:
    """Refuse what does not lie between 0 and 1, which are refused too unless `ends=True`."""
    number = _number(name, value)
    if not (0 <= number <= 1 if ends else 0 < number < 1):
        raise BadInput(f"{name} must lie between 0 and 1, got {value!r}")


def require_switch(name: str, value: object) -> None:
    """Refuse what is neither True nor False: text such as "no" would count as True."""
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be True or False, got {value!r}")


def require_seed(name: str, value: object) -> None:
    """Refuse what torch's generators do not take as a seed."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not -(2**63) <= int(value) < 2**64:
        raise BadInput(f"{name} must be a whole number of at most 64 bits, got {value!r}")


def require_count(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise BadInput(f"{name} must be a whole number of at least {least}, got {value!r}")
