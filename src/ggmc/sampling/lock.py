"""The lock on a run's folder: one process writes to it at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ggmc.errors import BadInput
from ggmc.sampling.checkpoint import FOLDER as CHECKPOINTS
from ggmc.sampling.checkpoint import is_checkpoint
from ggmc.trace.atomic_files import is_partial, remove_partial_files
from ggmc.trace.run_folder import TENSORS, holds_a_run, make_folder

LOCK = ".lock"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Within this block no other process writes to the folder; the lock ends with the process, however that ends.

    Args:
        path: The folder, which exists.
    """
    lock = FileLock(str(path / LOCK), timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise BadInput(f"another run is writing to {path}: wait for it, or use another folder") from error
    except OSError as error:
        raise BadInput(f"the folder {path} cannot be written to: {error}") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def new_folder(path: Path) -> Iterator[None]:
    """A locked folder without a run in it; if making the run fails before anything is in it, it is removed again.

    Args:
        path: The folder, which need not exist.
    """
    _refuse_a_run(path)
    made = not path.exists()
    make_folder(path)
    if not path.is_dir() or not all(map(_was_left_by_a_killed_run, path.iterdir())):
        raise BadInput(f"{path} is not an empty folder: give another one, so that nothing in it is written over")
    with locked(path):
        _refuse_a_run(path)  # once more: until now another process may have made one
        try:
            _clear(path)
            yield
        except BaseException:
            if not holds_a_run(path):
                with suppress(OSError):  # of a folder that is gone, or not ours to remove: the first error counts
                    _clear(path)
                    if made:
                        (path / LOCK).unlink(missing_ok=True)
                        path.rmdir()
            raise


def _refuse_a_run(path: Path) -> None:
    if holds_a_run(path):
        raise BadInput(f"{path} holds a run already: continue it with ggmc.resume, or give another folder")


def _was_left_by_a_killed_run(entry: Path) -> bool:
    """Whether an entry of the folder is what a run leaves that was killed before it began, and nobody else's."""
    if entry.is_symlink():
        return False
    if entry.name == CHECKPOINTS and entry.is_dir():
        return all(is_partial(file) or (is_checkpoint(file) and file.is_file()) for file in entry.iterdir())
    return (entry.name in (LOCK, TENSORS) and entry.is_file()) or is_partial(entry)


def _clear(path: Path) -> None:
    remove_partial_files(path)
    (path / TENSORS).unlink(missing_ok=True)
    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
