"""What the command line prints, by value: progress, outcomes, JSON, and the facts of this machine."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ggmc
from ggmc.cli import information, output, running, workers
from ggmc.cli.running import Outcome
from ggmc.cli.study.read import read
from tests.support.command import STUDIES, study
from tests.support.traces import trace_of, white_noise


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was said beside the results."""
    lines: list[str] = []
    for room in (output, workers):
        monkeypatch.setattr(room, "tell", lines.append)
    return lines


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that is set by hand."""
    set_to = SimpleNamespace(now=100.0)
    monkeypatch.setattr(output.time, "monotonic", lambda: set_to.now)
    return set_to


def test_lines_say_how_far_a_resumed_run_is(told: list[str], clock: SimpleNamespace) -> None:
    lines: Any = output.Lines(100)
    for seconds, iteration, warming in (
        (1, 11, True),
        (9.9, 19, True),
        (20, 30, True),
        (29, 50, False),
        (40, 70, False),
    ):
        clock.now = 100 + seconds
        lines(SimpleNamespace(iteration=iteration, warming=warming))
    assert told == [
        "warm-up: 30 of 100 trajectories, about 1 min 10 s left",  # twenty in twenty seconds, seventy to go
        "sampling: 70 of 100 trajectories, about 20 s left",
    ]


def test_progress_of_tasks(told: list[str], clock: SimpleNamespace) -> None:
    progress = workers._Progress()
    for seconds, done, total in ((0, 0, 0), (1, 4, 20), (5, 5, 20), (12, 8, 20)):
        clock.now = 100 + seconds
        progress.show(done, total)
    assert told == ["tasks: 4 of 20", "tasks: 8 of 20, about 36 s left"]  # four in twelve seconds, twelve to go


def test_where_there_is_no_terminal_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert output.progress(10, False) == (False, None)
    monkeypatch.setattr(output.sys, "stderr", SimpleNamespace(isatty=lambda: False))
    bar, lines = output.progress(10, True)
    assert (bar, type(lines)) == (False, output.Lines)
    monkeypatch.setattr(output.sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert output.progress(10, True) == (True, None)


def test_json_has_null_for_what_is_not_finite() -> None:
    given = {"a": math.nan, "b": [1.5, math.inf, {"c": (-math.inf, "é", None, True)}]}
    assert json.loads(output.as_json(given)) == {"a": None, "b": [1.5, None, {"c": [None, "é", None, True]}]}
    assert "é" in output.as_json(given)


def test_times() -> None:
    assert [output.duration(s) for s in (0.4, 59.4, 59.6, 3599, 3600)] == [
        "0 s",
        "59 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
    ]


def test_messages_of_the_library_are_lines_but_for_a_traces_warnings(told: list[str]) -> None:
    log = logging.getLogger("ggmc")
    with output.messages_shown():
        log.warning("%d draws", 3)
        log.warning("%s", "a finding")
        log.info("nothing")
    assert told == ["3 draws"]
    assert log.propagate


# Outcomes


def outcome(wanted: int, thin: int = 1, draws: int = 5, **stats: Any) -> Outcome:
    trace = trace_of(white_noise(2, draws), kernel=ggmc.HMC(0.25, 3), **stats)
    trace.warnings, trace.attributes = ["Beware."], {"sampling_time": 75.2}
    return Outcome(Path("runs/a b"), trace, wanted, thin)


def test_what_a_run_has_come_to() -> None:
    rates = np.array([[0.5, 0.7, np.nan, 0.9, 1.0], [0.1] * 5])
    facts = outcome(5, acceptance_rate=rates, diverging=np.arange(10).reshape(2, 5) > 6).to_dict()
    expected = {
        "run": "runs/a b", "complete": True, "chains": 2, "draws": 5, "wanted_draws": 5, "thin": 1, "tested": True,
        "kernel": "HMC", "step_size": 0.25, "acceptance_rate": pytest.approx((3.1 + 0.5) / 9), "divergences": 3,
        "seconds": 75.2, "warnings": ["Beware."],
        "next": ["ggmc report 'runs/a b'", "ggmc resume 'runs/a b' --draws 10"],
    }  # fmt: skip
    assert facts == expected
    assert outcome(5, acceptance_rate=np.nan).to_dict()["acceptance_rate"] is None


@pytest.mark.parametrize(
    ("wanted", "draws", "complete", "longer"),
    [(20, 5, True, " --draws 40"), (22, 5, True, " --draws 44"), (20, 8, True, " --draws 64"), (24, 5, False, "")],
)
def test_draws_of_a_thinned_run_count_before_thinning(wanted: int, draws: int, complete: bool, longer: str) -> None:
    found = outcome(wanted, thin=4, draws=draws)
    assert found.complete == complete
    assert found.next_commands()[1] == f"ggmc resume 'runs/a b'{longer}"


def test_an_outcome_as_text() -> None:
    lines = str(outcome(24, thin=4)).splitlines()
    assert lines == [
        "Stopped early: runs/a b",
        "  draws        2 chains of 5 draws in 1 min 15 s, every 4th kept; 6 were asked for",
        "  sampler      HMC, exact: every trajectory was tested",
        "  acceptance   0.80",
        "  divergences  0",
        "  warnings     1",
        "  - Beware.",
        "Next:",
        "  ggmc report 'runs/a b'",
        "  ggmc resume 'runs/a b'",
    ]


# What `ggmc run` asks for

RUN = """
[run]
draws = 12
warmup = 3
chains = 5
seed = 9
target_accept = 0.7
anneal = 2.5
checkpoint_every = 30
precision = "float32"
thin = 4
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `ggmc.sample` is asked for."""
    seen: dict[str, Any] = {}

    def sample(target: Any, kernel: Any, draws: int, warmup: int, **options: Any) -> Any:
        seen.update(options, target=target, draws=draws, warmup=warmup)
        return trace_of(white_noise(2, 5))

    monkeypatch.setattr(running, "sample", sample)
    return seen


def test_every_setting_of_a_run_reaches_the_sampler(asked: dict[str, Any], tmp_path: Path) -> None:
    tables = (STUDIES / "tiny.toml").read_text().split("[run]")[0]
    found = running.begin(read(study(tmp_path, tables + RUN)).with_run(out=str(tmp_path / "run")), shown=False)
    assert (found.wanted, found.thin) == (12, 4)
    names = ("draws", "warmup", "chains", "seed", "target_accept", "anneal", "progress", "callback")
    assert [asked[name] for name in names] == [12, 3, 5, 9, 0.7, 2.5, False, None]
    out = asked["out"]
    assert (out.path, out.checkpoint_every, out.precision, out.thin) == (tmp_path / "run", 30, "float32", 4)
    stored = out.attributes["study"]
    assert stored["tables"]["run"] == read(tmp_path / "study.toml").table("run") | {"out": str(tmp_path / "run")}
    assert stored["folder"] == str(tmp_path)


def test_what_the_command_line_says_comes_first(asked: dict[str, Any], tmp_path: Path) -> None:
    tables = (STUDIES / "tiny.toml").read_text().split("[run]")[0]
    given = read(study(tmp_path, tables + RUN)).with_run(out=str(tmp_path / "run"), seed=0, draws=8)
    assert running.begin(given, shown=False).wanted == 8
    assert (asked["seed"], asked["draws"], asked["chains"]) == (0, 8, 5)
    plain = read(study(tmp_path, tables)).with_run(out=str(tmp_path / "other"))
    assert running.begin(plain, shown=False).wanted == 1000
    assert (asked["draws"], asked["warmup"]) == (1000, 1000)


# This machine


def test_facts_as_text() -> None:
    facts = {
        "versions": {"ggmc": "0.1", "zarr": None},
        "platform": "Linux",
        "devices": ["cpu", "mps"],
        "threads": 3,
        "cpus": 8,
        "extras": {"cli": True, "jug": False},
        "data": {"GGMC_MNIST": "/data", "GGMC_UCI": None},
    }
    assert information.described(facts).splitlines() == [
        "Versions",
        "  ggmc         0.1",
        "  zarr         not installed",
        "Machine",
        "  system       Linux",
        "  devices      cpu, mps",
        "  threads      3 of torch, on 8 processors",
        "Extras",
        "  cli          installed",
        "  jug          not installed: pip install 'ggmc[jug]'",
        "Data: where they are looked for when a study gives no path",
        "  GGMC_MNIST   /data",
        "  GGMC_UCI     not set",
    ]
