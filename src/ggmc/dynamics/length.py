"""How long a trajectory is: a number of steps, a range to draw it from, or text in epochs or sweeps.

Example:
    >>> from ggmc.dynamics import length as lengths
    >>> from ggmc.guides import Field
    >>> field = Field()
    >>> field.epoch, field.sweep = 10, 20              # ten batches, out and back
    >>> lengths.in_steps("3 epochs", field), lengths.in_steps("1 sweep", field), lengths.in_steps(None, field)
    (30, 20, 20)
"""

from __future__ import annotations

import re
from typing import Any

import torch

from ggmc.errors import BadInput, require_count
from ggmc.guides.base import Field

Steps = int | tuple[int, int] | str

_TEXT = re.compile(r"(\d+) (step|sweep|epoch)s?")


def check(steps: Any) -> None:
    """Refuse what is not a length; None, a length left open, is one."""
    if steps is None:
        return
    if isinstance(steps, str):
        found = _TEXT.fullmatch(steps)
        if found is None or int(found[1]) < 1:
            raise BadInput(f"steps as text must read like '3 epochs', '1 sweep' or '10 steps', got {steps!r}")
        return
    low, high = ends(steps)
    require_count("steps", low)
    require_count("steps", high)
    if low > high:
        raise BadInput(f"steps must be a pair (least, most), got {steps!r}")


def in_steps(steps: Steps | None, field: Field) -> int | tuple[int, int]:
    """The length in steps, for one field."""
    if steps is None:
        return field.default_steps
    if isinstance(steps, str):
        number, unit = steps.rstrip("s").split(" ")
        return int(number) * {"step": 1, "epoch": field.epoch, "sweep": field.sweep}[unit]
    return steps


def ends(steps: Any) -> tuple[Any, Any]:
    """The least and the most."""
    if isinstance(steps, tuple | list):
        if len(steps) != 2:
            raise BadInput(f"steps must be a whole number or a pair (least, most), got {steps!r}")
        return steps[0], steps[1]
    return steps, steps


def draw(steps: int | tuple[int, int], generator: torch.Generator) -> int:
    """The number itself, or a uniform draw from the range: independent of the state, so exactness is untouched."""
    low, high = ends(steps)
    if low == high:
        return low
    return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))
