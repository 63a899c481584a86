"""Where the draws of a run are kept, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np

from ggmc.errors import BadInput


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


class Store(ABC):
    """Where a run's draws go: memory, or a place of the user's own, such as files on disk.

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
    def rows(self) -> np.ndarray:
        """The unconstrained positions of all draws so far: [chains, draws, d]."""

    @abstractmethod
    def stats(self) -> dict[str, np.ndarray]:
        """The statistics of all draws so far, by name: [chains, draws, ...]."""


@final
class MemoryStore(Store):
    """Draws kept in memory: blocks are joined when they are first read, and the parts are released.

    Args:
        blocks: Blocks to begin with, in order; none by default.

    Example:
        >>> import numpy as np
        >>> from ggmc.trace.store import Block, MemoryStore
        >>> store = MemoryStore()
        >>> for start in (0.0, 2.0):
        ...     store.append(Block(np.array([[[start], [start + 1]]]), {"lp": np.array([[start, start + 1]])}))
        >>> store.rows()[0, :, 0], store.stats()["lp"]
        (array([0., 1., 2., 3.]), array([[0., 1., 2., 3.]]))
    """

    def __init__(self, blocks: Sequence[Block] = ()):
        self._blocks: list[Block] = []
        for block in blocks:
            self.append(block)

    def append(self, block: Block) -> None:
        if self._blocks:
            _check_same_kind(self._blocks[0], block)
        self._blocks.append(block)

    def rows(self) -> np.ndarray:
        return self._joined().rows

    def stats(self) -> dict[str, np.ndarray]:
        return dict(self._joined().stats)

    def _joined(self) -> Block:
        if not self._blocks:
            raise BadInput("the store is empty: no draws were made")
        if len(self._blocks) > 1:
            rows = np.concatenate([block.rows for block in self._blocks], axis=1)
            names = self._blocks[0].stats
            stats = {name: np.concatenate([block.stats[name] for block in self._blocks], axis=1) for name in names}
            self._blocks = [Block(rows, stats)]
        return self._blocks[0]


def _check_same_kind(first: Block, other: Block) -> None:
    """Refuse a block of another run: other chains, other parameters, another precision or other statistics."""

    def kind(block: Block) -> dict[str, object]:
        chains, _, size = block.rows.shape
        return {"chains": chains, "d": size, "precision": str(block.rows.dtype), "statistics": sorted(block.stats)}

    kept = kind(first)
    for name, value in kind(other).items():
        if value != kept[name]:
            raise BadInput(f"the store holds draws with {name} {kept[name]}, got {value}: give each run its own store")
