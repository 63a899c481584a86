"""How sums over the data are divided among ranks: which part this process adds up, and where the parts are added.

Inside `sharing(share)` every sum over the data is made of the sums of all ranks, and each rank must ask for the same
sums in the same order. Outside it, a process sums over all data by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from ggmc.plain import Tree

Reduce = Callable[[Tensor], None]
"""Replaces a tensor, in place, by its sum, or its smallest value, over all ranks."""


@dataclass(frozen=True)
class Share:
    """One rank's part of the examples.

    Args:
        rank: Which rank this is.
        ranks: How many there are.
        add_up: Replaces a tensor by its sum over all ranks; not needed where there is one.
        smallest: The same with the smallest value.

    Example:
        >>> from ggmc.targets.share import Share
        >>> [Share(rank, 3).span(10) for rank in range(3)]
        [(0, 4), (4, 7), (7, 10)]
    """

    rank: int = 0
    ranks: int = 1
    add_up: Reduce | None = None
    smallest: Reduce | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all there is."""
        return self.ranks == 1

    @property
    def first(self) -> bool:
        """Whether this rank counts what is counted once, such as the prior."""
        return self.rank == 0

    def span(self, examples: int) -> tuple[int, int]:
        """Where this rank's part of so many examples begins and ends: parts differ by at most one, larger ones first.

        Args:
            examples: In all.
        """
        size, larger = divmod(examples, self.ranks)
        begin = self.rank * size + min(self.rank, larger)
        return begin, begin + size + (self.rank < larger)

    def of_batch(self, batch: Tree, weights: Tensor) -> tuple[Tree, Tensor]:
        """This rank's part of each chain's batch.

        Args:
            batch: Leaves [chains, size, ...]; or an `OwnPart`, of which nothing is left to be cut off.
            weights: Of the examples, [chains, size].
        """
        if isinstance(batch, OwnPart):
            return batch.examples, weights
        if self.whole:
            return batch, weights
        part, weights = self.part_of_batch(weights)
        return tree_map(lambda leaf: leaf[:, part], batch), weights

    def part_of_batch(self, weights: Tensor) -> tuple[slice, Tensor]:
        """Which of a batch's examples are this rank's, and their weights.

        Args:
            weights: Of all examples, [chains, size].
        """
        part, (begin, end) = self.part(weights.shape[1]), self.span(weights.shape[1])
        return part, torch.zeros_like(weights[:, part]) if begin == end else weights[:, part]

    def part(self, size: int) -> slice:
        """Which examples of a batch are this rank's; where there are none, one, which must not count.

        Args:
            size: The examples in the batch.
        """
        begin, end = self.span(size)
        return slice(begin, end) if begin < end else slice(0, 1)  # a function may not bear a batch of none

    def total(self, part: Tensor) -> Tensor:
        """What this rank has added up over its examples, as a sum over all examples.

        Args:
            part: This rank's.
        """
        if self.add_up is None:
            return part
        found = part.clone(memory_format=torch.contiguous_format)
        self.add_up(found)
        return found

    def totals(self, potential: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The same for U [chains] and its gradient [chains, d]: at once, where they have one precision.

        Args:
            potential: This rank's.
            gradient: This rank's.
        """
        if self.add_up is None or potential.dtype != gradient.dtype:
            return self.total(potential), self.total(gradient)
        both = self.total(torch.cat([gradient, potential[:, None]], 1))
        return both[:, -1], both[:, :-1]

    def least(self, number: int, device: torch.device) -> int:
        """The smallest of all ranks' numbers: how many rows fit in the memory of each of them, say.

        Args:
            number: This rank's.
            device: Where the ranks' tensors are.
        """
        if self.smallest is None:
            return number
        found = torch.tensor([number], device=device)
        self.smallest(found)
        return int(found)


@dataclass(frozen=True)
class OwnPart:
    """A batch of which only this rank's part was read.

    Args:
        examples: Leaves [chains, size, ...].
    """

    examples: Tree


WHOLE = Share()

_share: ContextVar[Share] = ContextVar("share", default=WHOLE)


def current() -> Share:
    """What is shared out now."""
    return _share.get()


@contextmanager
def sharing(share: Share) -> Iterator[None]:
    """Within this block, sums over the data are shared out among ranks.

    Args:
        share: This rank's.
    """
    token = _share.set(share)
    try:
        yield
    finally:
        _share.reset(token)
