"""Arrays on disk, of which only what is asked for is read.

What is read may come from anywhere. A chunk that is missing would be read as zeros, and one of a few bytes can unpack
to more than the memory has: so every chunk's file is looked at before zarr reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ggmc.errors import BadInput
from ggmc.plain import PlainMapping

ZSTD = b"\x28\xb5\x2f\xfd"
LONGEST_HEADER = 18  # bytes of a zstd frame, in which it says how much it unpacks to


def chunk_file(array: Any, number: int) -> Path:
    """The file of one chunk; arrays are cut along the draws only.

    Args:
        array: A zarr array [chains, draws, ...].
        number: Which chunk, from 0.
    """
    below = ["0"] * (array.ndim - 2)
    return Path(array.store.root).joinpath(array.path, "c", "0", str(number), *below)


def read_draws(array: Any, draws: slice) -> np.ndarray:
    """Some draws of an array; refuses those that are missing or damaged.

    Args:
        array: A zarr array [chains, draws, ...].
        draws: Which, without a step.
    """
    begin, end, _ = draws.indices(array.shape[1])
    length, size = array.chunks[1], math.prod(array.chunks) * array.dtype.itemsize
    try:
        for number in range(begin // length, -(-end // length)):
            _check_chunk(chunk_file(array, number), size)
        return np.asarray(array[:, begin : max(begin, end)])
    except (ValueError, RuntimeError, OSError) as error:
        raise BadInput(
            f"draws {begin} to {end} of {array.path} in {array.store.root} are damaged ({error}): restore the folder "
            "from a copy, or make the run again"
        ) from error


def _check_chunk(file: Path, size: int) -> None:
    """Refuse a chunk's file that does not unpack to so many bytes."""
    if not file.is_file():
        raise BadInput(f"there is no file {file}")
    if file.stat().st_size > size + size // 128 + 1024:  # what cannot be packed grows by less
        raise BadInput(f"{file} has {file.stat().st_size} bytes, more than the {size} that are in it")
    with file.open("rb") as content:
        header = content.read(LONGEST_HEADER)
    if _unpacked_size(header) != size:
        raise BadInput(f"{file} does not hold {size} bytes")


def _unpacked_size(header: bytes) -> int | None:
    """What a zstd frame says it unpacks to (RFC 8878, 3.1.1.1); None if it does not say."""
    if len(header) < 5 or header[:4] != ZSTD:
        return None
    descriptor = header[4]
    in_one_segment, flag = descriptor >> 5 & 1, descriptor >> 6
    begin = 5 + (1 - in_one_segment) + (0, 1, 2, 4)[descriptor & 3]
    length = (in_one_segment, 2, 4, 8)[flag]
    if len(header) < begin + length:
        return None
    found = int.from_bytes(header[begin : begin + length], "little")
    return found + 256 if flag == 1 else found if length else None


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
        flat = [read_draws(part, read).reshape(*leading, math.prod(part.shape[2:])) for part in self._parts]
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

    def __init__(self, arrays: PlainMapping, draws: int):
        self._arrays, self._draws = dict(arrays), draws

    def __getitem__(self, name: str) -> np.ndarray:
        return read_draws(self._arrays[name], slice(0, self._draws))

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)
