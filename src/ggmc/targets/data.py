"""Data: N examples, any of them by number.

Example:
    >>> import torch
    >>> from ggmc.targets.data import as_data
    >>> data = as_data((torch.arange(10.0), torch.arange(10)), torch.device("cpu"))
    >>> len(data), data.take(torch.tensor([3, 7]))
    (10, (tensor([3., 7.]), tensor([3, 7])))
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from ggmc import progress
from ggmc.errors import BadInput

log = logging.getLogger("ggmc")

IN_MEMORY = 2 * 2**30  # bytes: smaller data sets are read once and kept


class InMemory:
    """A tree of tensors, all with one leading dimension of examples."""

    not_exact: str | None = None

    def __init__(self, tree: Any, device: torch.device):
        leaves = tree_leaves(tree)
        if not leaves or not all(isinstance(leaf, Tensor) and leaf.dim() > 0 for leaf in leaves):
            kinds = sorted({type(leaf).__name__ for leaf in leaves})
            raise BadInput(f"data must be tensors with one row per example, got {kinds or 'nothing'}")
        lengths = [len(leaf) for leaf in leaves]
        if len(set(lengths)) > 1 or not lengths[0]:
            raise BadInput(f"data must be tensors of one length, with at least one example, got lengths {lengths}")
        self._tree = tree_map(lambda leaf: leaf.to(device), tree)
        self._length = lengths[0]
        self.device = device
        self.bytes = sum(leaf.nbytes for leaf in leaves)

    def __len__(self) -> int:
        return self._length

    def take(self, indices: Tensor) -> Any:
        """Examples by number, in any shape: leaves [*indices.shape, ...]."""
        return tree_map(lambda leaf: leaf[indices], self._tree)

    def slice(self, begin: int, end: int) -> Any:
        """Consecutive examples, without a copy."""
        return tree_map(lambda leaf: leaf[begin:end], self._tree)


class OnDemand:
    """A map-style Dataset too large to keep, or whose answers change: each example is read whenever it is needed."""

    def __init__(self, dataset: Any, collate: Any, device: torch.device, not_exact: str | None):
        self._dataset, self._collate = dataset, collate
        self.device = device
        self.not_exact = not_exact
        self.bytes = math.inf

    def __len__(self) -> int:
        return len(self._dataset)

    def take(self, indices: Tensor) -> Any:
        examples = self._collate([self._dataset[i] for i in indices.flatten().tolist()])
        return tree_map(lambda leaf: leaf.to(self.device).unflatten(0, indices.shape), examples)

    def slice(self, begin: int, end: int) -> Any:
        return self.take(torch.arange(begin, min(end, len(self))))


Data = InMemory | OnDemand


def as_data(data: Any, device: torch.device) -> Data:
    """Tensors in a tuple, list or dict, a map-style Dataset, or a DataLoader over one, whose sampler plays no part."""
    if isinstance(data, InMemory | OnDemand):
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


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b) or torch.allclose(a.double(), b.double(), rtol=0, atol=0, equal_nan=True)
    return a == b
