"""How long a trajectory is: a number of steps, a range to draw it from, or text in epochs or sweeps.

An epoch is as many gradients as make one pass over the data; a sweep, as many as until the order of batches repeats.

Example:
    >>> import torch, ggmc
    >>> from ggmc.dynamics import length
    >>> data = torch.zeros(100, dtype=torch.float64)
    >>> target = ggmc.DataDensity(lambda x: -x.sum() ** 2, lambda x, y: -((x - y) ** 2), data, torch.zeros(1).double())
    >>> field = ggmc.Minibatch(10).bind(target)          # ten batches, out and back
    >>> length.in_steps("3 epochs", field), length.in_steps("1 sweep", field), length.in_steps((5, 8), field)
    ((30, 30), (20, 20), (5, 8))
"""

from __future__ import annotations

import re

import torch

from ggmc.errors import BadInput, require_count
from ggmc.guides.base import GradientField

Steps = int | tuple[int, int] | str

_TEXT = re.compile(r"(\d+) (step|sweep|epoch)s?")


def check(steps: Steps | None) -> None:
    """Refuse what is not a length; None, a length left open, is one."""
    if steps is None:
        return
    if isinstance(steps, str):
        _parsed(steps)
        return
    low, high = _ends(steps)
    require_count("steps", low)
    require_count("steps", high)
    if low > high:
        raise BadInput(f"steps must be a pair (least, most), got {steps!r}")


def in_steps(steps: Steps | None, field: GradientField) -> tuple[int, int]:
    """The least and the largest number of steps.

    Args:
        steps: As given by the user; None is the field's own length.
        field: Knows how many steps an epoch and a sweep are.
    """
    if steps is None:
        return field.default_steps, field.default_steps
    if isinstance(steps, str):
        number, unit = _parsed(steps)
        length = number * {"step": 1, "epoch": field.epoch, "sweep": field.sweep}[unit]
        return length, length
    return _ends(steps)


def draw(steps: tuple[int, int], generator: torch.Generator) -> int:
    """A uniform draw from the range: independent of the state, so that exactness is untouched."""
    low, high = steps
    if low == high:
        return low
    return int(torch.randint(low, high + 1, (), generator=generator, device=generator.device))


def some(steps: tuple[int, int], number: int = 8) -> list[int]:
    """Both ends of a range and some lengths in between."""
    low, high = steps
    return sorted({low + (high - low) * i // (number - 1) for i in range(number)})


def _parsed(text: str) -> tuple[int, str]:
    found = _TEXT.fullmatch(text)
    if found is None or int(found[1]) < 1:
        raise BadInput(f"steps as text must read like '3 epochs', '1 sweep' or '10 steps', got {text!r}")
    return int(found[1]), found[2]


def _ends(steps: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(steps, tuple | list):
        if len(steps) != 2:
            raise BadInput(f"steps must be a whole number or a pair (least, most), got {steps!r}")
        return steps[0], steps[1]
    return steps, steps
