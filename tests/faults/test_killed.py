"""A run that is killed at any moment and resumed is the run that was not killed, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


SLOW = [("minibatches", 15), ("recut", 15), ("control variates", 15), ("optim", 15)]


@pytest.mark.parametrize(
    ("case", "kills"),
    [("exact", 50)] + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW],
)
def test_killed_and_resumed(case: str, kills: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.killing", case, str(tmp_path), str(kills)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert f"killed {kills} times" in done.stdout
    for phase in ("reading", "writing", "checkpoint", "warm-up", "trajectory", "diagnosis") if kills == 50 else ():
        assert f"'{phase}'" in done.stdout
