"""Where the limits of each kind of value lie."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from ggmc.cli.study import fields, tables

GOOD: list[tuple[Any, list[Any]]] = [
    (fields.SWITCH, [True, False]),
    (fields.WHOLE, [-3, 0, 10**20]),
    (fields.POSITIVE, [1e-300, 2]),
    (fields.NOT_NEGATIVE, [0, 0.0, 3]),
    (fields.FRICTION, [0, 2.5, math.inf]),
    (fields.FINITE, [-1.5, 0]),
    (fields.SHARE, [0, 0.5, 1]),
    (fields.INSIDE, [1e-9, 0.999]),
    (fields.BELOW_ONE, [0, 0.999]),
    (fields.COUNTS, [[], [1, 50]]),
    (fields.SHARES, [[0, 0.5, 1]]),
    (fields.count(0), [0, 1]),
    (fields.count(), [1]),
    (tables.KERNEL["steps"], [1, [2, 2], [2, 5], "1 step", "20 sweeps", "3 epochs"]),
    (tables.GUIDE["size"], [1, "auto"]),
    (tables.MODEL["noise"], [0.5, "learnt", {"half_normal": 1.0}]),
    (tables.RUN["checkpoint_every"], [0]),
    (tables.RUN["seed"], [0, -1]),
    (tables.RUN["warmup"], [0]),
    (tables.KERNEL["temperature"], [0]),
    (tables.KERNEL["friction"], [math.inf]),
    (tables.KERNEL["name"], ["hmc", "HMC"]),
]
BAD: list[tuple[Any, list[Any]]] = [
    (fields.SWITCH, [0, 1, "true"]),
    (fields.WHOLE, [True, 1.0, "1"]),
    (fields.POSITIVE, [0, -1, math.inf, math.nan, True]),
    (fields.NOT_NEGATIVE, [-1e-9, math.inf, math.nan, False]),
    (fields.FRICTION, [-1, math.nan]),
    (fields.FINITE, [math.inf, math.nan]),
    (fields.SHARE, [-0.1, 1.1]),
    (fields.INSIDE, [0, 1]),
    (fields.BELOW_ONE, [1, -0.1]),
    (fields.COUNTS, [[0], [1.5], 3]),
    (fields.SHARES, [[1.1], [-0.1], 0.5]),
    (fields.count(0), [-1, True]),
    (fields.count(), [0]),
    (fields.text("a folder"), ["", "  ", 3]),
    (tables.KERNEL["steps"], [0, [3, 2], [0, 2], [1], [1, 2, 3], "0 steps", "2 passes", "sweep", 1.5]),
    (tables.GUIDE["size"], [0, "all"]),
    (tables.MODEL["noise"], [0, "found", {"half_normal": 0}, {}]),
    (tables.MODEL["dropout"], [1]),
    (tables.RUN["draws"], [0]),
    (tables.RUN["anneal"], [0]),
    (tables.RUN["target_accept"], [0, 1]),
    (tables.KERNEL["step_size"], [0, math.inf]),
]


def name(part: Any) -> str:
    """Of a kind or a value: without addresses, which are others in each process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(part))


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in GOOD for value in values], ids=name)
def test_fits(kind: Any, value: Any) -> None:
    assert list(kind.problems(value, ("key",))) == []


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in BAD for value in values], ids=name)
def test_does_not_fit(kind: Any, value: Any) -> None:
    assert list(kind.problems(value, ("key",)))
