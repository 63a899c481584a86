"""Files from anywhere, read up to a limit: bytes, gzip, text of numbers and .npz."""

from __future__ import annotations

import gzip
import io
import math
import os
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ggmc.errors import BadInput

MIB = 2**20
LARGEST_TEXT = 1024 * MIB  # the largest set, YearPredictionMSD, has about 450 MB
LARGEST_ARRAY = 512 * MIB  # all training images of CIFAR-10 are 147 MiB
LARGEST_NPZ = 1024 * MIB


def as_path(path: object) -> Path:
    """A path from what a user gave, with ~ as their home.

    Args:
        path: Text or a Path.
    """
    if not isinstance(path, str | os.PathLike) or (isinstance(path, str) and (not path or "\0" in path)):
        raise BadInput(f"path must be text or a Path, got {path!r}")
    return Path(path).expanduser()


def check_file(path: Path, largest: int) -> None:
    """Refuse what is not a file, or too large a one.

    Args:
        path: The file.
        largest: The most bytes it may have.
    """
    if not path.is_file():
        wrong = "is not a file" if path.exists() else "does not exist"
        raise BadInput(f"{path} {wrong}: the data are read from the files as they are published")
    if path.stat().st_size > largest:
        raise BadInput(
            f"{path} has {path.stat().st_size} bytes, and at most {largest} are expected: it is another file"
        )


def read_bytes(path: Path, largest: int) -> bytes:
    """All of a file; if its name ends with .gz, unpacked.

    Args:
        path: The file.
        largest: The most bytes it may have, packed and unpacked.
    """
    check_file(path, largest)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(largest + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from error
    if len(content) > largest:
        raise BadInput(f"{path} holds more than the {largest} bytes that are expected: it is another file")
    return content


def damaged(path: Path | str, cause: object) -> BadInput:
    """The error for a file that cannot be read to its end.

    Args:
        path: The file.
        cause: What was found.
    """
    return BadInput(f"{path} is damaged or of another format ({cause}): download it again")


def read_numbers(path: Path) -> np.ndarray:
    """A text file of numbers, [rows, columns], in float64.

    Args:
        path: The file: numbers with spaces between them, one row per line.
    """
    check_file(path, LARGEST_TEXT)
    try:
        with path.open(encoding="utf-8") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there are no rows is said below
            numbers = np.loadtxt(file, dtype=np.float64, comments=None, ndmin=2)
    except ValueError as error:
        raise BadInput(f"{path} must hold numbers, one row per line: {error}") from error
    if not numbers.size:
        raise BadInput(f"{path} is empty: download it again")
    return numbers


def npz_names(path: Path) -> list[str]:
    """The names of the arrays in an .npz file.

    Args:
        path: The file.
    """
    check_file(path, LARGEST_NPZ)
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise damaged(path, error) from error


def read_npz(path: Path, names: list[str]) -> list[np.ndarray]:
    """Arrays of numbers from an .npz file; others in it are not read.

    Args:
        path: The file.
        names: Which arrays.
    """
    there = npz_names(path)
    for name in names:
        if name not in there:
            raise BadInput(f"{path} has no array {name!r}, only {listed(there)}: it needs {', '.join(names)}")
    with zipfile.ZipFile(path) as archive:
        return [_read_npy(archive, name, f"{name} in {path}") for name in names]


def _read_npy(archive: zipfile.ZipFile, name: str, where: str) -> np.ndarray:
    """One array, whose header must agree with its size before memory is taken for it."""
    entry = archive.getinfo(f"{name}.npy")
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadInput(f"{where} is encrypted or packed in an unusual way: save it with np.savez_compressed")
    if entry.file_size > LARGEST_ARRAY:
        raise BadInput(f"{where} has {entry.file_size} bytes, and at most {LARGEST_ARRAY} are expected")
    try:
        file = io.BytesIO(archive.read(entry))
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version} of the format")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.kind not in "iuf":
            raise BadInput(f"{where} is of type {str(dtype)[:40]!r}: it must be an array of numbers")
        left = len(file.getbuffer()) - file.tell()
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
            raise ValueError(f"{left} bytes for an array of shape {shape}")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)
    except BadInput:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise damaged(where, str(error)[:200]) from error


def listed(names: list[str]) -> str:
    """Names for an error: the first of them, in order.

    Args:
        names: What is there.
    """
    first = [name[:60] for name in sorted(names)[:20]]
    return (", ".join(first) or "nothing") + (f" and {len(names) - 20} more" if len(names) > 20 else "")
