"""Reports without a decision: divergences between reports, steps out of the support, and what no test applies to."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ggmc.dynamics import metropolis
from ggmc.dynamics.state import State

F64 = torch.float64
ONE = torch.ones((), dtype=F64)
NO_WORK = torch.zeros(1, dtype=F64)


def potential(x: Tensor) -> Tensor:
    """U = x up to 5, and infinite beyond."""
    return torch.where(x[:, 0] > 5, torch.inf, x[:, 0])


def at(x: float, known: float | None = None, untested_work: float | None = None) -> State:
    row = torch.full((1, 1), x, dtype=F64)

    def number(value: float | None) -> Tensor | None:
        return None if value is None else torch.tensor([value], dtype=F64)

    return State(row, row, number(known), None, number(untested_work))


def test_a_step_out_of_the_support_is_not_kept() -> None:
    """The chain stays at 2, whose potential is 2, not that of the last report."""
    start = at(2.0, known=1.0, untested_work=0.5)
    after, info = metropolis.monitor(start, at(9.0), NO_WORK, 1, ONE, potential)
    assert after.position.item() == 2.0
    assert after.momentum.item() == -2.0
    assert after.potential is not None
    assert after.potential.item() == 2.0
    assert info.log_accept.item() == -math.inf
    assert info.diverging.item()


def test_a_divergence_between_reports_is_remembered_until_the_next() -> None:
    after, info = metropolis.monitor(at(2.0, known=2.0), at(math.nan), NO_WORK, 1, ONE, None)
    assert info.diverging.item()
    assert not info.accepted.item()
    assert info.log_accept.isnan().item()
    after, info = metropolis.monitor(after, at(3.0), NO_WORK, 1, ONE, potential)
    assert info.log_accept.item() == -math.inf
    assert after.untested_work is None
    assert after.potential is not None
    assert after.potential.item() == 3.0


def test_a_divergence_at_a_report_has_the_potential_of_where_the_chain_is() -> None:
    start = at(2.0, known=1.0, untested_work=0.5)
    end = at(math.nan, known=math.nan)  # an exact guide's end brings its U
    after, _ = metropolis.monitor(start, end, NO_WORK, 1, ONE, potential)
    assert after.potential is not None
    assert after.potential.item() == 2.0


def test_work_between_reports_adds_up() -> None:
    state = at(2.0, known=2.0)
    for work in (0.25, 0.5):
        state, info = metropolis.monitor(state, at(2.5), torch.tensor([work], dtype=F64), 1, ONE, None)
        assert info.energy_error.isnan().item()
        assert info.work.item() == work
        assert info.steps == 1
        assert info.accepted.tolist() == [True]
    assert state.untested_work is not None
    assert state.untested_work.item() == 0.75
    assert state.potential is not None
    assert state.potential.item() == 2.0  # still that of the last report
    end = at(3.0, untested_work=0.75)  # a trajectory carries the work from its start to its end
    after, info = metropolis.monitor(state, end, torch.tensor([1.0], dtype=F64), 1, ONE / 2, potential)
    assert after.untested_work is None
    assert info.energy_error.item() == 3.0 - 2.0 + 1.75
    assert info.log_accept.item() == -2 * 2.75


def test_a_huge_energy_error_is_called_divergent() -> None:
    row = torch.zeros(2, 1, dtype=F64)
    start = State(row, row, torch.zeros(2, dtype=F64))
    end = State(row, row, torch.tensor([400.0, 600.0], dtype=F64))
    _, info = metropolis.monitor(start, end, torch.zeros(2, dtype=F64), 1, ONE / 2, lambda p: p[:, 0])
    assert info.diverging.tolist() == [False, True]


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_where_no_test_applies_alpha_is_zero_and_nothing_diverges(temperature: float) -> None:
    after, info = metropolis.monitor(
        at(2.0, known=2.0), at(1.0), NO_WORK, 1, torch.tensor(temperature, dtype=F64), potential, testable=False
    )
    assert info.log_accept.item() == -math.inf
    assert info.accepted.item()
    assert not info.diverging.item()
    assert after.position.item() == 1.0
    assert after.potential is not None
    assert after.potential.item() == 1.0


def test_each_chain_has_its_own_temperature() -> None:
    row = torch.zeros(3, 1, dtype=F64)
    start = State(row, row, torch.zeros(3, dtype=F64))
    end = State(row, row, torch.tensor([3.0, 3.0, -3.0], dtype=F64))
    temperature = torch.tensor([1.0, 0.5, 0.0], dtype=F64)
    _, info = metropolis.monitor(start, end, torch.zeros(3, dtype=F64), 1, temperature, lambda p: p[:, 0])
    assert info.log_accept.tolist() == [-3.0, -6.0, math.inf]


def test_without_temperature_only_a_fall_is_certain() -> None:
    """Down, level, up, and from outside the support to outside, where nothing is known."""
    row = torch.zeros(4, 1, dtype=F64)
    start = State(row, row, torch.tensor([2.0, 2.0, 2.0, math.inf], dtype=F64))
    end = State(row, row, torch.tensor([1.0, 2.0, 3.0, math.inf], dtype=F64))
    outside = torch.tensor([1.0, 2.0, 3.0, math.inf], dtype=F64)
    _, info = metropolis.monitor(start, end, torch.zeros(4, dtype=F64), 1, 0 * ONE, lambda p: outside)
    assert info.log_accept.tolist() == [math.inf, 0.0, -math.inf, -math.inf]
