"""Files written so that a reader never sees half of one: a temporary file, flushed to the disk, then renamed."""

from __future__ import annotations

import os
from pathlib import Path

PARTIAL = ".partial"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file, or replace one, in one step.

    Args:
        path: The file. Whatever happens, it holds either what it held before or all of the content.
        content: The bytes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from ggmc.trace.atomic_files import write_atomically
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_atomically(Path(folder) / "a", b"one")
        ...     (Path(folder) / "a").read_bytes()
        b'one'
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def remove_partial_files(folder: Path) -> None:
    """Remove what writers that were killed left half written, zarr's own files included, here and below.

    Args:
        folder: A folder that nobody else writes to.
    """
    for file in folder.rglob(f"*{PARTIAL}"):
        if not file.is_dir():
            file.unlink(missing_ok=True)


def is_partial(file: Path) -> bool:
    """Whether it is a file that `write_atomically` had not finished."""
    return file.name.startswith(".") and file.name.endswith(PARTIAL) and file.is_file()


def sync(path: Path) -> None:
    """Have the system put a file or the entries of a folder on the disk."""
    try:
        number = os.open(path, os.O_RDONLY)
    except OSError:  # some systems do not open folders, and what is gone needs no disk
        return
    try:
        os.fsync(number)
    except OSError:  # nor can every file system do it
        pass
    finally:
        os.close(number)


def sync_since(folder: Path, moment: int) -> None:
    """The same for every file below a folder that was written since a moment.

    Args:
        folder: Where to look.
        moment: In nanoseconds, as `time.time_ns()`.
    """
    for parent, _, names in os.walk(folder):
        written = False
        for name in names:
            file = Path(parent) / name
            try:
                recent = file.lstat().st_mtime_ns >= moment
            except FileNotFoundError:
                continue
            if recent:
                sync(file)
                written = True
        if written:
            sync(Path(parent))
