"""Scripts run by torchrun, on two ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command(script: Path, *arguments: object, ranks: int = 2) -> list[str]:
    """The command line: a free port of its own, so that tests can run side by side."""
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    return [*run, str(script), *map(str, arguments)]


def environment() -> dict[str, str]:
    """One thread for each rank, and tests.support and this library within reach."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}


def torchrun(folder: Path, program: str, *arguments: object, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    """Run a program on several ranks.

    Args:
        folder: Where it is written to.
        program: Its text.
        arguments: Its arguments.
        ranks: How many.
    """
    script = folder / "script.py"
    script.write_text(textwrap.dedent(program))
    return subprocess.run(
        command(script, *arguments, ranks=ranks),
        env=environment(), cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
