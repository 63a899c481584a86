"""Schedules: what they are, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.schedule import Along, Cosine, Cyclical, Drops, Flat, Over, ThereAndBack
from ggmc.dynamics.scheme import Move, Scheme
from ggmc.dynamics.state import Parameters, State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import BadInput, NotExact
from tests.support.motion import FIELD, parameters

F64 = torch.float64


def test_shapes() -> None:
    assert [Flat()(x) for x in (0.0, 0.5, 1.0)] == [1, 1, 1]
    assert [round(Cosine(0.2)(x), 9) for x in (0.0, 0.5, 1.0)] == [1, 0.6, 0.2]
    assert [Drops((0.5, 0.75), 0.1)(x) for x in (0.0, 0.5, 0.8)] == pytest.approx([1, 0.1, 0.01])
    assert Cyclical(4)(0.25) == pytest.approx(1.0)
    assert Cyclical(4)(0.249) < 0.01
    assert [ThereAndBack(Cosine())(x) for x in (0.0, 0.5, 1.0)] == pytest.approx([0, 1, 0])


@pytest.mark.parametrize("steps", [1, 2, 5, 8])
@pytest.mark.parametrize("of", [Cosine(0.1), Drops(), Cyclical(3)])
def test_there_and_back_reads_the_same_backwards(of: Any, steps: int) -> None:
    factors = Along(ThereAndBack(of)).factors(steps)
    assert factors.step_sizes == pytest.approx(factors.reversed().step_sizes)


@pytest.mark.parametrize("schedule", [Cosine(), Cyclical(3), Drops()])
def test_lopsided_step_sizes_are_refused_with_the_test_and_monitored_without(schedule: Any) -> None:
    with pytest.raises(
        NotExact, match=r"step sizes along a trajectory must read the same backwards, got .*ThereAndBack"
    ):
        ggmc.GGMC(0.1, along=Along(schedule))
    with pytest.raises(NotExact, match="temperatures along a trajectory must read the same backwards"):
        ggmc.GGMC(0.1, along=Along(temperature=schedule))
    ggmc.GGMC(0.1, along=Along(schedule), adjust=False)
    ggmc.GGMC(0.1, along=Along(schedule, either_way=True))
    ggmc.GGMC(0.1, along=Along(ThereAndBack(schedule)))


def test_a_temperature_that_changes_over_the_run_has_no_one_distribution() -> None:
    with pytest.raises(NotExact, match="no one distribution to sample"):
        ggmc.GGMC(0.1, over=Over(10, temperature=Cosine(0.1)))
    ggmc.GGMC(0.1, over=Over(10, temperature=Cosine(0.1)), adjust=False)
    ggmc.GGMC(0.1, over=Over(10, Cosine(0.1)))


def test_factors_must_be_positive() -> None:
    with pytest.raises(BadInput, match="must give positive factors"):
        Along(lambda x: x - 0.5).factors(4)
    with pytest.raises(BadInput, match="period must be a whole number"):
        Over(0)


def test_every_letter_is_stretched_by_its_steps_factor() -> None:
    plan = Scheme("O(BAB)O").plan(2, Along(lambda x: 1.0 if x < 0.5 else 0.5).factors(2))
    assert str(plan) == "outside the test O 3h/2; tested B h/2, A h, B 3h/4, A h/2, B h/4"


def test_noise_of_different_temperatures_is_not_merged() -> None:
    plan = Scheme("OBABO").plan(2, Along(temperature=lambda x: 1.0 + (x > 0.5)).factors(2))
    warmths = [move.warmth for move in plan.moves if move.letter == "O"]
    assert warmths == [1.0, 1.0, 2.0, 2.0]


def test_noise_of_each_temperature_has_its_own_size() -> None:
    zero = torch.zeros(1, 2, dtype=F64)
    path = Trajectory(State(zero, zero), parameters(0.3, friction=0.7), FIELD, None, lambda: torch.ones_like(zero))
    keep, spread = math.exp(-0.21), math.sqrt(-math.expm1(-0.42))
    path.run([Move("O", Fraction(1)), Move("O", Fraction(1), warmth=4.0)])
    torch.testing.assert_close(path.momentum, torch.full_like(zero, keep * spread + 2 * spread))


def test_outermost_noise_of_another_temperature_is_part_of_the_test() -> None:
    warm = Scheme("OBABO").plan(2, Along(temperature=lambda x: 2.0).factors(2))
    assert warm.before == ()
    assert [(move.letter, move.warmth) for move in (warm.moves[0], warm.moves[-1])] == [("O", 2.0), ("O", 2.0)]
    usual = Scheme("OBABO").plan(2, Along(lambda x: 0.5).factors(2))
    assert [move.letter for move in usual.before] == ["O"]
    assert usual.moves[0].letter == usual.moves[-1].letter == "B"


@pytest.mark.parametrize("word", ["O(ABA)O", "O(BAB)O"])
def test_a_temperature_along_a_trajectory_that_would_have_no_effect_is_refused(word: str) -> None:
    kernel = ggmc.GGMC(0.1, scheme=word, along=Along(temperature=ThereAndBack(Cosine(0.5))))
    with pytest.raises(BadInput, match=r"has no effect on the word 'O\(.*noise is drawn outside the steps"):
        kernel.bind(target())


def target() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=F64))


@pytest.mark.parametrize("kernel", [ggmc.GGMC(0.2), ggmc.SGLD(0.2), ggmc.SGHMC(0.2)], ids=lambda k: type(k).__name__)
def test_over_a_run_the_step_follows_its_period(kernel: Any) -> None:
    """At temperature 0 a kernel is a function of its step size: compare trajectory by trajectory."""
    from dataclasses import replace

    over = Over(3, Cosine(0.1))
    still = replace(kernel, temperature=0.0, adjust=False)
    scheduled = replace(still, over=over)
    generator = torch.Generator().manual_seed(0)
    init, step = scheduled.bind(target())
    state = init(torch.ones(2, 2, dtype=F64), generator)
    for n in range(7):
        plain = replace(still, step_size=0.2 * over.at(n)[0]).bind(target())[1]
        expected, _ = plain(state, generator)
        state, _ = step(state, generator)
        torch.testing.assert_close(state.position, expected.position)
    assert over.at(0) == over.at(3) == over.at(6)


def test_schedules_are_stored_with_the_kernel() -> None:
    import json

    from ggmc.kernels import from_dict, to_dict

    kernel = ggmc.GGMC(0.1, along=Along(ThereAndBack(Cosine(0.2)), either_way=True), over=Over(5, Cyclical(2)))
    assert from_dict(json.loads(json.dumps(to_dict(kernel)))) == kernel


def test_there_and_back_is_symmetric_to_the_last_bit() -> None:
    for steps in range(1, 40):
        for place in (0.1, 0.2, 0.25, 1 / 3, 0.5):
            sizes = Along(ThereAndBack(Drops((place,)))).factors(steps).step_sizes
            assert sizes == sizes[::-1], (steps, place)


def test_a_schedule_is_checked_at_the_trajectorys_own_length() -> None:
    """Lopsided in its first hundredth only, which 64 steps do not see."""
    along = Along(lambda x: 0.5 if x < 0.004 else 1.0)
    with pytest.raises(NotExact, match="must read the same backwards"):
        ggmc.GGMC(0.1, steps=200, along=along).bind(target())
    # Of a range, each trajectory is checked at the length it draws.
    init, step = ggmc.GGMC(0.1, steps=64, along=along).bind(target())
    generator = torch.Generator().manual_seed(0)
    state = init(torch.zeros(1, 2, dtype=F64), generator)
    step(state, generator)
    longer = Parameters.of(0.1, 1.0, 1.0, Identity(), (200, 200))
    with pytest.raises(NotExact, match="must read the same backwards"):
        step(state, generator, longer)


def test_lopsided_schedules_can_be_tuned_where_nothing_is_tested() -> None:
    for options in ({"along": Along(Cosine(0.1))}, {"over": Over(5, temperature=Cosine(0.5))}):
        kernel = ggmc.GGMC(adjust=False, **options)  # pyright: ignore[reportArgumentType]
        trace = ggmc.sample(target(), kernel, draws=20, warmup=60, progress=False)
        assert trace.kernel.step_size is not None
        assert trace.kernel.step_size > 0


def test_the_trace_tells_the_step_size_that_was_used() -> None:
    kernel = ggmc.GGMC(0.2, over=Over(4, Cosine(0.1)))
    trace = ggmc.sample(target(), kernel, draws=8, warmup=0, progress=False)
    expected = [0.2 * Over(4, Cosine(0.1)).at(n)[0] for n in range(8)]
    assert trace.stats["step_size"][0].tolist() == pytest.approx(expected)


def test_over_needs_positive_factors() -> None:
    with pytest.raises(BadInput, match="must give positive factors, got -1"):
        Over(3, lambda x: -1.0).at(0)


def test_drops_are_stored_as_they_are() -> None:
    from ggmc.kernels import from_dict, to_dict

    kernel = ggmc.GGMC(0.1, along=Along(ThereAndBack(Drops((0.1, 0.5, 0.7)))))
    assert from_dict(to_dict(kernel)) == kernel


def test_a_lopsided_schedule_cannot_retrace_its_steps() -> None:
    lopsided = ggmc.GGMC(0.3, 0.5, 4, "O(ABA)O", adjust=False, along=Along(Cosine()))
    assert not ggmc.retrace(lopsided, target()).possible
    assert ggmc.retrace(ggmc.GGMC(0.3, 0.5, 4, "O(ABA)O", along=Along(ThereAndBack(Cosine()))), target()).possible


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fresh_momentum": True},
        {"scheme": "O(BAB)O", "mass": [2.0, 0.5]},
        {"scheme": "ACA"},
        {"along": Along(Cosine(0.3), either_way=True)},
        {"along": Along(temperature=ThereAndBack(Cosine(0.5)))},
    ],
    ids=lambda options: ", ".join(options) or "plain",
)
def test_over_a_run_every_trajectory_has_the_step_size_and_temperature_of_its_place(options: Any) -> None:
    """Each is that of a kernel with these numbers, from the same state with the same random numbers."""
    over = Over(3, Cosine(0.1), Drops((0.5,), 0.25))
    settings: Any = {"friction": 0.7, "steps": 3, "adjust": False, **options}
    generator = torch.Generator().manual_seed(0)
    init, step = ggmc.GGMC(0.3, temperature=0.6, over=over, **settings).bind(target())
    state = init(torch.ones(4, 2, dtype=F64), generator)
    for trajectory in range(7):
        h, warmth = over.at(trajectory)
        plain = ggmc.GGMC(0.3 * h, temperature=0.6 * warmth, **settings).bind(target())[1]
        expected, told = plain(state, torch.Generator().manual_seed(trajectory))
        state, info = step(state, torch.Generator().manual_seed(trajectory))
        torch.testing.assert_close(state.position, expected.position)
        torch.testing.assert_close(state.momentum, expected.momentum)
        torch.testing.assert_close(info.log_accept, told.log_accept)


def test_a_refusal_names_the_schedule_and_its_ends() -> None:
    reason = Along(Cosine(0.1)).lopsided(4)
    assert reason == (
        "step sizes along a trajectory must read the same backwards, got Cosine(low=0.1) with factors 0.966 → 0.134: "
        "use schedule.ThereAndBack(Cosine(low=0.1)), either_way=True, or adjust=False"
    )
    assert Along(Cosine(0.1)).lopsided(1) is None  # a single step has no direction


def test_a_drop_begins_at_its_place() -> None:
    assert [Drops((0.5, 0.75), 0.1)(place) for place in (0.4999, 0.5, 0.75)] == pytest.approx([1.0, 0.1, 0.01])
