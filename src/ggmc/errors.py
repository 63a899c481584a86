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
from numbers import Integral
from typing import SupportsFloat


class GGMCError(Exception):
    """The base of every error this library raises on purpose."""


class BadInput(GGMCError, ValueError):
    """Something given by the user cannot be used."""


class NotExact(GGMCError, ValueError):
    """A setting under which the Metropolis test would not make the chain exact."""


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
