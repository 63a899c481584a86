"""Fields of a frozen dataclass that are checked and converted when an object is made.

They are the descriptor-typed fields of the standard library's `dataclasses`: the descriptor stands where the default
would, `__set__` converts what the user gave, and the converted value is what the object holds, shows and compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING
from typing import Generic, TypeVar, cast, overload

from ggmc.errors import BadInput, require_positive

Input = TypeVar("Input")
Kept = TypeVar("Kept")


class Converted(Generic[Input, Kept]):
    """A field that keeps `convert(name, given)`.

    Args:
        convert: A function of the field's name and the given value, which returns the value to keep or raises
            `BadInput`.
        default: The value if none is given. Without it the field is required.

    Example:
        >>> from dataclasses import dataclass
        >>> from ggmc.bayes.priors.fields import Converted
        >>> @dataclass(frozen=True)
        ... class Sorted:
        ...     numbers: Converted[list[int], tuple[int, ...]] = Converted(lambda name, given: tuple(sorted(given)))
        >>> Sorted([3, 1, 2])
        Sorted(numbers=(1, 2, 3))
    """

    def __init__(self, convert: Callable[[str, Input], Kept], default: object = MISSING):
        self._convert, self._default = convert, default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> object: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...
    def __get__(self, instance: object | None, owner: type) -> object:
        if instance is not None:
            return vars(instance)[self._name]
        if self._default is MISSING:  # `dataclass` takes an AttributeError for "no default"
            raise AttributeError(self._name)
        return self._default

    def __set__(self, instance: object, value: Input) -> None:
        vars(instance)[self._name] = self._convert(self._name, value)


# Declared, as `dataclasses.field` is, with the type of the value, so that a class can say `scale: float = positive()`.


def positive(default: object = MISSING) -> float:
    """A field that is a finite number above zero, kept as a float."""
    return cast(float, Converted(_positive, default))


def finite(default: object = MISSING) -> float:
    """A field that is a finite number, kept as a float."""
    return cast(float, Converted(_finite, default))


def switch(default: object = MISSING) -> bool:
    """A field that is True or False."""
    return cast(bool, Converted(_switch, default))


def _positive(name: str, given: float) -> float:
    require_positive(name, given)
    return float(given)


def _finite(name: str, given: float) -> float:
    if not (isinstance(given, int | float) and math.isfinite(given)):
        raise BadInput(f"{name} must be a finite number, got {given!r}")
    return float(given)


def _switch(name: str, given: bool) -> bool:
    if not isinstance(given, bool):
        raise BadInput(f"{name} must be True or False, got {given!r}")
    return given
