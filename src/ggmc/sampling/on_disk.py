"""A run's folder while it is written to: one process at a time, with everything that made the run stored beside it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from ggmc.errors import BadInput
from ggmc.kernels import Kernel, to_dict
from ggmc.sampling.checkpoint import FOLDER as CHECKPOINTS
from ggmc.targets.base import Target
from ggmc.targets.fingerprint import fingerprint
from ggmc.targets.layout import Tree
from ggmc.trace.folder import FORMAT, holds_a_run

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
    if holds_a_run(path):
        raise BadInput(f"{path} holds a run already: continue it with ggmc.resume, or give another folder")
    made = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {path} cannot be made: {error}") from error
    if not path.is_dir() or {entry.name for entry in path.iterdir()} - {LOCK, CHECKPOINTS}:
        raise BadInput(f"{path} is not an empty folder: give another one, so that nothing in it is written over")
    try:
        with locked(path):
            shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)  # of a run that was killed before it began
            yield
    except BaseException:
        if not holds_a_run(path):
            shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
            if made:
                (path / LOCK).unlink(missing_ok=True)
                path.rmdir()
        raise


def described(target: Target, kernel: Kernel, settings: dict[str, Any], attributes: dict[str, Tree]) -> dict[str, Any]:
    """What is stored with the draws, as plain values.

    Args:
        target: Gives its fingerprint.
        kernel: As the user gave it.
        settings: The arguments of the run.
        attributes: Those of the trace.
    """
    return {
        "format": FORMAT,
        "kernel": to_dict(kernel),
        "tuned_kernel": None,
        "settings": settings,
        "fingerprint": fingerprint(target),
        "versions": {name: version(name) for name in ("ggmc", "torch", "numpy", "zarr")}
        | {"python": platform.python_version()},
        "machine": {"platform": platform.platform(), "device": str(target.device), "cpus": os.cpu_count()},
        "threads_of_torch": torch.get_num_threads(),
        "git": _git_revision(),
        "attributes": attributes,
        "warnings": [],
        "drawn": 0,
    }


def _git_revision() -> str | None:
    """The commit of the program that runs, with a mark if files were changed since; None where there is none."""
    script = Path(sys.argv[0]).resolve() if sys.argv and sys.argv[0] else Path.cwd()
    folder = script.parent if script.is_file() else Path.cwd()
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None
