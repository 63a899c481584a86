"""What a value of a study file may be: kinds of values, and the problems that a value has."""

from __future__ import annotations

import difflib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ggmc.cli.study.lines import Keys

PYTHON = re.compile(r"(.+\.py):([A-Za-z_]\w*)")
"""A function of the user's own, `file.py:function`."""


class Problem(NamedTuple):
    """Something wrong in a study file."""

    keys: Keys
    """Where: tables and key."""
    message: str


def shown(value: object) -> str:
    """A value as TOML writes it.

    Example:
        >>> from ggmc.cli.study.fields import shown
        >>> shown(True), shown("a"), shown([1, 2])
        ('true', '"a"', '[1, 2]')
    """
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(name)} = {shown(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def as_toml(tables: Mapping[str, Any]) -> str:
    """A study as a file.

    Args:
        tables: Its tables.

    Example:
        >>> from ggmc.cli.study.fields import as_toml
        >>> print(as_toml({"data": {"source": "digits"}, "prior": {"*.bias": {"scale": 0.5}}}))
        [data]
        source = "digits"
        <BLANKLINE>
        [prior]
        "*.bias" = { scale = 0.5 }
    """
    return "\n\n".join(
        "\n".join([f"[{name}]", *(f"{_key(key)} = {shown(value)}" for key, value in table.items())])
        for name, table in tables.items()
    )


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def near(name: str, known: Iterable[str]) -> str:
    """`: did you mean …?` where a known name is nearly the same, else nothing.

    Example:
        >>> from ggmc.cli.study.fields import near
        >>> near("fricton", ["friction", "steps"]), near("x", ["friction"])
        (': did you mean friction?', '')
    """
    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f": did you mean {found[0]}?" if found else ""


class Kind(ABC):
    """A kind of value."""

    says: str
    """What it must be, as in "must be …"."""

    @abstractmethod
    def problems(self, value: Any, keys: Keys) -> Iterator[Problem]:
        """What is wrong with a value.

        Args:
            value: As in the file.
            keys: Where it stands.
        """


@dataclass(frozen=True)
class Plain(Kind):
    """A value of no parts that matter.

    Args:
        says: What it must be.
        fits: Whether a value is that.
        choices: The texts that it may be, if these are few.
    """

    says: str
    fits: Callable[[Any], bool]
    choices: tuple[str, ...] = ()

    def problems(self, value: Any, keys: Keys) -> Iterator[Problem]:
        if not self.fits(value):
            hint = near(value, self.choices) if isinstance(value, str) else ""
            yield Problem(keys, f"must be {self.says}, got {shown(value)}{hint}")


@dataclass(frozen=True)
class Table(Kind):
    """A table.

    Args:
        keys: Its keys, by name.
        needed: Those that must be there.
    """

    keys: Mapping[str, Kind]
    needed: tuple[str, ...] = ()
    says: str = "a table"

    def problems(self, value: Any, keys: Keys) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(keys, f"must be a table with the keys {', '.join(self.keys)}, got {shown(value)}")
            return
        for name, item in value.items():
            kind = self.keys.get(name)
            if kind is None:
                hint = near(name, self.keys) or f". Known are {', '.join(self.keys)}"
                yield Problem((*keys, name), f"there is no such key{hint}")
            else:
                yield from kind.problems(item, (*keys, name))
        for name in self.needed:
            if name not in value:
                yield Problem(keys, f"needs the key {name}, {self.keys[name].says}")


@dataclass(frozen=True)
class PlainOrTable(Kind):
    """A short form and a long one.

    Args:
        plain: The short form.
        table: The long one.
    """

    plain: Kind
    table: Kind

    @property
    def says(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What it must be."""
        return f"{self.plain.says}, or a table"

    def problems(self, value: Any, keys: Keys) -> Iterator[Problem]:
        yield from (self.table if isinstance(value, dict) else self.plain).problems(value, keys)


def is_whole(value: object, least: int | None = None) -> bool:
    """Whether a value is a whole number, perhaps of at least so much."""
    return isinstance(value, int) and not isinstance(value, bool) and (least is None or value >= least)


def is_number(value: object) -> bool:
    """Whether a value is a number, infinity included."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def one_of(*names: str, python: str | None = None) -> Plain:
    """One of a few texts, or a function of the user's own.

    Args:
        names: The texts.
        python: What such a function makes, where one may be given.
    """
    says = f"one of {', '.join(names)}"
    if python is not None:
        says += f', or "file.py:function", which {python}'
    allowed = lambda value: value in names or (python is not None and PYTHON.fullmatch(value) is not None)  # noqa: E731
    return Plain(says, lambda value: isinstance(value, str) and allowed(value), names)


def count(least: int = 1) -> Plain:
    """A whole number of at least so much."""
    return Plain(f"a whole number of at least {least}", lambda value: is_whole(value, least))


def text(says: str) -> Plain:
    """Any text that is not empty."""
    return Plain(f"{says}, as text", lambda value: isinstance(value, str) and bool(value.strip()))


SWITCH = Plain("true or false", lambda value: isinstance(value, bool))
WHOLE = Plain("a whole number", is_whole)
POSITIVE = Plain("a positive number", lambda value: is_number(value) and 0 < value < math.inf)
NOT_NEGATIVE = Plain("zero or a positive number", lambda value: is_number(value) and 0 <= value < math.inf)
FRICTION = Plain("zero or a positive number, perhaps inf", lambda value: is_number(value) and value >= 0)
FINITE = Plain("a number", lambda value: is_number(value) and math.isfinite(value))
SHARE = Plain("a number between 0 and 1", lambda value: is_number(value) and 0 <= value <= 1)
INSIDE = Plain("a number between 0 and 1, neither of them", lambda value: is_number(value) and 0 < value < 1)
BELOW_ONE = Plain("a number from 0 to below 1", lambda value: is_number(value) and 0 <= value < 1)
COUNTS = Plain(
    "a list of whole numbers of at least 1, such as [50, 50]",
    lambda value: isinstance(value, list) and all(is_whole(item, 1) for item in value),
)
SHARES = Plain(
    "a list of numbers between 0 and 1, such as [0.5, 0.75]",
    lambda value: isinstance(value, list) and all(is_number(item) and 0 <= item <= 1 for item in value),
)
PYTHON_FUNCTION = Plain(
    'text of the form "file.py:function"',
    lambda value: isinstance(value, str) and PYTHON.fullmatch(value) is not None,
)
