"""The command line, as tests call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from ggmc.cli.app import app

ROOT = Path(__file__).parents[2]
STUDIES = Path(__file__).parent / "studies"
EXAMPLES = ROOT / "examples" / "studies"


class Result:
    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err

    def json(self) -> dict[str, Any]:
        return json.loads(self.out)


def ggmc(*words: object) -> Result:
    """A command, in this process."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Result(done.exit_code, done.stdout, done.stderr)


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def started(*words: object, folder: Path | None = None, **more: str) -> subprocess.Popen[str]:
    """A command, in a process of its own."""
    command = [sys.executable, "-m", "ggmc.cli", *map(str, words)]
    return subprocess.Popen(
        command, cwd=folder, env=environment(**more), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def study(folder: Path, text: str, name: str = "study.toml") -> Path:
    """A study file."""
    file = folder / name
    file.write_text(text)
    return file
