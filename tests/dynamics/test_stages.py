"""Words with several stages: their coefficients, checked against what defines them, their shares, and their costs."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics import length
from ggmc.dynamics.scheme import Scheme
from ggmc.dynamics.stages import STAGES
from ggmc.dynamics.state import State
from ggmc.errors import BadInput, Condition, NotExact
from ggmc.guides import GradientField
from tests.support.logistic import logistic
from tests.support.motion import TARGET, FunctionField, parameters, travel

F64 = torch.float64
COUNTS = {name: int(re.sub(r"\D", "", name)) for name in STAGES}


# Coefficients


@pytest.mark.parametrize("name", STAGES)
def test_shares_sum_to_one_and_read_the_same_backwards(name: str) -> None:
    symbols = Scheme(name).spelt.body
    for letter in "AB":
        assert sum(symbol.share for symbol in symbols if symbol.letter == letter) == 1
    assert symbols == symbols[::-1]
    assert symbols[0].letter == ("A" if name.endswith("d") else "B")
    assert Scheme(name).not_reversible is None


@pytest.mark.parametrize("name", STAGES)
def test_gradients_are_counted_stage_by_stage(name: str) -> None:
    stages = COUNTS[name]
    assert Scheme(name).gradients_per_step == stages
    shared = 0 if name.endswith("d") else 1  # the kick where two steps meet is one
    for steps in (1, 2, 7):
        assert Scheme(f"O({name})O").plan(steps).gradients == stages * steps + shared
    assert Scheme(f"O{name}O").plan(4).gradients == stages * 4 + shared


def energy_error(word: str, h: float) -> float:
    """The mean energy error of a step, at most, in equilibrium on U = θ²/2: from its matrix, a second derivation."""
    step = np.eye(2)
    for letter, share in Scheme(word).spelt.body:
        t = float(share) * h
        step = (np.array([[1, t], [0, 1]]) if letter == "A" else np.array([[1, 0], [-t, 1]])) @ step
    assert abs(step[0, 0]) < 1
    return (step[0, 1] + step[1, 0]) ** 2 / (2 * (1 - step[0, 0] ** 2))


def worst(word: str, longest: float) -> float:
    return max(energy_error(word, h) for h in np.linspace(0.01, longest, 500))


@pytest.mark.parametrize(
    ("name", "published"), [("BAB", 4.2e-2), ("BCSS2", 5e-4), ("BCSS3", 7e-5), ("BCSS4", 7e-7), ("BCSS3d", 7e-5)]
)
def test_the_energy_error_up_to_a_step_of_one_for_each_stage_is_the_published_one(name: str, published: float) -> None:
    assert worst(name, COUNTS.get(name, 1)) == pytest.approx(published, rel=0.07)


def test_the_coefficients_are_the_best_of_their_kind() -> None:
    """A little to either side, the largest error (BCSS) or the constants of the leading one (ME2) grow."""

    def two(a: float) -> str:
        return f"B{a:.12f}ABAB{a:.12f}"

    def three(a: float) -> str:
        b = (1 - 2 * a) / (4 * (1 - 3 * a))  # for which the longest stable step is as long as it can be
        return f"B{a:.12f}A{b:.12f}BABA{b:.12f}B{a:.12f}"

    def leading(a: float) -> float:
        """Of the terms of order h³ in [A, [A, B]] and [B, [A, B]], the sum of squares."""
        return ((1 - 6 * a + 6 * a**2) / 12) ** 2 + ((1 - 6 * a) / 24) ** 2

    assert Scheme("ME2").spelt.body[0].share == Fraction("0.1931833275037836")
    for change in (0.99, 1.01):
        assert worst("BCSS2", 2) < worst(two(change * 0.2113248654), 2)
        assert worst("BCSS3", 3) < worst(three(change * 0.11888010966548), 3)
        assert leading(0.1931833275037836) < leading(change * 0.1931833275037836)


@pytest.mark.parametrize("name", STAGES)
def test_the_mean_energy_error_is_of_fourth_order_and_far_below_leapfrogs(name: str) -> None:
    """Second order in each trajectory; its mean in equilibrium is the square of that."""
    assert math.log2(energy_error(name, 0.2) / energy_error(name, 0.1)) == pytest.approx(4, abs=0.25)
    stages = COUNTS[name]
    assert energy_error(name, 0.5 * stages) < energy_error("BAB", 0.5) / 5  # for as many gradients per time


# Shares


def test_letters_without_a_number_share_what_is_left() -> None:
    moves = Scheme("O(B0.2ABABAB.3)O").plan(2).moves
    assert [move.time for move in moves if move.letter == "B"] == [
        Fraction(x) for x in ("1/5", "1/4", "1/4", "1/2", "1/4", "1/4", "3/10")
    ]
    assert Scheme("O0.25(BAB)O0.75").plan(2).moves == Scheme("O(BAB)O").plan(2).moves
    assert Scheme("OB0.5AB0.5O").plan(3) == Scheme("OBABO").plan(3)


def test_an_every_step_friction_goes_around_a_name() -> None:
    plan = Scheme("OBCSS2O").plan(2)
    assert [move.letter for move in plan.moves] == list("BABABOBABAB")
    assert sum(move.time for move in (*plan.before, *plan.moves) if move.letter == "O") == 2
    assert Scheme("O(BCSS2)O").repeated.plan(3) == Scheme("BCSS2").plan(3)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("O(B0.2ABAB0.3)O", "letter 2 is B with the share 0.2, but letter 2 from the end is B with the share 0.3"),
        ("O(BA0.4BA0.6B)O", "letter 3 is A with the share 0.4, but letter 3 from the end is A with the share 0.6"),
        ("O0.2(BAB)O", "letter 1 is O with the share 0.2, but letter 1 from the end is O with the share 0.8"),
        ("O(BCSS2A)O", "letter 2 is B"),
    ],
)
def test_shares_that_are_no_palindrome_are_refused(word: str, why: str) -> None:
    with pytest.raises(NotExact, match=why) as caught:
        ggmc.GGMC(0.1, scheme=word)
    assert caught.value.conditions == (Condition.WORD,)
    sampler = ggmc.GGMC(0.1, scheme=word, adjust=False).sampler(logistic(20), ggmc.Exact().bind(logistic(20)))
    assert re.search(why, sampler.not_testable or "")


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("O(B0.6ABAB0.6)O", "the shares of B .* must be above 0 and sum to 1, got 0.6, 0.6"),
        ("O(B0.5ABAB0.5)O", "got 0.5, 0.5: leave the number off"),
        ("O(B0.4AB0.4)O", "the shares of B .* got 0.4, 0.4"),
        ("O(B0.0AB)O", "the shares of B .* got 0"),
        ("O(B2AB)O", "unknown letter '2' at place 4"),
        ("O(B-0.2AB)O", "unknown letter '-' at place 4"),
        ("O(BCSS5)O", "unknown letter 'S' at place 5 .* and the names ME2, BCSS2"),
    ],
)
def test_what_is_no_share_is_refused(word: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        Scheme(word)


def test_words_of_other_kernels_are_refused() -> None:
    for word in ("OBABO", "BCSS3", "O(OBABO)"):
        with pytest.raises(BadInput):
            ggmc.HMC(0.1, 2, scheme=word)
    with pytest.raises(BadInput, match="has no O in its steps"):
        ggmc.MALT(0.1, steps=2, scheme="O(BCSS3)O")
    with pytest.raises(NotExact, match="must read the same backwards"):
        ggmc.HMC(0.1, 2, scheme="O(BA)O")
    with pytest.raises(NotExact, match="must read the same backwards"):
        ggmc.MALT(0.1, steps=2, scheme="OBAO")


# Tapes and lengths


class Recorder(GradientField):
    """Adds what it reads of the tape to a list."""

    def __init__(self, of: GradientField):
        super().__init__(order=of.order, epoch=of.epoch, sweep=of.sweep, whole_sweeps=of.whole_sweeps)
        self._of, self.read = of, list[Tensor]()

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        assert entry is not None
        self.read.append(entry)
        return self._of(position, entry)


@pytest.mark.parametrize("name", STAGES)
def test_each_stages_kick_reads_an_entry_of_its_own(name: str) -> None:
    target = logistic(24)
    field = Recorder(ggmc.Minibatch(2).bind(target))
    plan = Scheme(f"O({name})O").plan(3)
    tape = field.tape(plan.gradients, 2, torch.Generator().manual_seed(0))
    assert tape is not None
    state = State(torch.zeros(2, 3, dtype=F64), torch.ones(2, 3, dtype=F64))
    travel(plan, state, parameters(0.01), (), field, tape)
    torch.testing.assert_close(torch.stack(field.read), tape)


@pytest.mark.parametrize(
    ("steps", "size", "per_step", "expected"),
    [
        ("2 sweeps", 10, 1, 40),
        ("2 sweeps", 10, 2, 20),
        ("3 sweeps", 10, 3, 20),
        ("1 sweep", 10, 4, 5),
        (None, 10, 1, 20),
        (None, 10, 3, 20),  # three sweeps
        (None, 10, 4, 5),
        (None, 50, 3, 4),  # a sweep of four: three of them
        ("1 epoch", 10, 3, 4),  # ten gradients at the least
        ("7 steps", 10, 3, 7),
        (7, 10, 3, 7),
    ],
)
def test_sweeps_and_epochs_count_gradients(steps: str | None, size: int, per_step: int, expected: int) -> None:
    field = ggmc.Minibatch(size).bind(logistic(100))
    assert length.in_steps(steps, field, per_step) == (expected, expected)


def test_a_sweep_that_is_no_whole_number_of_steps_is_refused() -> None:
    kernel = ggmc.GGMC(0.1, scheme="O(BCSS3d)O", steps="1 sweep", guide=ggmc.Minibatch(10))
    with pytest.raises(BadInput, match="20 gradients, no whole number of steps of 3 gradients each: use 3 sweeps"):
        kernel.bind(logistic(100))


def test_the_sampler_draws_tapes_for_all_stages() -> None:
    target = logistic(100)
    kernel = ggmc.GGMC(0.01, scheme="O(BCSS3d)O", steps="3 sweeps", guide=ggmc.Minibatch(10))
    field = Recorder(kernel.guide.bind(target))
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    _, info = sampler.step(sampler.init(torch.zeros(2, 3, dtype=F64), generator), sampler.parameters, generator)
    assert (info.steps, sampler.gradients_per_step) == (20, 3)
    read = torch.stack(field.read[-60:])
    assert torch.equal(read, read.flip(0))
    assert all(torch.equal(read[i : i + 20].sort(0).values[::2].T, torch.arange(10).expand(2, 10)) for i in (0, 20))


def test_the_gradient_at_the_end_serves_the_next_trajectory() -> None:
    calls = 0

    def counting(position: Tensor, entry: object) -> tuple[Tensor, None]:
        nonlocal calls
        calls += 1
        return TARGET.potential_and_gradient(position)[1], None

    sampler = ggmc.HMC(0.1, 5, scheme="O(BCSS3)O").sampler(TARGET, FunctionField(counting))
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(1, 2, dtype=F64), generator)
    calls = 0
    for _ in range(4):
        state, info = sampler.step(state, sampler.parameters, generator)
        assert info.accepted.all()
    assert calls == 4 * 5 * 3
