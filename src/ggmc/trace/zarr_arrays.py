"""How a store's arrays are laid out on disk: chunks, codecs with checksums, and the metadata that readers go by."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ggmc.plain import PlainDict, PlainMapping
from ggmc.trace.atomic_files import write_atomically
from ggmc.trace.stored_settings import check_name

CHUNK = 4 * 2**20  # bytes of one chunk of an array, or one draw of it if that is more
LONGEST_CHUNK = 1000  # draws
CONFIG: Any = {"write_empty_chunks": True}  # a chunk of zeros has a file too: one that is missing is damage


def new_array(folder: Path, path: str, like: np.ndarray) -> Any:
    """An array without draws.

    Args:
        folder: Of the run.
        path: Group and name, as in `posterior/theta`.
        like: Some draws [chains, draws, *shape] of it.
    """
    import zarr
    from zarr.codecs import Crc32cCodec, ZstdCodec

    group, name = path.split("/")
    check_name(name)
    chains, _, *shape = like.shape
    one = max(1, chains * math.prod(shape) * like.dtype.itemsize)
    if not (folder / group / "zarr.json").exists():
        zarr.create_group(str(folder / group), zarr_format=3)
    return zarr.create_array(
        str(folder / path),
        shape=(chains, 0, *shape),
        chunks=(max(1, chains), max(1, min(LONGEST_CHUNK, CHUNK // one)), *(max(1, side) for side in shape)),
        dtype=like.dtype,
        compressors=(ZstdCodec(level=1), Crc32cCodec()),
        dimension_names=("chain", "draw", *(f"{name}_dim_{i}" for i in range(len(shape)))),
        zarr_format=3,
        config=CONFIG,
        overwrite=True,  # what a killed run left that the root does not know of yet
    )


def array_as_in_root(folder: Path, path: str, node: PlainMapping, draws: int) -> Any:
    """An array to be written to after so many draws, described as in the root: its own files are not relied on.

    Args:
        folder: Of the run.
        path: Group and name.
        node: What the root says of the array, checked.
        draws: How many to keep.
    """
    import zarr

    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    chains, _, *shape = node["shape"]
    write_atomically(folder / path.split("/")[0] / "zarr.json", json.dumps(group).encode())
    write_atomically(folder / path / "zarr.json", json.dumps({**node, "shape": [chains, draws, *shape]}).encode())
    array: Any = zarr.open_array(str(folder / path), mode="r+", zarr_format=3)
    return array.with_config(CONFIG)


def remove_chunks_beyond(folder: Path, path: str, array: Any) -> None:
    """Remove the chunks that an array had beyond its draws.

    Args:
        folder: Of the run.
        path: Group and name.
        array: The array.
    """
    chunks = folder / path / "c" / "0"
    wanted = {str(number) for number in range(-(-array.shape[1] // array.chunks[1]))}
    for entry in list(chunks.iterdir()) if chunks.is_dir() else []:
        if entry.name not in wanted:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


def root_metadata(folder: Path, paths: Iterable[str], settings: PlainDict) -> bytes:
    """The content of the root's `zarr.json`, with a copy of that of every group and array.

    Args:
        folder: Of the run.
        paths: Of the arrays.
        settings: What is known of the run.
    """
    nodes: PlainDict = {}
    for path in paths:
        for node in (path.split("/")[0], path):
            nodes[node] = json.loads((folder / node / "zarr.json").read_text())
    root = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"ggmc": settings},
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": nodes},
    }
    return json.dumps(root, ensure_ascii=False).encode()
