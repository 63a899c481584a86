"""How long a trajectory is: a number of steps, a range to draw it from, or text in epochs or sweeps.

An epoch is as many gradients as make one pass over the data; a sweep, as many as until the order of batches repeats. A
step of a word with several stages takes several gradients, so that an epoch or a sweep is fewer steps.

Example:
    >>> import torch, ggmc
    >>> from ggmc.dynamics import length
    >>> data = torch.zeros(100, dtype=torch.float64)
    >>> target = ggmc.DataDensity(lambda x: -x.sum() ** 2, lambda x, y: -((x - y) ** 2), data, torch.zeros(1).double())
    >>> field = ggmc.Minibatch(10).bind(target)          # ten batches, out and back
    >>> length.in_steps("3 epochs", field), length.in_steps("1 sweep", field), length.in_steps((5, 8), field)
    ((30, 30), (20, 20), (5, 8))
    >>> length.in_steps("1 sweep", field, per_step=2)    # two gradients in each of ten steps
    (10, 10)
"""

from __future__ import annotations

import math
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


def in_steps(steps: Steps | None, field: GradientField, per_step: int = 1) -> tuple[int, int]:
    """The least and the largest number of steps.

    Args:
        steps: As given by the user; None is the field's own length.
        field: Knows how many gradients an epoch and a sweep are.
        per_step: Gradients of one step.
    """
    if steps is None:
        own = own_length(field, per_step)
        return own, own
    if isinstance(steps, str):
        number, unit = _parsed(steps)
        if unit == "step":
            return number, number
        gradients = number * (field.epoch if unit == "epoch" else field.sweep)
        if unit == "sweep" and field.whole_sweeps and gradients % per_step:
            least = sweep_in_steps(field, per_step) * per_step // field.sweep
            raise BadInput(
                f"steps={steps!r} is {gradients} gradients, no whole number of steps of {per_step} gradients each: use "
                f"{least} sweeps or a multiple of that, another batch size, or a word with one kick in each step"
            )
        length = math.ceil(gradients / per_step)
        return length, length
    return _ends(steps)


def own_length(field: GradientField, per_step: int) -> int:
    """The steps of a trajectory where none are given: the field's own number of gradients, in whole sweeps if it must.

    Args:
        field: Gives the number.
        per_step: Gradients of one step.
    """
    whole = sweep_in_steps(field, per_step)
    return whole * math.ceil(field.default_steps / (whole * per_step))


def sweep_in_steps(field: GradientField, per_step: int) -> int:
    """The least number of steps that is a whole number of sweeps, for a field that wants those; for others 1.

    Args:
        field: Whose sweep.
        per_step: Gradients of one step.
    """
    return math.lcm(field.sweep, per_step) // per_step if field.whole_sweeps else 1


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
