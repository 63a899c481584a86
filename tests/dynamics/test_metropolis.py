"""The one accept/reject, row by row."""

from __future__ import annotations

import math

import pytest
import torch

from ggmc.dynamics import metropolis
from ggmc.dynamics.state import State

F64 = torch.float64


def states(change: list[float]) -> tuple[State, State, torch.Tensor]:
    """Starts, ends whose potential rose by `change`, and no work."""
    n = len(change)
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(6, n, 3, dtype=F64, generator=generator)
    potential = torch.arange(n, dtype=F64)
    start = State(rows[0], rows[1], potential, rows[2])
    end = State(rows[3], rows[4], potential + torch.tensor(change, dtype=F64), rows[5])
    return start, end, torch.zeros(n, dtype=F64)


def number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=F64)


def unused(position: torch.Tensor) -> torch.Tensor:
    raise AssertionError("the end brought its potential")


def test_each_chain_goes_to_its_end_or_to_its_flipped_start() -> None:
    start, end, work = states([-1.0, 0.5, 0.5, 5.0])
    log_uniform = torch.tensor([0.0, -0.51, -0.49, -0.1], dtype=F64)
    after, info = metropolis.decide(start, end, work, 7, number(1.0), log_uniform)
    assert info.accepted.tolist() == [True, True, False, False]
    assert info.steps == 7
    assert after.potential is not None
    assert after.gradient is not None
    for row, accepted in enumerate(info.accepted.tolist()):
        origin = end if accepted else start
        sign = 1 if accepted else -1
        assert torch.equal(after.position[row], origin.position[row])
        assert torch.equal(after.momentum[row], sign * origin.momentum[row])
        assert after.potential[row] == origin.potential[row]  # pyright: ignore[reportOptionalSubscript]
        assert torch.equal(after.gradient[row], origin.gradient[row])  # pyright: ignore[reportOptionalSubscript]


def test_log_alpha_is_minus_energy_error_over_temperature() -> None:
    start, end, _ = states([1.0, -2.0])
    work = torch.tensor([0.5, 0.25], dtype=F64)
    _, info = metropolis.decide(start, end, work, 1, number(0.5), torch.zeros(2, dtype=F64))
    assert info.energy_error.tolist() == pytest.approx([1.5, -1.75])
    assert info.log_accept.tolist() == pytest.approx([-3.0, 3.5])
    assert info.work.tolist() == [0.5, 0.25]


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("what", ["potential inf", "potential -inf", "potential nan", "work", "position", "momentum"])
def test_what_is_not_finite_is_rejected_flipped_and_counted(what: str, adjust: bool) -> None:
    start, end, work = states([-1.0, -1.0])
    if what.startswith("potential"):
        assert end.potential is not None
        end.potential[0] = float(what.split()[1])
    elif what == "work":
        work[0] = math.nan
    else:
        getattr(end, what)[0, 1] = math.inf
    if adjust:
        after, info = metropolis.decide(start, end, work, 1, number(1.0), torch.full((2,), -1e9, dtype=F64))
    else:
        after, info = metropolis.monitor(start, end, work, 1, number(1.0), lambda position: start.potential)  # pyright: ignore
    assert info.accepted.tolist() == [False, True]
    assert info.diverging.tolist() == [True, False]
    assert info.log_accept[0] == -math.inf
    assert torch.equal(after.position[0], start.position[0])
    assert torch.equal(after.momentum[0], -start.momentum[0])
    assert after.potential is not None
    assert after.potential[0] == start.potential[0]  # pyright: ignore[reportOptionalSubscript]


def test_a_huge_energy_error_counts_as_divergent() -> None:
    start, end, work = states([999.0, 1001.0])
    _, info = metropolis.decide(start, end, work, 1, number(1.0), torch.zeros(2, dtype=F64))
    assert info.diverging.tolist() == [False, True]


def test_without_adjustment_every_finite_end_is_kept_and_alpha_still_told() -> None:
    start, end, work = states([3.0, 900.0])
    after, info = metropolis.monitor(start, end, work, 1, number(1.0), unused)
    assert torch.equal(after.position, end.position)
    assert torch.equal(after.momentum, end.momentum)
    assert info.log_accept.tolist() == [-3.0, -900.0]


