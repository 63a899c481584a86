"""RunFolder: how a run is kept on disk; and how its folder is read safely, since it may come from anywhere.

Nothing in it is executed, and nothing outside it is read: names must be plain, links are refused, arrays must be of
numbers, in the few codecs that stores are written with, and as large on disk as they say.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from ggmc.errors import BadInput, require_count, require_positive
from ggmc.kernels.serialise import checksum
from ggmc.targets.layout import Tree

if TYPE_CHECKING:
    import zarr

FORMAT = 1
TENSORS = "ggmc-tensors.safetensors"
GROUPS = ("posterior", "unconstrained_posterior", "sample_stats", "predictions")
TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
CODECS = ("bytes", "zstd", "crc32c")
PRECISIONS = ("float64", "float32", "bfloat16")
LARGEST_ROOT = 64 * 2**20  # bytes of zarr.json
LARGEST_CHUNK = 2 * 2**30  # bytes, unpacked


@dataclass(frozen=True)
class RunFolder:
    """Where and how a run is kept on disk, for `ggmc.sample(out=...)`; a path alone takes the defaults.

    Args:
        path: The folder. It must not hold a run yet.
        checkpoint_every: Seconds between checkpoints. 0 writes one after every trajectory.
        precision: "float32" or "bfloat16" keeps the draws of a large network in fewer digits: bfloat16 values are
            stored as float32 numbers with 8 significant bits, which compress to about half. Default: as they are.
        thin: Keep every `thin`-th draw.
        predict_at: Inputs in the form of the training inputs. Then only the predictions there are kept, and no weights.
        attributes: What else is stored with the draws, for `trace.attributes`: plain values by name. Default: nothing.

    Example:
        >>> import ggmc
        >>> ggmc.RunFolder("runs/net", precision="bfloat16", thin=10).checkpoint_every
        60.0
    """

    path: str | Path
    checkpoint_every: float = 60.0
    precision: str | None = None
    thin: int = 1
    predict_at: Tree = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | Path):
            raise BadInput(f"the path of a run must be text or a Path, got {self.path!r}")
        if self.checkpoint_every != 0:
            require_positive("checkpoint_every", self.checkpoint_every)
        if self.precision is not None and self.precision not in PRECISIONS:
            raise BadInput(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        require_count("thin", self.thin)
        try:
            json.dumps(dict(self.attributes))
        except (TypeError, ValueError) as error:
            raise BadInput(f"attributes must be plain values by name, as JSON has them: {error}") from error


class Root(NamedTuple):
    """What a folder says of itself."""

    settings: dict[str, Any]
    arrays: dict[str, zarr.Array[Any]]
    """By path, such as `posterior/theta`."""
    draws: int
    """How many draws are whole."""
    remarks: list[str]
    """What is damaged."""


def check_name(name: str) -> None:
    """Refuse a name that cannot be a folder of its own inside a store."""
    if not name or "/" in name or "\\" in name or "\0" in name or name.startswith((".", "__")) or name == "zarr.json":
        raise BadInput(f"the name {name!r} cannot be stored on disk: use a name without '/', that begins with a letter")


def holds_a_run(path: Path) -> bool:
    """Whether there is a run in a folder."""
    return (path / "zarr.json").exists()


def read_root(path: Path) -> Root:
    """The settings and arrays of a run's folder, checked; arrays are opened but not read.

    Args:
        path: The folder.
    """
    import zarr

    file = path / "zarr.json"
    if not path.is_dir() or not file.is_file():
        raise BadInput(f"there is no run in {path}: give the folder that `out` named")
    refuse_links(path)
    if file.stat().st_size > LARGEST_ROOT:
        raise BadInput(f"{file} has {file.stat().st_size} bytes, too many for the settings of a run")
    try:
        root = json.loads(file.read_text(encoding="utf-8"))
        settings = root["attributes"]["ggmc"]
        nodes = root["consolidated_metadata"]["metadata"]
        if settings["format"] != FORMAT:
            raise BadInput(f"{path} is of format {settings['format']!r}, and this version reads format {FORMAT}")
        _check_layout(settings)
        paths = [_checked(path, name, node) for name, node in nodes.items() if node["node_type"] != "group"]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{file} does not describe a run of ggmc: {error!r}") from error
    group = zarr.open_group(str(path), mode="r", use_consolidated=True)
    arrays: dict[str, Any] = {name: group[name] for name in paths}
    lengths = {array.shape[1] for array in arrays.values()}
    if len(lengths) > 1:
        raise BadInput(f"the arrays of {path} have different numbers of draws, {sorted(lengths)}")
    claimed = max(lengths, default=0)
    whole = min((_whole_draws(path, name, array) for name, array in arrays.items()), default=0)
    remarks: list[str] = []
    if whole < claimed:
        remarks = [f"Of {claimed} draws per chain in {path}, the last {claimed - whole} are damaged and are left out."]
    return Root(settings, arrays, whole, remarks)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The large tensors of a run's settings, by checksum; those that are damaged are left out.

    Args:
        path: The folder.
    """
    file = path / TENSORS
    if not file.is_file():
        return {}
    try:
        found = load(file.read_bytes())
    except SafetensorError:
        return {}
    return {name: tensor for name, tensor in found.items() if name == checksum(tensor)}


