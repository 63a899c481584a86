"""Several runs of one target as one trace: their chains side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ggmc.errors import BadInput
from ggmc.trace.store import ALL, Block, Rows, Store
from ggmc.trace.trace import Trace


class MergedRows:
    """Positions of several stores, of which only what is asked for is read.

    Args:
        parts: Positions [chains, draws, d] of each store.
        draws: How many of the draws.
    """

    def __init__(self, parts: Sequence[Rows], draws: int):
        self._parts = list(parts)
        self.shape = (sum(part.shape[0] for part in parts), draws, parts[0].shape[2])
        self.dtype: np.dtype[Any] = parts[0].dtype

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key,)
        chains, draws, columns = (*key, *(ALL,) * (3 - len(key)))
        some = slice(*draws.indices(self.shape[1])) if isinstance(draws, slice) else range(self.shape[1])[int(draws)]
        together = np.concatenate([np.asarray(part[:, some]) for part in self._parts])
        return together[(chains, ..., columns)]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


class _MergedStats(Mapping[str, np.ndarray]):
    """Statistics that all stores have, by name, each read when it is asked for."""

    def __init__(self, parts: Sequence[Mapping[str, np.ndarray]], draws: int):
        self._parts, self._draws = list(parts), draws
        self._names = [name for name in parts[0] if all(name in part for part in parts)]

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return np.concatenate([part[name][:, : self._draws] for part in self._parts])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class MergedStore(Store):
    """The chains of several stores, to be read; as many draws as the shortest has.

    Args:
        stores: With rows of one length.

    Example:
        >>> import numpy as np
        >>> from ggmc.trace.merged import MergedStore
        >>> from ggmc.trace.store import Block, MemoryStore
        >>> stores = [MemoryStore([Block(np.full((2, n, 1), n), {"lp": np.zeros((2, n))})]) for n in (3, 5)]
        >>> MergedStore(stores).rows()[:, -1, 0]
        array([3, 3, 5, 5])
    """

    def __init__(self, stores: Sequence[Store]):
        self._stores = list(stores)
        self._lengths = [next(iter(store.stats().values())).shape[1] for store in stores]
        self.draws = min(self._lengths)
        self.keeps_rows = all(store.keeps_rows for store in stores)

    @property
    def stores(self) -> list[Store]:
        """Those that were merged, in order."""
        return list(self._stores)

    @property
    def left_out(self) -> list[int]:
        """Draws per chain of each store that are not used."""
        return [length - self.draws for length in self._lengths]

    def append(self, block: Block) -> None:
        raise BadInput("merged traces cannot be written to: go on with one of their runs, and merge again")

    def rows(self) -> MergedRows:
        return MergedRows([store.rows() for store in self._stores], self.draws)

    def stats(self) -> Mapping[str, np.ndarray]:
        return _MergedStats([store.stats() for store in self._stores], self.draws)

    def values(self, names: Iterable[str] | None = None, draws: slice = ALL) -> dict[str, np.ndarray] | None:
        wanted, some = None if names is None else list(names), slice(*draws.indices(self.draws))
        found: list[dict[str, np.ndarray]] = []
        for store in self._stores:
            kept = store.values(wanted, some)
            if kept is None:
                return None
            found.append(kept)
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def merge(traces: Sequence[Trace]) -> Trace:
    """Traces of one target as one, diagnosed as one.

    Args:
        traces: Of runs with different seeds. The kernel, target and attributes of the first are those of the result.

    Returns:
        A `ggmc.Trace` with all chains, and as many draws of each as the shortest trace has.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> runs = [ggmc.sample(target, chains=2, draws=200, seed=seed, progress=False) for seed in range(2)]
        >>> ggmc.merge(runs).num_chains
        4
    """
    from ggmc.trace.diagnostics import check

    if isinstance(traces, Trace) or not traces or not all(isinstance(trace, Trace) for trace in traces):
        raise BadInput(f"merge needs traces, at least one, got {traces!r}")
    _require_alike(traces)
    first, store = traces[0], MergedStore([trace.store for trace in traces])
    remarks = [f"Trace {number}: {remark}" for number, trace in enumerate(traces) for remark in trace.remarks]
    remarks += [
        f"Trace {number} has {left_out} draws per chain more than the shortest, which are not used."
        for number, left_out in enumerate(store.left_out)
        if left_out
    ]
    attributes = first.attributes | {"runs": [trace.attributes for trace in traces]}
    merged = Trace(store, first.kernel, first.target, attributes, remarks=remarks)
    merged.warnings = check(merged)
    return merged


def _require_alike(traces: Sequence[Trace]) -> None:
    kept = {trace.store.keeps_rows for trace in traces}
    widths = {trace.positions.shape[2] if trace.store.keeps_rows else 0 for trace in traces}
    if len(widths) > 1 or len(kept) > 1:
        raise BadInput(f"traces of one target have rows of one length, got lengths {sorted(widths)}")
    if len(traces) > 1 and traces[0].store.keeps_rows:
        starts = [np.asarray(trace.positions[:, 0]).tobytes() for trace in traces]
        if len(set(starts)) < len(starts):
            raise BadInput("two of the traces begin with the same draws: give each run a seed of its own")
