"""Stores: where `ggmc.sample` puts the draws, some at a time.

A store of one's own subclasses `Store` and writes `append`, `rows` and `stats`; it is given as `sample(store=...)`. It
holds positions and statistics only: kernel, seed and warnings are in the `Trace`. Each run has its own store. Runs that
can be resumed have a folder, `sample(out=...)`, and a `ZarrStore` in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.plain import PlainDict, PlainMapping


class Block(NamedTuple):
    """Some consecutive draws of all chains.

    Args:
        rows: Unconstrained positions [chains, draws, d], in the target's precision.
        stats: Statistics of each trajectory by name, [chains, draws, ...].

    Example:
        >>> import numpy as np
        >>> from ggmc.trace.store import Block
        >>> Block(np.zeros((4, 10, 2)), {"lp": np.zeros((4, 10))}).rows.shape
        (4, 10, 2)
    """

    rows: np.ndarray
    stats: dict[str, np.ndarray]


ALL = slice(None)


class Rows(Protocol):
    """Positions [chains, draws, d]: an array, or something that reads only what is asked of it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Chains, draws, d."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision."""
        ...

    def __getitem__(self, key: Any, /) -> Any: ...


class Store(ABC):
    """Where a run's draws go: memory, a folder on disk, or a place of the user's own.

    The sampler appends blocks in order and does not change a block afterwards. What is read back is equal to what was
    appended, bit for bit. Reading an empty store is an error.

    Example:
        >>> import numpy as np
        >>> from ggmc.trace.store import Block, Store
        >>> class ListStore(Store):
        ...     def __init__(self):
        ...         self.blocks = []
        ...     def append(self, block):
        ...         self.blocks.append(block)
        ...     def rows(self):
        ...         return np.concatenate([block.rows for block in self.blocks], axis=1)
        ...     def stats(self):
        ...         names = self.blocks[0].stats
        ...         return {n: np.concatenate([block.stats[n] for block in self.blocks], axis=1) for n in names}
        >>> store = ListStore()
        >>> for _ in range(3):
        ...     store.append(Block(np.zeros((4, 10, 2)), {"lp": np.zeros((4, 10))}))
        >>> store.rows().shape
        (4, 30, 2)
    """

    @abstractmethod
    def append(self, block: Block) -> None:
        """Keep a block, which follows those kept before."""

    @abstractmethod
    def rows(self) -> Rows:
        """The unconstrained positions of all draws so far: [chains, draws, d]."""

    @abstractmethod
    def stats(self) -> Mapping[str, np.ndarray]:
        """The statistics of all draws so far, by name: [chains, draws, ...]."""

    def commit(self, settings: PlainMapping, tensors: Mapping[str, Tensor]) -> None:
        """Make what was appended safe, where that takes more than `append`: called now and then, and at the end.

        Args:
            settings: What is known of the run by now, as plain values: kernel, attributes, warnings.
            tensors: Large tensors that the settings name by their checksum, such as a mass.
        """
        return

    keeps_rows: bool = True
    """Whether it keeps positions; without them, only statistics and what `values` returns can be read."""

    def values(self, names: Iterable[str] | None = None, draws: slice = ALL) -> dict[str, np.ndarray] | None:
        """Named values [chains, draws, *shape], where the store keeps them itself; None where the target computes them.

        Args:
            names: Which; by default all.
            draws: Of which draws; by default all.
        """
        return None


@final
class MemoryStore(Store):
    """Draws kept in memory, each number once.

    Args:
        blocks: Blocks to begin with, in order; none by default.
        draws: How many draws are expected. Memory for them is reserved at the first block, and used as they come;
            without it, and beyond it, the reserve is doubled whenever it is full.

    Example:
        >>> import numpy as np
        >>> from ggmc.trace.store import Block, MemoryStore
        >>> store = MemoryStore()
        >>> for start in (0.0, 2.0):
        ...     store.append(Block(np.array([[[start], [start + 1]]]), {"lp": np.array([[start, start + 1]])}))
        >>> store.rows()[0, :, 0], store.stats()["lp"]
        (array([0., 1., 2., 3.]), array([[0., 1., 2., 3.]]))
    """

    def __init__(self, blocks: Sequence[Block] = (), draws: int = 0):
        self._expected = draws
        self._number = 0
        self._kept: Block | None = None  # with room for more
        for block in blocks:
            self.append(block)

    def append(self, block: Block) -> None:
        added = block.rows.shape[1]
        if self._kept is None:
            try:
                self._kept = _room_for(block, max(self._expected, added))
            except (MemoryError, ValueError):  # what is expected does not fit: keep what comes, as far as it goes
                self._kept = _room_for(block, added)
        check_same_kind(self._kept, block)
        end, room = self._number + added, self._kept.rows.shape[1]
        if end > room:
            larger = _room_for(block, max(end, 2 * room))
            _put(larger, 0, self._so_far(self._kept))
            self._kept = larger
        _put(self._kept, self._number, block)
        self._number = end  # last of all: what is interrupted before this line leaves the store as it was

    @property
    def num_draws(self) -> int:
        """Draws per chain so far."""
        return self._number

    def rows(self) -> np.ndarray:
        return self._all().rows

    def stats(self) -> dict[str, np.ndarray]:
        return self._all().stats

    def _all(self) -> Block:
        if self._kept is None:
            raise BadInput("the store is empty: no draws were made")
        return self._so_far(self._kept)

    def _so_far(self, kept: Block) -> Block:
        number = self._number
        return Block(kept.rows[:, :number], {name: array[:, :number] for name, array in kept.stats.items()})

    def __getstate__(self) -> PlainDict:
        """What pickle keeps: not the room for more."""
        kept = None if self._kept is None else self._so_far(self._kept)
        return vars(self) | {"_kept": kept}


def _room_for(block: Block, draws: int) -> Block:
    """Arrays like those of a block, for so many draws; the system gives them memory when they are written to."""

    def room(array: np.ndarray) -> np.ndarray:
        return np.empty((array.shape[0], draws, *array.shape[2:]), array.dtype)

    return Block(room(block.rows), {name: room(array) for name, array in block.stats.items()})


def _put(into: Block, begin: int, block: Block) -> None:
    end = begin + block.rows.shape[1]
    into.rows[:, begin:end] = block.rows
    for name, array in block.stats.items():
        into.stats[name][:, begin:end] = array


def check_same_kind(first: Block, other: Block) -> None:
    """Refuse a block of another run: other chains, other parameters, another precision or other statistics."""

    def kind(block: Block) -> dict[str, object]:
        chains, _, size = block.rows.shape
        return {"chains": chains, "d": size, "precision": str(block.rows.dtype), "statistics": sorted(block.stats)}

    kept = kind(first)
    for name, value in kind(other).items():
        if value != kept[name]:
            raise BadInput(f"the store holds draws with {name} {kept[name]}, got {value}: give each run its own store")
