"""RunFolder: how a run is kept on disk; and how its folder is read safely, since it may come from anywhere.

Nothing in it is executed, and nothing outside it is read: names must be plain, links are refused, arrays must be of
numbers, in the few codecs that stores are written with, and as large on disk as they say.
"""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ggmc.errors import BadInput, require_count, require_positive
from ggmc.kernels.serialise import checksum, large_tensors
from ggmc.plain import PlainDict, PlainMapping, Tree
from ggmc.trace.lazy_arrays import chunk_file, read_draws
from ggmc.trace.stored_settings import LARGEST_CHUNK, check_arrays, check_name, check_settings, is_count

if TYPE_CHECKING:
    import zarr

FORMAT = 1
TENSORS = "ggmc-tensors.safetensors"
GROUPS = ("posterior", "unconstrained_posterior", "sample_stats", "predictions")
TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
CODECS = ["bytes", "zstd", "crc32c"]
KEYS = {"name": "default", "configuration": {"separator": "/"}}
PRECISIONS = ("float64", "float32", "bfloat16")
LARGEST_ROOT = 64 * 2**20  # bytes of zarr.json


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
    attributes: PlainMapping = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_path(self.path)
        if self.checkpoint_every != 0:
            require_positive("checkpoint_every", self.checkpoint_every)
        if self.precision is not None and self.precision not in PRECISIONS:
            raise BadInput(f"precision must be one of {', '.join(PRECISIONS)}, got {self.precision!r}")
        require_count("thin", self.thin)
        try:
            json.dumps(dict(self.attributes))
        except (TypeError, ValueError) as error:
            raise BadInput(f"attributes must be plain values by name, as JSON has them: {error}") from error


def checked_path(path: object) -> Path:
    """The path of a run; refuses what is none."""
    if not isinstance(path, str | Path):
        raise BadInput(f"the path of a run must be text or a Path, got {path!r}")
    try:
        Path(path).exists()  # also where the name is too long, or has a character that no name has
    except (OSError, ValueError) as error:
        raise BadInput(f"there can be no folder {str(path)[:100]!r}: {error}") from error
    if "\0" in str(path):
        raise BadInput(f"there can be no folder {str(path)[:100]!r}: its name has a null character")
    return Path(path)


