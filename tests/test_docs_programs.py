"""The programs in docs/runs.md, the blocks with a file's name, run as is said beside them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ggmc
from tests.support.torchrun import environment, torchrun

RUNS = Path(__file__).parent.parent / "docs" / "runs.md"
PROGRAM = re.compile(r"^```python (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = dict(PROGRAM.findall(RUNS.read_text()))

LOST = """
import os, runpy
from ggmc.sampling.chains import Chains

usual = Chains.advance
def advance(self):
    if os.environ["RANK"] == "1" and self.drawn == 40:
        os._exit(7)
    return usual(self)
Chains.advance = advance
runpy.run_path("sampled.py", run_name="__main__")
"""

KILLED = """
import os, runpy, signal
from ggmc.optim import Collector

usual = Collector.add
def add(self, info):
    if self.done == 55:
        os.kill(os.getpid(), signal.SIGKILL)
    usual(self, info)
    if self.done == 40:
        self.checkpoint()
Collector.add = add
runpy.run_path("train.py", run_name="__main__")
"""


def run(folder: Path, *arguments: str, code: int = 0) -> None:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment(), cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr


def run_here(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, whose imports are done."""
    monkeypatch.chdir(folder)
    exec(compile(PROGRAMS[program], program, "exec", dont_inherit=True), {"__name__": "__main__"})


def folder_with(tmp_path: Path, name: str, *programs: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    for program in programs:
        (folder / program).write_text(PROGRAMS[program])
    return folder


def rows(folder: Path) -> np.ndarray:
    return np.asarray(ggmc.load(folder).positions)


def test_there_are_programs() -> None:
    assert set(PROGRAMS) == {"sampled.py", "jugfile.py", "merged.py", "train.py"}


@pytest.mark.slow
def test_on_two_ranks_as_in_one_process_and_after_a_lost_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, two, lost = (folder_with(tmp_path, name, "sampled.py") for name in ("alone", "two", "lost"))
    run_here(alone, "sampled.py", monkeypatch)
    done = torchrun(two, PROGRAMS["sampled.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("r_hat") == 1  # the first rank alone prints
    done = torchrun(lost, LOST)
    assert done.returncode != 0
    assert "exitcode" in done.stderr  # as torchrun reports the rank that was lost
    done = torchrun(lost, PROGRAMS["sampled.py"])  # the same command again
    assert done.returncode == 0, done.stderr
    whole = rows(two / "runs/sampled")
    assert whole.shape == (4, 100, 3)
    assert rows(alone / "runs/sampled").shape == whole.shape  # the same numbers only where nothing is tuned
    np.testing.assert_array_equal(rows(lost / "runs/sampled"), whole)


@pytest.mark.slow
def test_two_ranks_with_chains_of_their_own(tmp_path: Path) -> None:
    program = PROGRAMS["sampled.py"].replace("distributed.init()", 'distributed.init(split="chains")')
    assert program != PROGRAMS["sampled.py"]
    done = torchrun(tmp_path, program)
    assert done.returncode == 0, done.stderr
    found = ggmc.load(tmp_path / "runs/sampled")
    assert (found.num_chains, found.num_draws, len(found.attributes["kernels"])) == (4, 100, 2)


def test_a_worker_does_what_the_jugfile_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(tmp_path, "jug", "jugfile.py", "merged.py")
    run(folder, "-m", "jug.jug", "execute", "jugfile.py")
    run_here(folder, "merged.py", monkeypatch)
    assert (folder / "jugfile.jugdata").is_dir()
    for width in (5, 20):
        assert ggmc.load(folder / f"runs/{width}").num_draws == 50


def test_a_killed_training_loop_goes_on(tmp_path: Path) -> None:
    whole, killed = (folder_with(tmp_path, name, "train.py") for name in ("whole", "killed"))
    run(whole, "train.py")
    (killed / "killed.py").write_text(KILLED)
    run(killed, "killed.py", code=-9)
    run(killed, "train.py")
    found = rows(whole / "runs/net")
    assert found.shape[:2] == (1, 100)
    np.testing.assert_array_equal(rows(killed / "runs/net"), found)
    accepted = ggmc.load(whole / "runs/net").stats["acceptance_rate"]
    assert accepted.mean() > 0.5  # the loop of the page is one that works


def test_redis_is_named_as_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server: Jug takes the name for a Redis server's, and reads host and port from it."""
    from jug.backends import redis_store
    from jug.backends.select import select

    (name,) = re.findall(r"--jugdir=(\S+)", RUNS.read_text())
    seen: list[str] = []
    monkeypatch.setattr(redis_store, "redis_store", seen.append)
    select(name)
    assert seen == [name]
    match = redis_store._redis_urlpat.match(name)
    assert match is not None
    assert (match["host"], match["port"]) == ("host", "6379")
