"""What is stored with the draws of a run: settings, versions, machine, git revision, the target's fingerprint."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import torch

from ggmc.plain import PlainDict, Tree
from ggmc.targets.base import Target
from ggmc.targets.fingerprint import fingerprint
from ggmc.trace.run_folder import FORMAT


def described(target: Target, kernel: dict[str, Tree], settings: PlainDict, attributes: dict[str, Tree]) -> PlainDict:
    """What is stored with the draws, as plain values.

    Args:
        target: Gives its fingerprint.
        kernel: The settings of the kernel, as the user gave it.
        settings: The arguments of the run.
        attributes: Those of the trace.
    """
    return {
        "format": FORMAT,
        "kernel": kernel,
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
        "remarks": [],
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