def make_folder(path: Path) -> None:
    """Make a folder where there is none.

    Args:
        path: The folder.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {path} cannot be made: {error}") from error


class Root(NamedTuple):
    """What a folder says of itself."""

    settings: PlainDict
    arrays: dict[str, zarr.Array[Any]]
    """By path, such as `posterior/theta`."""
    nodes: dict[str, PlainDict]
    """What the root says of each array."""
    draws: int
    """How many draws are whole."""
    remarks: list[str]
    """What is damaged."""


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
    refuse_what_is_no_file(path)
    if file.stat().st_size > LARGEST_ROOT:
        raise BadInput(f"{file} has {file.stat().st_size} bytes, too many for the settings of a run")
    try:
        root = json.loads(file.read_text(encoding="utf-8"))
        settings = root["attributes"]["ggmc"]
        nodes = root["consolidated_metadata"]["metadata"]
        if settings["format"] != FORMAT:
            raise BadInput(f"{path} is of format {settings['format']!r}, and this version reads format {FORMAT}")
        check_settings(settings)
        arrays_of = {name: node for name, node in nodes.items() if node["node_type"] != "group"}
        for name, node in arrays_of.items():
            _check_node(name, node)
        check_arrays(settings, {name: node["shape"] for name, node in arrays_of.items()})
        group = zarr.open_group(str(path), mode="r", zarr_format=3, use_consolidated=True)
        arrays: PlainDict = {name: group[name] for name in arrays_of}
    except BadInput as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise BadInput(f"{file} does not describe a run of ggmc: {str(error)[:200]}") from error
    claimed = max((node["shape"][1] for node in arrays_of.values()), default=0)
    whole = min(map(_whole_draws, arrays.values()), default=0)
    remarks: list[str] = []
    if whole < claimed:
        remarks = [f"Of {claimed} draws per chain in {path}, the last {claimed - whole} are damaged and are left out."]
    return Root(settings, arrays, arrays_of, whole, remarks)


def read_tensors(path: Path, settings: PlainDict) -> dict[str, Tensor]:
    """The large tensors that a run's settings name by their checksums; those that are damaged are left out.

    Args:
        path: The folder.
        settings: Of the run.
    """
    file, found = path / TENSORS, dict[str, Tensor]()
    wanted = large_tensors([settings["kernel"], settings["tuned_kernel"]])
    if not file.is_file() or not wanted:
        return found
    try:
        with safe_open(file, framework="pt") as stored:  # of the file, only what is wanted is read
            for name in wanted & set(stored.keys()):
                tensor = stored.get_tensor(name)
                if name == checksum(tensor):
                    found[name] = tensor.clone()
    except (SafetensorError, OSError):
        pass
    return found


def _whole_draws(array: zarr.Array[Any]) -> int:
    """How many draws come before the first chunk that is missing, or a last one that is damaged.

    A crash can only damage what was written last, and to read all chunks of a long run would take long. One in the
    middle that is damaged is noticed by its checksum when it is read.
    """
    draws, length = array.shape[1], array.chunks[1]
    for number in range(-(-draws // length)):
        file = chunk_file(array, number)
        if not file.is_file() or not file.stat().st_size:
            return number * length
    if draws:
        last = (draws - 1) // length * length
        try:
            read_draws(array, slice(last, draws))
        except BadInput:
            return last
    return draws


def refuse_what_is_no_file(path: Path) -> None:
    """Refuse a folder in which a link leads elsewhere, or in which there is a pipe or a device.

    Args:
        path: The folder.
    """
    for parent, folders, files in os.walk(path):
        for name in (*folders, *files):
            place = Path(parent, name)
            try:
                mode = place.lstat().st_mode
            except FileNotFoundError:  # a run that goes on has replaced it
                continue
            if stat.S_ISLNK(mode):
                raise BadInput(f"{place} is a link: a run's folder must hold its own files")
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise BadInput(f"{place} is neither a file nor a folder: a run has nothing else")


def _check_node(path: str, node: PlainDict) -> None:
    """Refuse an array that cannot be read safely."""
    parts = path.split("/")
    if len(parts) != 2 or parts[0] not in GROUPS:
        raise BadInput(f"there is an array named {path!r}, which no run of ggmc has")
    check_name(parts[1])
    shape, chunks = node["shape"], node["chunk_grid"]["configuration"]["chunk_shape"]
    kinds = [codec["name"] for codec in node["codecs"]]
    if node["zarr_format"] != 3 or node["data_type"] not in TYPES or kinds != CODECS:
        raise BadInput(f"{path} is of type {node['data_type']!r} with codecs {kinds}, which ggmc never writes")
    if node.get("storage_transformers"):
        raise BadInput(f"{path} has storage transformers, which ggmc never writes")
    if node["chunk_key_encoding"] != KEYS:
        raise BadInput(f"{path} has its chunks in {node['chunk_key_encoding']!r}, where ggmc never writes them")
    if not isinstance(shape, list) or len(shape) < 2 or len(shape) != len(chunks) or not all(map(is_count, shape)):
        raise BadInput(f"{path} has the shape {shape!r} in chunks of {chunks!r}")
    if not all(is_count(side, 1) for side in chunks) or math.prod(chunks) * 8 > LARGEST_CHUNK:
        raise BadInput(f"{path} has chunks of {chunks!r}, larger than any that ggmc writes")
    if [chunk for i, chunk in enumerate(chunks) if i != 1] != [max(1, side) for i, side in enumerate(shape) if i != 1]:
        raise BadInput(f"{path} has the shape {shape!r} in chunks of {chunks!r}, which ggmc never writes")
