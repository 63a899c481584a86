"""How a store's arrays are laid out on disk: chunks, codecs with checksums, and the metadata that readers go by."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ggmc.trace.run_folder import check_name

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


def root_metadata(folder: Path, paths: Iterable[str], settings: dict[str, Any]) -> bytes:
    """The content of the root's `zarr.json`, with a copy of that of every group and array.

    Args:
        folder: Of the run.
        paths: Of the arrays.
        settings: What is known of the run.
    """
    nodes: dict[str, Any] = {}
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
