"""How many threads a run uses.

Small tensor operations gain nothing from threads, and lose much where the machine is busy: each waits for a thread that
spins without a core. So a run whose operations are small uses one thread, and the number is restored after it.

The number belongs to the whole process: other Python threads that use torch at the same time see it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ggmc.guides.base import GradientField
from ggmc.programs.record import Call, Observer

# Measured with matrix products and elementwise operations of 2^12 to 2^21 numbers, two threads on two cores. On free
# cores the second thread takes 0.4 to 0.7 of the time from about 2^17 numbers on; where other programs keep the cores
# busy, it takes 2 to 10 times as long at every size.
ENOUGH = 2**18  # numbers in the largest tensor of a gradient, from which on threads are used


class _Largest(Observer):
    """Notes the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def saw(self, call: Call) -> None:
        sizes = (leaf.numel() for leaf in tree_leaves(call.result) if isinstance(leaf, Tensor))
        self.numbers = max(self.numbers, *sizes, 0)


def threads_for(field: GradientField, position: Tensor) -> int:
    """One thread, or as many as torch has now, by the largest tensor of one gradient.

    Where the gradient cannot be observed, the number stays as it is.

    Args:
        field: The guide, bound.
        position: Rows [chains, d] to evaluate it at.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.sampling.threads import threads_for
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3, dtype=torch.float64))
        >>> threads_for(ggmc.Exact().bind(target), torch.zeros(4, 3, dtype=torch.float64))
        1
    """
    available = torch.get_num_threads()
    if available == 1 or position.device.type != "cpu":
        return available
    largest = _Largest()
    try:
        tape = field.tape(1, len(position), torch.Generator(position.device).manual_seed(0))
        entry = None if tape is None else tape[0]
        field(position, entry)  # what is compiled or measured at the first call shall not be observed
        with largest:
            field(position, entry)
    except Exception:  # whatever stops a gradient here will stop the run too, where it can be reported
        return available
    return available if largest.numbers >= ENOUGH else 1


@contextmanager
def use_threads(number: int) -> Iterator[None]:
    """Within this block torch uses so many threads; after it, however it ends, as many as before.

    Args:
        number: Of threads.

    Example:
        >>> import torch
        >>> from ggmc.sampling.threads import use_threads
        >>> before = torch.get_num_threads()
        >>> with use_threads(1):
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
