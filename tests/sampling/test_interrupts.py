"""Signals while a run goes on: what was drawn is kept, and the program's own handlers are restored."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggmc
from ggmc.sampling.interrupts import Interrupts
from ggmc.sampling.run import Run
from ggmc.trace import diagnostics
from tests.support.gaussians import gaussian

SHORT: dict[str, Any] = {"draws": 200, "warmup": 0, "chains": 2, "progress": False}


def at(draw: int, *numbers: int) -> Any:
    def callback(moment: Any) -> None:
        if moment.iteration == draw:
            for number in numbers:
                os.kill(os.getpid(), number)

    return callback


def test_the_first_one_ends_the_trajectory_and_the_second_stops_at_once() -> None:
    kernel = ggmc.HMC(0.5, 3)
    once = ggmc.sample(gaussian(), kernel, **SHORT, callback=at(70, signal.SIGINT))
    twice = ggmc.sample(gaussian(), kernel, **SHORT, callback=at(70, signal.SIGINT, signal.SIGINT))
    whole = ggmc.sample(gaussian(), kernel, **SHORT)
    for trace in (once, twice):
        assert trace.num_draws == 70
        assert (trace.positions == whole.positions[:, :70]).all()


def test_one_during_the_diagnosis_loses_only_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: Any) -> list[str]:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("Ctrl-C had no effect")

    monkeypatch.setattr(diagnostics, "check", check)
    trace = ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT)
    assert trace.num_draws == 200
    assert "could not be diagnosed: KeyboardInterrupt" in trace.warnings[0]


def test_a_termination_during_the_diagnosis_or_the_last_write_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated(*_: Any) -> list[str]:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("it had no effect")

    usual, written = Run.checkpoint, 0

    def checkpoint(self: Run) -> None:
        nonlocal written
        written += 1
        if written == 2:  # the last one
            os.kill(os.getpid(), signal.SIGTERM)
        usual(self)

    with monkeypatch.context() as changed:
        changed.setattr(diagnostics, "check", terminated)
        with pytest.raises(SystemExit) as error:
            ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT, out=tmp_path / "diagnosis")
    assert error.value.code == 143
    monkeypatch.setattr(Run, "checkpoint", checkpoint)
    with pytest.raises(SystemExit) as error:
        ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT, out=tmp_path / "write")
    assert error.value.code == 143
    assert ggmc.load(tmp_path / "diagnosis").num_draws == ggmc.load(tmp_path / "write").num_draws == 200


def test_an_exit_carries_the_draws() -> None:
    def leave(moment: Any) -> None:
        if moment.iteration == 9:
            raise SystemExit(3)

    with pytest.raises(SystemExit) as error:
        ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT, callback=leave)
    assert error.value.code == 3
    assert error.value.trace.num_draws == 9  # pyright: ignore[reportAttributeAccessIssue]


def test_what_was_drawn_before_an_error_is_on_disk(tmp_path: Path) -> None:
    def fail(moment: Any) -> None:
        if moment.iteration == 9:
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT, callback=fail, out=tmp_path / "run")
    whole = ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT)
    found = ggmc.load(tmp_path / "run").positions
    assert (np.asarray(found) == whole.positions[:, :9]).all()
    assert found.shape[1] == 9


def test_handlers_are_restored_and_those_of_the_program_are_kept() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT, callback=at(3, signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    seen: list[int] = []
    own = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        trace = ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT, callback=at(3, signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, own)
    assert trace.num_draws == 200
    assert seen == [signal.SIGINT]


def test_while_held_signals_are_noted_only() -> None:
    with Interrupts() as interrupts:
        with interrupts.held():
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
        assert interrupts.asked is signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_without_a_folder_termination_is_left_to_the_system() -> None:
    with Interrupts():
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with Interrupts(terminations=True):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_have_no_signals() -> None:
    found: list[Any] = []

    def work() -> None:
        with Interrupts() as interrupts:
            found.append(interrupts.asked)
        found.append(ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), **SHORT).num_draws)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [None, 200]
