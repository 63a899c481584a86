"""Pairs of features: every two of schedule, mass, temperature, guide, friction, word and early stop meet in a run."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc.dynamics.schedule import Along, Flat, Over
from ggmc.targets.potential import SumOverData
from ggmc.targets.share import Share
from tests.support.invariance import violations
from tests.support.pair_table import IDS, TABLE, TEMPERATURES, case, exact_draws, kernel_of, path
from tests.support.pairs import Row

F64 = torch.float64


@pytest.mark.parametrize("row", TABLE, ids=IDS)
def test_exact_draws_stay_exact(row: Row) -> None:
    assert violations(case(TEMPERATURES[row["temperature"]]), kernel_of(row), trajectories=6, chains=30_000) == {}


def test_the_draws_that_start_it_are_exact() -> None:
    """Their mean log likelihood ratio against a grid, at each temperature."""
    grid = torch.linspace(-9, 9, 1201, dtype=F64)
    points = torch.cartesian_prod(grid, grid)
    for temperature in TEMPERATURES.values():
        this = case(temperature)
        weights = torch.softmax(-this.target.potential(points) / temperature, 0)
        draws = exact_draws(30_000, temperature)
        for moment in (lambda p: p, lambda p: p**2, lambda p: p[:, :1] * p[:, 1:]):
            truth = (weights[:, None] * moment(points)).sum(0)
            error = moment(draws).std(0) / math.sqrt(len(draws))
            assert ((moment(draws).mean(0) - truth).abs() < 5 * error).all()


def test_the_steps_are_long_enough_for_the_test_to_matter() -> None:
    """Without the test most rows show their bias."""
    rows = [row for row in TABLE if row["guide"] != "exact"][::5]
    biased = [
        violations(case(TEMPERATURES[row["temperature"]]), replace(kernel_of(row), adjust=False), 6, 30_000) != {}
        for row in rows
    ]
    assert sum(biased) > len(biased) / 2


def test_the_early_stop_changes_no_decision_whatever_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.targets.potential.LEAST_CHUNK", 1)
    stream, stopped = SumOverData._stream, 0

    def counting(self: Any, share: Share, position: Tensor, limit: Tensor | None) -> Tensor:
        nonlocal stopped
        found = stream(self, share, position, limit)
        if limit is not None:
            stopped += not torch.equal(found, stream(self, share, position, None))
        return found

    monkeypatch.setattr(SumOverData, "_stream", counting)
    by_row: dict[str, int] = {}
    for row, name in zip(TABLE, IDS, strict=True):
        stopped = 0
        assert torch.equal(path(row, early_stop=True), path(row, early_stop=False)), name
        by_row[name] = stopped
    assert sum(count > 0 for count in by_row.values()) > len(by_row) / 2  # it did stop


def test_no_schedule_is_the_flat_one() -> None:
    assert Along().keeps_temperature
    assert Over(3).temperature == Flat()
