"""Callbacks: what they see of a run, and the progress bar."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.dynamics.state import Info
from ggmc.sampling.callbacks import Moment, Progress
from tests.support.gaussians import gaussian
from tests.support.logistic import logistic


def test_progress_shows_acceptance_and_divergences(capsys: pytest.CaptureFixture[str]) -> None:
    ggmc.sample(gaussian(), draws=30, warmup=40, chains=3, progress=True)
    shown = capsys.readouterr().err
    assert "sampling" in shown
    assert "acceptance" in shown
    assert "divergences" in shown
    ggmc.sample(gaussian(), draws=30, warmup=40, chains=3, progress=False)
    assert capsys.readouterr().err == ""


def test_callbacks_see_every_trajectory() -> None:
    seen: list[Moment] = []
    trace = ggmc.sample(gaussian(), draws=30, warmup=40, progress=False, callback=seen.append)
    assert [moment.iteration for moment in seen] == list(range(1, 71))
    assert [moment.warming for moment in seen] == [True] * 40 + [False] * 30
    assert seen[-1].step_size == trace.kernel.step_size
    assert torch.equal(seen[-1].state.position[:, 0], torch.from_numpy(trace["theta"][:, -1, 0]))


def test_a_callback_sees_what_the_trace_reports() -> None:
    """Draw by draw: also where sums stop early, and log α of rejected trajectories is not known exactly."""
    target = logistic(400, bound=0.0)
    seen: list[Moment] = []
    kernel = ggmc.GGMC(0.05, guide=ggmc.Minibatch(100, "iid"), steps=4)
    trace = ggmc.sample(target, kernel, draws=40, warmup=5, progress=False, callback=seen.append)
    drawn = [moment for moment in seen if not moment.warming]
    assert len(drawn) == 40
    assert 0 < trace.stats["is_accepted"].mean() < 1
    for i, moment in enumerate(drawn):
        assert moment.acceptance == pytest.approx(trace.stats["acceptance_rate"][:, i].mean())
        assert np.array_equal(moment.state.position.numpy(), trace.positions[:, i])
        assert np.array_equal(moment.info.accepted.numpy(), trace.stats["is_accepted"][:, i])
        assert moment.step_size == 0.05
        assert moment.layout is target.layout


def test_the_mass_and_the_step_size_a_callback_sees_are_those_of_warm_up_and_then_of_the_kernel() -> None:
    seen: list[Moment] = []
    trace = ggmc.sample(gaussian(), draws=5, warmup=100, progress=False, callback=seen.append)
    assert len({moment.step_size for moment in seen[:100]}) > 50
    assert {moment.step_size for moment in seen[100:]} == {trace.kernel.step_size}
    assert all(moment.mass == trace.kernel.mass for moment in seen[99:])
    assert seen[0].mass != trace.kernel.mass


def test_the_bar_counts_warm_up_and_draws_apart(capsys: pytest.CaptureFixture[str]) -> None:
    def info(log_accept: float, diverging: bool) -> Any:
        numbers = torch.full((2,), log_accept, dtype=torch.float64)
        flags = torch.full((2,), diverging)
        return Info(numbers, ~flags, flags, -numbers, numbers, 1)

    with Progress(4, True) as bar:
        bar.update(info(-torch.inf, True), True)
        bar.update(info(0.0, False), False)
        bar.update(info(torch.nan, False), False)  # not reported: not counted
        bar.update(info(-torch.inf, True), False)
    shown = capsys.readouterr().err
    assert "acceptance 0.50, 2 divergences" in shown
