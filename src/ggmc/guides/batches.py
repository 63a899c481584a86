"""Minibatches of a target's data: which examples each batch holds, and their weights.

Every example is in exactly one of `count` batches and has the weight `count` there, so that the mean over all batches
is exactly the sum over all data. Sizes differ by at most one; smaller batches are padded with examples of weight zero.

Example:
    >>> import torch
    >>> from ggmc.guides.batches import Batches
    >>> from ggmc.targets.data import as_data
    >>> data = as_data((torch.arange(10.0), torch.arange(10)), torch.device("cpu"))
    >>> batches = Batches(data, size=4)                 # 10 examples, at most 4 in a batch
    >>> batches.count, batches.sizes
    (3, [4, 3, 3])
    >>> (x, y), weights = batches[torch.tensor([0, 2])]    # one batch for each of two chains
    >>> x.shape, weights.sum(1)                         # weights pad the smaller batch, and scale both up to all data
    (torch.Size([2, 4]), tensor([12.,  9.]))
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from ggmc.errors import require_count
from ggmc.guides.orders import Order
from ggmc.plain import Tree
from ggmc.targets.data import IN_MEMORY, Data
from ggmc.targets.share import OwnPart, current


def batch_sizes(examples: int, size: int) -> list[int]:
    """The sizes of the batches: at most `size` each, differing by at most one, larger ones first.

    Example:
        >>> from ggmc.guides.batches import batch_sizes
        >>> batch_sizes(10, 4)
        [4, 3, 3]
    """
    require_count("size", size)
    return _sizes(examples, math.ceil(examples / size))


def _sizes(examples: int, count: int) -> list[int]:
    return [examples // count + (number < examples % count) for number in range(count)]


class Batches:
    """The data cut at random, once.

    Args:
        data: The examples.
        size: The most examples in a batch.
        seed: The seed of the cut.
    """

    def __init__(self, data: Data, size: int, seed: int = 0):
        self.sizes = batch_sizes(len(data), size)
        self.count = len(self.sizes)
        generator = torch.Generator("cpu").manual_seed(seed)
        parts = torch.randperm(len(data), generator=generator, device="cpu").split(self.sizes)
        width = self.sizes[0]
        self.indices = torch.stack([torch.cat([p, p[:1].expand(width - len(p))]) for p in parts]).to(data.device)
        sizes = torch.tensor(self.sizes, device=data.device)
        self.weights = (torch.arange(width, device=data.device) < sizes[:, None]) * float(self.count)
        self._data = data
        self.entry_shape: tuple[int, ...] = ()
        """Of a tape's entry, for each chain: one number."""
        # Whole batches side by side are copied much faster than scattered examples are gathered.
        self._together = data.take(self.indices) if data.bytes <= IN_MEMORY else None

    def examples(self, numbers: Tensor) -> Tensor:
        """The numbers of the examples in batches, by the batches' numbers: [..., size]; padding repeats an example."""
        return self.indices.to(numbers.device)[numbers]

    def __getitem__(self, numbers: Tensor) -> tuple[Tree, Tensor]:
        """Each chain's batch, by its number: leaves [chains, size, ...], and the examples' weights, [chains, size].

        In a run over several ranks each reads its own part only.
        """
        if self._together is None:
            return read(self._data, self.indices[numbers], self.weights[numbers])
        share = current()
        if share.whole:
            return tree_map(lambda leaf: leaf[numbers], self._together), self.weights[numbers]
        part, weights = share.part_of_batch(self.weights[numbers])
        return OwnPart(tree_map(lambda leaf: leaf[numbers, part], self._together)), weights


PADDING = -1  # in a table of example numbers: a place that holds no example


class RecutBatches:
    """Batches that the tape itself lists, example by example (`Recut`).

    Args:
        data: The examples.
        size: The most examples in a batch.
    """

    def __init__(self, data: Data, size: int):
        self.sizes = batch_sizes(len(data), size)
        self.count = len(self.sizes)
        self.entry_shape: tuple[int, ...] = (self.sizes[0],)
        """Of a tape's entry, for each chain: the numbers of its examples."""
        self._data = data

    def examples(self, examples: Tensor) -> Tensor:
        """The numbers of the examples in batches, [..., size]; padding repeats an example."""
        return examples.clamp_min(0)

    def __getitem__(self, examples: Tensor) -> tuple[Tree, Tensor]:
        """Each chain's batch, by the numbers of its examples, [chains, size] with −1 for padding."""
        examples = examples.to(self._data.device)
        return read(self._data, examples.clamp_min(0), (examples != PADDING) * float(self.count))


def read(data: Data, examples: Tensor, weights: Tensor) -> tuple[Tree, Tensor]:
    """Examples by number with their weights; in a run over several ranks, this rank's part of them.

    Args:
        data: The examples.
        examples: Their numbers, [chains, size].
        weights: [chains, size].
    """
    share = current()
    if share.whole:
        return data.take(examples), weights
    part, weights = share.part_of_batch(weights)
    return OwnPart(data.take(examples[:, part])), weights


class Recut(Order):
    """Another order over batches that are cut anew for each tape, every chain with its own cut.

    The cut is part of the tape. It is uniform and independent of the state, and the order given the cut is the base's:
    the joint distribution is reversible exactly if the base's is.

    Args:
        base: The order in which the batches of a cut are read.
        examples: The number of examples in the data.

    Example:
        >>> import torch
        >>> from ggmc.guides.batches import Recut
        >>> from ggmc.guides.orders import as_order
        >>> order = Recut(as_order("palindrome"), examples=5)
        >>> tape = order.draw(4, 2, 1, torch.Generator().manual_seed(0))     # 4 entries of 2 batches, one chain
        >>> tape.shape                                                       # at most 3 examples in each batch
        torch.Size([4, 1, 3])
        >>> bool((tape == tape.flip(0)).all())
        True
    """

    def __init__(self, base: Order, examples: int):
        super().__init__(name=base.name, reversible=base.reversible)
        self.base, self.examples = base, examples

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        """A fresh cut for each chain, read in the base's order: example numbers [entries, chains, size]."""
        numbers = self.base.draw(entries, batches, chains, generator)
        shuffled = _permutations(self.examples, chains, generator)
        sizes = torch.tensor(_sizes(self.examples, batches), device=shuffled.device)
        within = torch.arange(int(sizes[0]), device=shuffled.device)
        places = (sizes.cumsum(0) - sizes)[:, None] + within  # of each batch in the shuffled data: [batches, size]
        padded = within >= sizes[:, None]
        cut = shuffled[:, places.masked_fill(padded, 0)].masked_fill(padded, PADDING)  # [chains, batches, size]
        return cut[torch.arange(chains, device=cut.device), numbers]

    def sweep(self, batches: int) -> int:
        return self.base.sweep(batches)

    def __repr__(self) -> str:
        return f"Recut({self.base!r}, examples={self.examples})"


def _permutations(number: int, chains: int, generator: torch.Generator) -> Tensor:
    """A random order of the numbers for each chain: [chains, number]."""
    device = generator.device
    if number < chains:  # many short ones are quicker sorted all at once, few long ones shuffled one by one
        return torch.rand((chains, number), generator=generator, dtype=torch.float64, device=device).argsort(1)
    return torch.stack([torch.randperm(number, generator=generator, device=device) for _ in range(chains)])
