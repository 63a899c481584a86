"""Arrays on disk, of which only what is asked for is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class StoredRows:
    """Positions [chains, draws, d] on disk, of which only what is asked for is read.

    Args:
        parts: The arrays [chains, draws, *shape] that make a row, in order.
        draws: How many of the draws.
    """

    def __init__(self, parts: list[Any], draws: int):
        self._parts = parts
        self.shape = (parts[0].shape[0], draws, sum(math.prod(part.shape[2:]) for part in parts))
        self.dtype: np.dtype[Any] = parts[0].dtype

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key,)
        chains, draws, columns = (*key, *(slice(None),) * (3 - len(key)))
        number = self.shape[1]
        if isinstance(draws, slice):
            begin, end, step = draws.indices(number)
            if step < 1:
                raise IndexError("draws are read forwards: use a positive step")
            read, within = slice(begin, max(begin, end)), slice(None, None, step)
        else:
            place = range(number)[int(draws)]  # an index error where there is no such draw
            read, within = slice(place, place + 1), 0
        leading = self.shape[0], read.stop - read.start
        flat = [np.asarray(part[:, read]).reshape(*leading, math.prod(part.shape[2:])) for part in self._parts]
        return np.concatenate(flat, -1)[:, within][(chains, ..., columns)]

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype)


class StoredStats(Mapping[str, np.ndarray]):
    """Statistics on disk by name, each read when it is asked for.

    Args:
        arrays: [chains, draws, ...] each.
        draws: How many of the draws.
    """

    def __init__(self, arrays: Mapping[str, Any], draws: int):
        self._arrays, self._draws = dict(arrays), draws

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(self._arrays[name][:, : self._draws])

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
