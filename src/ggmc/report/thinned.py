"""A trace with fewer draws: of a long run every n-th, read in pieces of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ggmc.errors import BadInput
from ggmc.trace.record import NUMBERS_AT_ONCE
from ggmc.trace.store import ALL, Block, Rows, Store
from ggmc.trace.trace import Trace


class ThinnedRows:
    """Every n-th draw of some positions, of which only what is asked for is read.

    Args:
        rows: Positions [chains, draws, d].
        every: n.
    """

    def __init__(self, rows: Rows, every: int):
        self._rows, self._every = rows, every
        self.shape = (rows.shape[0], -(-rows.shape[1] // every), rows.shape[2])
        self.dtype: np.dtype[Any] = rows.dtype

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key,)
        chains, draws, columns = (*key, *(ALL,) * (3 - len(key)))
        if not isinstance(draws, slice):
            return self._rows[:, range(self.shape[1])[int(draws)] * self._every][chains, columns]
        return self._some(range(self.shape[1])[draws])[chains][..., columns]

    def _some(self, numbers: range) -> np.ndarray:
        """Draws by their numbers. A store reads all that lie between the first and the last of one call."""
        size = max(1, self.shape[0] * self.shape[2])
        apart = abs(numbers.step) * self._every
        at_once = max(1, NUMBERS_AT_ONCE // (size * apart))
        parts = [np.empty((self.shape[0], 0, self.shape[2]), self.dtype)]
        for begin in range(0, len(numbers), at_once):
            some = numbers[begin : begin + at_once]
            parts.append(np.asarray(self._rows[:, some[0] * self._every : some[-1] * self._every + 1 : apart]))
        return np.concatenate(parts, 1)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


class _ThinnedStats(Mapping[str, np.ndarray]):
    """Every n-th of each statistic, read when it is asked for."""

    def __init__(self, stats: Mapping[str, np.ndarray], every: int):
        self._stats, self._every = stats, every

    def __getitem__(self, name: str) -> np.ndarray:
        return self._stats[name][:, :: self._every].copy()  # not a view, which would keep the others in memory

    def __iter__(self) -> Iterator[str]:
        return iter(self._stats)

    def __len__(self) -> int:
        return len(self._stats)


class ThinnedStore(Store):
    """Every n-th draw of a store, to be read.

    Args:
        store: The store.
        every: n.

    Example:
        >>> import numpy as np
        >>> from ggmc.report.thinned import ThinnedStore
        >>> from ggmc.trace.store import Block, MemoryStore
        >>> store = MemoryStore([Block(np.arange(10.0).reshape(1, 10, 1), {"lp": np.zeros((1, 10))})])
        >>> ThinnedStore(store, 4).rows()[0, :, 0]
        array([0., 4., 8.])
    """

    def __init__(self, store: Store, every: int):
        self._store, self._every = store, every
        self.keeps_rows = store.keeps_rows

    def append(self, block: Block) -> None:
        raise BadInput("a thinned store is only read: write to the store itself")

    def rows(self) -> ThinnedRows:
        return ThinnedRows(self._store.rows(), self._every)

    def stats(self) -> Mapping[str, np.ndarray]:
        return _ThinnedStats(self._store.stats(), self._every)

    def values(self, names: Iterable[str] | None = None, draws: slice = ALL) -> dict[str, np.ndarray] | None:
        begin, end, step = draws.indices(10**15 if draws.stop is None else draws.stop)
        some = slice(begin * self._every, end * self._every, step * self._every)
        return self._store.values(names, some)


def thinned(trace: Trace, most: int) -> tuple[Trace, int]:
    """The trace with at most so many draws per chain, evenly spread.

    Args:
        trace: The trace.
        most: Draws per chain.

    Returns:
        It, and n, where it has every n-th draw; the trace itself and 1, where it is short.
    """
    every = -(-trace.num_draws // most)
    if every <= 1:
        return trace, 1
    fewer = ThinnedStore(trace.store, every)
    return Trace(fewer, trace.kernel, trace.target, trace.attributes, list(trace.warnings), trace.remarks), every
