"""Tables in which every two values of different settings meet at least once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]


def all_pairs(settings: Mapping[str, Sequence[str]], allowed: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Rows of settings such that every allowed pair of values is in one: greedy, and the same at each call."""
    names = list(settings)
    rows = [dict(zip(names, values, strict=True)) for values in product(*settings.values())]
    rows = [row for row in rows if allowed(row)]
    pairs = [_pairs(row) for row in rows]
    open_pairs = set().union(*pairs)
    chosen: list[Row] = []
    while open_pairs:
        best = max(range(len(rows)), key=lambda i: len(open_pairs & pairs[i]))
        chosen.append(rows[best])
        open_pairs -= pairs[best]
    return chosen


def _pairs(row: Row) -> set[tuple[tuple[str, str], ...]]:
    return set(combinations(row.items(), 2))