def test_uniforms_differ_between_chains_and_are_uniform() -> None:
    u = metropolis.log_uniforms(100_000, torch.Generator().manual_seed(0)).exp()
    assert len(u.unique()) > 99_000
    assert u.mean().item() == pytest.approx(0.5, abs=5e-3)
    assert u.min() > 0


def test_uniforms_are_float64_from_the_generator_alone() -> None:
    u = metropolis.log_uniforms(5, torch.Generator().manual_seed(0))
    with torch.device("meta"):
        again = metropolis.log_uniforms(5, torch.Generator("cpu").manual_seed(0))
    assert u.dtype == F64
    assert torch.equal(u, again)
    expected = 1 - torch.rand(5, dtype=F64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(u.exp(), expected)


def test_acceptance_happens_as_often_as_alpha_says() -> None:
    n = 200_000
    start, end, work = states([0.7] * n)
    log_uniform = metropolis.log_uniforms(n, torch.Generator().manual_seed(1))
    _, info = metropolis.decide(start, end, work, 1, number(1.0), log_uniform)
    p = math.exp(-0.7)
    assert abs(info.accepted.double().mean().item() - p) < 5 * math.sqrt(p * (1 - p) / n)


def test_divergence_is_told_in_temperatures() -> None:
    start, end, work = states([400.0, 600.0])
    _, info = metropolis.decide(start, end, work, 1, number(0.5), torch.zeros(2, dtype=F64))
    assert info.diverging.tolist() == [False, True]


def test_an_energy_error_that_is_not_finite_has_no_chance() -> None:
    energy_error = torch.tensor([1.0, -3.0, math.inf, -math.inf, math.nan], dtype=F64)
    temperature = torch.tensor([0.5, 2.0, 1.0, 1.0, 1.0], dtype=F64)
    assert metropolis.log_ratio(energy_error, temperature).tolist() == [-2.0, 1.5, *[-math.inf] * 3]


def test_temperature_zero_only_knows_up_and_down() -> None:
    start, end, work = states([-1.0, 1.0, 0.0])
    _, info = metropolis.monitor(start, end, work, 1, number(0.0), unused)
    assert info.log_accept.tolist() == [math.inf, -math.inf, 0.0]
    assert not info.diverging.any()


def test_each_chain_may_have_its_own_temperature() -> None:
    start, end, work = states([1.0, 1.0, 1.0])
    temperature = torch.tensor([1.0, 0.5, 2.0], dtype=F64)
    for decision in (
        metropolis.decide(start, end, work, 1, temperature, torch.zeros(3, dtype=F64)),
        metropolis.monitor(start, end, work, 1, temperature, unused),
    ):
        assert decision[1].log_accept.tolist() == [-1.0, -2.0, -0.5]


def test_the_limit_of_the_early_stop_is_where_the_decision_turns() -> None:
    start, end, _ = states([0.0, 0.0, 0.0])
    work = torch.tensor([0.3, -0.2, 1.0], dtype=F64)
    temperature = torch.tensor([0.4, 1.0, 2.5], dtype=F64)
    log_uniform = torch.tensor([-0.7, -0.1, -2.0], dtype=F64)
    limit = metropolis.certain_rejection(start, work, temperature, log_uniform)
    for shift, accepted in ((-1e-9, True), (1e-9, False)):
        there = end._replace(potential=limit + shift)
        _, info = metropolis.decide(start, there, work, 1, temperature, log_uniform)
        assert info.accepted.tolist() == [accepted] * 3


def test_a_trajectory_that_cannot_be_retraced_is_never_accepted_in_a_report() -> None:
    start, end, work = states([0.0, -5.0])
    after, info = metropolis.monitor(start, end, work, 1, number(1.0), unused, testable=False)
    assert info.log_accept.tolist() == [-math.inf] * 2
    assert info.accepted.all()
    assert not info.diverging.any()
    assert torch.equal(after.position, end.position)


def test_a_kernels_own_variables_are_tested_kept_and_put_back() -> None:
    start, end, work = states([-1.0, 9.0, -1.0])
    start = start._replace(extra={"own": torch.zeros(3, 2, dtype=F64)})
    end = end._replace(extra={"own": torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, math.nan]], dtype=F64)})
    after, info = metropolis.decide(start, end, work, 1, number(1.0), torch.full((3,), -1.0, dtype=F64))
    assert info.accepted.tolist() == [True, False, False]
    assert after.extra["own"].tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
