"""How many threads a run uses.

Small tensor operations gain nothing from threads, and lose much where the machine is busy: each waits for a thread that
spins without a core. So a run whose operations are small uses one thread, and the number is restored after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ggmc.guides.base import GradientField

ENOUGH = 2**17  # numbers in the largest tensor of a gradient, above which threads help


class _Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        sizes = (leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor))
        self.numbers = max(self.numbers, *sizes, 0)
        return result


def threads_for(field: GradientField, position: Tensor) -> int:
    """One thread, or as many as torch has now, by the largest tensor of one gradient.

    Args:
        field: The guide, bound.
        position: Rows [chains, d] to evaluate it at.
    """
    available = torch.get_num_threads()
    if available == 1 or position.device.type != "cpu":
        return available
    tape = field.tape(1, len(position), torch.Generator().manual_seed(0))
    largest = _Largest()
    with largest:
        field(position, None if tape is None else tape[0])
    return available if largest.numbers >= ENOUGH else 1


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    """Within this block torch uses so many threads; after it, as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