def _whole_draws(path: Path, name: str, array: zarr.Array[Any]) -> int:
    """How many draws come before the first chunk that is missing, or a last one that is damaged.

    A crash can only damage what was written last, and to read all chunks of a long run would take long. One in the
    middle that is damaged is noticed by its checksum when it is read.
    """
    draws, length = array.shape[1], array.chunks[1]
    below = ["0"] * (array.ndim - 2)
    for number in range(-(-draws // length)):
        file = path.joinpath(name, "c", "0", str(number), *below)
        if not file.is_file() or not file.stat().st_size:
            return number * length
    if draws:
        last = (draws - 1) // length * length
        try:
            array[:, last:draws]
        except (ValueError, RuntimeError, OSError):
            return last
    return draws


def refuse_links(path: Path) -> None:
    """Refuse a folder in which a link leads elsewhere."""
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(parent, name)):
                raise BadInput(f"{Path(parent, name)} is a link: a run's folder must hold its own files")


def _check_layout(settings: dict[str, Any]) -> None:
    for name, shape in settings["layout"].items():
        check_name(name)
        if not all(isinstance(side, int) and side >= 0 for side in shape):
            raise BadInput(f"the layout gives {name!r} the shape {shape!r}")
    if not isinstance(settings["thin"], int) or settings["thin"] < 1:
        raise BadInput(f"thin is {settings['thin']!r}")


def _checked(path: Path, name: str, node: dict[str, Any]) -> str:
    """The name of an array that can be read safely."""
    parts = name.split("/")
    if len(parts) != 2 or parts[0] not in GROUPS:
        raise BadInput(f"{path} has an array named {name!r}, which no run of ggmc has")
    check_name(parts[1])
    shape, chunks = node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"]
    kinds = [codec["name"] for codec in node["codecs"]]
    if node["zarr_format"] != 3 or node["data_type"] not in TYPES or not set(kinds) <= set(CODECS):
        raise BadInput(
            f"{name} in {path} is of type {node['data_type']!r} with codecs {kinds}, which ggmc never writes"
        )
    if len(shape) < 2 or len(shape) != len(chunks) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise BadInput(f"{name} in {path} has the shape {shape!r} in chunks of {chunks!r}")
    if not all(isinstance(n, int) and n >= 1 for n in chunks) or math.prod(chunks) * 8 > LARGEST_CHUNK:
        raise BadInput(f"{name} in {path} has chunks of {chunks!r}, larger than any that ggmc writes")
    if [chunk for i, chunk in enumerate(chunks) if i != 1] != [max(1, side) for i, side in enumerate(shape) if i != 1]:
        raise BadInput(f"{name} in {path} has the shape {shape!r} in chunks of {chunks!r}, which ggmc never writes")
    return name
