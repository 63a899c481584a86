"""Data: N examples, any of them by number.

Example:
    >>> import torch
    >>> from ggmc.targets.data import as_data
    >>> data = as_data((torch.arange(10.0), torch.arange(10)), torch.device("cpu"))
    >>> len(data), data.take(torch.tensor([3, 7]))
    (10, (tensor([3., 7.]), tensor([3, 7])))
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from ggmc import progress
from ggmc.errors import BadInput
from ggmc.plain import Tree

IN_MEMORY = 2 * 2**30  # bytes: smaller data sets are read once and kept


class Data(ABC):
    """N examples, any of them by number.

    Args:
        device: Where the examples that are handed out lie.
        num_bytes: The memory that all examples take; infinity if they cannot all be kept.
        not_exact: None where an example is the same each time it is read; else why it is not, with a remedy.
    """

    def __init__(self, device: torch.device, *, num_bytes: float, not_exact: str | None):
        self.device = device
        self.bytes = num_bytes
        self.not_exact = not_exact

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, indices: Tensor) -> Tree:
        """Examples by number, in any shape: leaves [*indices.shape, ...]."""

    @abstractmethod
    def slice(self, begin: int, end: int) -> Tree:
        """Consecutive examples: leaves [end − begin, ...], or fewer at the end of the data."""


class InMemory(Data):
    """A tree of tensors, all with one leading dimension of examples.

    Args:
        tree: The tensors.
        device: Where to keep them.
    """

    def __init__(self, tree: Tree, device: torch.device):
        leaves = tree_leaves(tree)
        if not leaves or not all(isinstance(leaf, Tensor) and leaf.dim() > 0 for leaf in leaves):
            kinds = sorted({type(leaf).__name__ for leaf in leaves})
            raise BadInput(
                f"data must be tensors with one row per example, got {kinds or 'nothing'}: use torch.as_tensor"
            )
        lengths = [len(leaf) for leaf in leaves]
        if len(set(lengths)) > 1 or not lengths[0]:
            raise BadInput(f"data must be tensors of one length, with at least one example, got lengths {lengths}")
        self._tree = tree_map(lambda leaf: leaf.to(device), tree)
        self._length = lengths[0]
        super().__init__(device, num_bytes=sum(leaf.nbytes for leaf in leaves), not_exact=None)

    def __len__(self) -> int:
        return self._length

    def take(self, indices: Tensor) -> Tree:
        return tree_map(lambda leaf: leaf[indices], self._tree)

    def slice(self, begin: int, end: int) -> Tree:  # views: nothing is copied
        return tree_map(lambda leaf: leaf[begin:end], self._tree)


class OnDemand(Data):
    """A map-style Dataset too large to keep, or whose answers change: each example is read whenever it is needed.

    Args:
        dataset: The examples.
        collate: A function that joins a list of examples.
        device: Where to put what was read.
        not_exact: Why an example is not the same each time it is read, if it is not.
    """

    def __init__(self, dataset: Any, collate: Any, device: torch.device, not_exact: str | None):
        super().__init__(device, num_bytes=math.inf, not_exact=not_exact)
        self._dataset, self._collate = dataset, collate

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, indices: Tensor) -> Tree:
        examples = self._collate([self._dataset[i] for i in indices.flatten().tolist()])
        return tree_map(lambda leaf: leaf.to(self.device).unflatten(0, indices.shape), examples)

    def slice(self, begin: int, end: int) -> Tree:
        return self.take(torch.arange(begin, min(end, len(self)), device="cpu"))


def as_data(data: Tree, device: torch.device) -> Data:
    """What the user gives as data, as examples by number.

    Args:
        data: Tensors, or a tuple, list or dict of tensors, with one row per example; a map-style Dataset; a DataLoader
            over one, whose sampler is not used; or `Data`, which is returned as it is.
        device: Where the examples shall lie.
    """
    if isinstance(data, Data):
        return data
    collate = default_collate
    if isinstance(data, DataLoader):
        data, collate = data.dataset, data.collate_fn
    if type(data) is TensorDataset and collate is default_collate:
        return InMemory(data.tensors, device)
    if isinstance(data, Tensor | tuple | list | Mapping):
        return InMemory(tuple(data) if isinstance(data, list) else data, device)
    if isinstance(data, IterableDataset | str) or not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise BadInput(
            f"data must be tensors, a map-style Dataset or a DataLoader over one, got {type(data).__name__}: exactness "
            "needs every example by its number"
        )
    if not len(data):
        raise BadInput("data must have at least one example, got an empty Dataset")
    try:
        collate([data[0]])
    except Exception as error:
        raise BadInput(f"example 0 of {type(data).__name__} cannot be read and made a batch: {error!r}") from error
    unsteady = _unsteady_example(data, collate)
    if unsteady is not None:
        reason = (
            f"the data set gives another example {unsteady} each time it is read (random augmentation?), so U is not a "
            "function of the parameters. Use fixed examples, or adjust=False"
        )
        return OnDemand(data, collate, device, reason)
    one = collate([data[0]])
    if sum(leaf.nbytes for leaf in tree_leaves(one) if isinstance(leaf, Tensor)) * len(data) > IN_MEMORY:
        return OnDemand(data, collate, device, None)
    with progress.bar(range(len(data)), desc="reading the data") as numbers:
        return InMemory(collate([data[i] for i in numbers]), device)


def _unsteady_example(dataset: Any, collate: Any) -> int | None:
    """An example that is not the same when read again, if there is one among a few."""
    for i in range(0, len(dataset), math.ceil(len(dataset) / 16)):
        first, *again = (tree_leaves(collate([dataset[i]])) for _ in range(4))
        if not all(_same(a, b) for other in again for a, b in zip(first, other, strict=True)):
            return i
    return None


def _same(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b) or torch.allclose(a.double(), b.double(), rtol=0, atol=0, equal_nan=True)
    return a == b


def some_examples(data: Data) -> Tree:
    """Four examples from the first to the last, or all of fewer."""
    return data.take(some_numbers(len(data)).to(data.device))


def some_numbers(examples: int) -> Tensor:
    """Their numbers, among so many examples."""
    number = min(4, examples)
    return torch.arange(number, device="cpu") * (examples - 1) // max(1, number - 1)
