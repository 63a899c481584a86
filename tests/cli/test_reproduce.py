"""`ggmc reproduce`: graphs of tasks with several workers, modules, and workers that are killed."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ggmc.cli import reproducing
from ggmc.cli.places import PACKAGE
from ggmc.cli.workers import Failed, Worker, _what_failed, carry_out, free_locks
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
def main(size, out):
    file = out / "numbers.json"
    file.write_text(size)
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


def test_a_module(experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = reproducing.reproduce("single", "small", tmp_path / "out", folder=experiments)
    assert place.read_text() == "small"
    assert "not used" not in capsys.readouterr().err
    reproducing.reproduce("single", "small", tmp_path / "out", "data.npz", 3, folder=experiments)
    assert "single loads no data and runs in one process: --data and --workers are not used." in capsys.readouterr().err
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


def test_what_a_graph_is_told(experiments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(reproducing, "carry_out", lambda *given: seen.extend(given))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.npz").touch()
    place = reproducing.reproduce("squares", "full", data="data.npz", workers=3, folder=experiments)
    assert place == tmp_path / "out" / "squares" / "full"
    data = str(tmp_path / "data.npz")
    variables = {"GGMC_SIZE": "full", "GGMC_OUT": str(place), "GGMC_CIFAR10": data}
    assert seen == [experiments / "squares" / "jugfile.py", place, 3, variables, [tmp_path, PACKAGE.parent]]


def test_results_are_figures_and_numbers(tmp_path: Path) -> None:
    for name in ("b.png", "a.json", "c.html", "notes.txt", "worker.log"):
        (tmp_path / name).touch()
    (tmp_path / "runs.md").mkdir()
    assert [file.name for file in reproducing.results(tmp_path)] == ["a.json", "b.png", "c.html"]


def test_only_the_locks_of_the_dead_worker_are_freed(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    here, text = socket.gethostname(), "PID {} on HOSTNAME {}\nsome more\n"
    owners = {"a": (12, here), "b": (123, here), "c": (12, "elsewhere"), "d": (12, here)}
    for name, owner in owners.items():
        (tmp_path / "locks" / f"{name}.lock").write_text(text.format(*owner))
    assert free_locks(tmp_path, 12) == 2
    assert sorted(file.stem for file in (tmp_path / "locks").iterdir()) == ["b", "c"]


def test_which_workers_failed_and_how(tmp_path: Path) -> None:
    def worker(number: int, code: int, text: str) -> Any:
        log = tmp_path / f"worker-{number}.log"
        log.write_text(text)
        return SimpleNamespace(number=number, log=log, process=SimpleNamespace(returncode=code))

    crew = [worker(1, 0, "fine"), worker(2, 1, "first\nlast line\n"), worker(3, -9, ""), worker(4, 1, "last line\n")]
    assert _what_failed(crew, 3, 7).splitlines() == [
        "3 of 7 tasks are done.",
        "  Worker 2 ended with code 1: last line",
        "  Worker 3 was killed by signal 9",
        "  Worker 4 ended with code 1",
        f"  All messages are in {tmp_path}. Run the same command again to go on.",
    ]
