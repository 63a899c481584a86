"""`ggmc reproduce`: graphs of tasks with several workers, modules, and workers that are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from ggmc.cli import reproducing
from ggmc.cli.places import PACKAGE
from ggmc.cli.workers import Failed, Worker, carry_out
from ggmc.errors import BadInput
from tests.support.command import ggmc

JUGFILE = """
import os, time
from pathlib import Path
from jug import Task

out = Path(os.environ["GGMC_OUT"])
mode = os.environ["GGMC_SIZE"]

def square(number):
    if mode == "small" and number == 1:
        raise ValueError("task [one] fails")
    mark = out / "mark"
    if mode == "full" and number == 1 and not mark.exists():
        mark.write_text(str(os.getpid()))
        time.sleep(600)
    return number**2

def total(numbers):
    (out / "numbers.json").write_text(str(sum(numbers)))
    return sum(numbers)

squares = [Task(square, number) for number in (1, 2)]
finished = Task(total, squares)
"""
MODULE = """
def main(size, out, data, workers):
    file = out / "numbers.json"
    file.write_text(f"{size} {data} {workers}")
    return file
"""


@pytest.fixture
def experiments(tmp_path: Path) -> Path:
    folder = tmp_path / "own_experiments"
    (folder / "squares").mkdir(parents=True)
    (folder / "squares" / "jugfile.py").write_text(JUGFILE)
    (folder / "single.py").write_text(MODULE)
    (folder / "empty.py").write_text("")
    (folder / "__init__.py").write_text("")
    return folder


def all_tasks(experiments: Path, out: Path, size: str, workers: int, started=None) -> int:
    out.mkdir(exist_ok=True)
    variables = {"GGMC_SIZE": size, "GGMC_OUT": str(out)}
    jugfile = experiments / "squares" / "jugfile.py"
    return carry_out(jugfile, out, workers, variables, [PACKAGE.parent], started)


def once_marked(out: Path, then) -> threading.Thread:
    def wait() -> None:
        while not (out / "mark").exists() or not (out / "mark").read_text():
            time.sleep(0.05)
        then(int((out / "mark").read_text()))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_graph(experiments: Path, tmp_path: Path, capsys) -> None:
    assert reproducing.names(experiments) == ["single", "squares"]
    out = tmp_path / "out"
    place = reproducing.reproduce("squares", "tiny", out, workers=2, folder=experiments)
    assert place == out
    assert (out / "numbers.json").read_text() == "5"
    assert reproducing.results(out) == [out / "numbers.json"]
    assert "All 3 tasks are done." in capsys.readouterr().err


def test_a_worker_that_is_killed_is_started_again(experiments: Path, tmp_path: Path, capsys) -> None:
    out, crew = tmp_path / "out", []

    def started(workers: list[Worker]) -> None:
        crew.extend(workers)
        once_marked(out, lambda pid: os.kill(pid, signal.SIGKILL))

    assert all_tasks(experiments, out, "full", 1, started) == 3
    assert crew[0].restarted
    assert "Worker 1 was killed, and is started again." in capsys.readouterr().err
    assert (out / "numbers.json").read_text() == "5"


def test_ctrl_c_ends_the_workers_and_the_next_call_goes_on(experiments: Path, tmp_path: Path, capsys) -> None:
    out, crew = tmp_path / "out", []

    def started(workers: list[Worker]) -> None:
        crew.extend(workers)
        once_marked(out, lambda _: os.kill(os.getpid(), signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        all_tasks(experiments, out, "full", 1, started)
    assert crew[0].process.returncode is not None
    assert not list((out / "jugdata" / "locks").glob("*.lock"))
    assert "Stopping: each worker ends its trajectory" in capsys.readouterr().err
    assert all_tasks(experiments, out, "full", 1) == 3


def test_a_task_that_fails(experiments: Path, tmp_path: Path) -> None:
    with pytest.raises(Failed) as error:
        all_tasks(experiments, tmp_path / "out", "small", 1)
    assert "of 3 tasks are done" in str(error.value)
    assert "task [one] fails" in str(error.value)
    assert str(tmp_path / "out" / "logs") in str(error.value)


def test_a_module(experiments: Path, tmp_path: Path) -> None:
    place = reproducing.reproduce("single", "small", tmp_path / "out", "data.npz", 3, folder=experiments)
    assert place.read_text() == "small data.npz 3"
    assert reproducing.results(place) == [place]
    with pytest.raises(BadInput, match="there is no experiment 'empty'"):
        reproducing.reproduce("empty", "small", tmp_path / "out", folder=experiments)


def test_wrong_calls(tmp_path: Path) -> None:
    done = ggmc("reproduce", "integrator")
    assert done.code == 2
    assert "there is no experiment 'integrator': did you mean integrators?" in done.err
    done = ggmc("reproduce", "xyz")
    assert "Known are bias_order, " in done.err
    assert "integrators" in done.err
    done = ggmc("reproduce", "integrators", "--size", "huge")
    assert done.code == 2
    assert "'tiny', 'small', 'full'" in done.err.replace("\n", " ")


def test_data_that_are_not_there(experiments: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no file or folder .*nowhere: give --data cifar-10-python\.tar\.gz"):
        reproducing.reproduce("squares", "tiny", tmp_path / "out", str(tmp_path / "nowhere"), folder=experiments)
    assert not (tmp_path / "out").exists()
