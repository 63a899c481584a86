"""Letters of a user's own in words and plans."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from ggmc.dynamics.letters import LETTERS, Letter, Motion
from ggmc.dynamics.mass import Identity, MassLike
from ggmc.dynamics.scheme import Move, Scheme
from ggmc.dynamics.state import Parameters, State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import BadInput, NotExact
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels.words import Program, WordKernel
from tests.support.kernels import gaussian

F64 = torch.float64


class Count(Letter[float]):
    """Adds its time to a variable of its own, and counts how often it was carried out."""

    kicks, drifts = False, False
    merges, outside = False, True
    noisy, not_reversible = False, None

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> float:
        return time

    def apply(self, motion: Motion, numbers: float) -> None:
        motion.extra["time"] = motion.extra["time"] + numbers
        motion.extra["count"] = motion.extra["count"] + 1

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0


class MergingCount(Count):
    merges = True


def carried_out(word: str, letter: Letter, steps: int) -> tuple[float, float]:
    scheme = Scheme(word, LETTERS | {"X": letter})
    plan = scheme.plan(steps)
    like = torch.zeros(1, 1, dtype=F64)
    state = State(like, like, extra={"time": torch.zeros(1, dtype=F64), "count": torch.zeros(1, dtype=F64)})
    path = Trajectory(
        state, Parameters.of(0.1, 0.0, 1.0, Identity()), Exact().bind(gaussian()), None, lambda: like, scheme.letters
    )
    path.run(plan.before + plan.moves)
    return path.extra["time"].item(), path.extra["count"].item()


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(("word", "each"), [("XBABX", 2), ("BAXAB", 1), ("XOBABOX", 2)])
def test_a_letter_that_does_not_merge_is_carried_out_as_often_as_it_stands(word: str, each: int, steps: int) -> None:
    assert carried_out(word, Count(), steps) == (steps, each * steps)


@pytest.mark.parametrize("steps", [1, 3])
def test_one_that_merges_is_carried_out_once_wherever_two_meet(steps: int) -> None:
    assert carried_out("XBABX", MergingCount(), steps) == (steps, steps)


def test_what_stands_outside_the_test_is_what_leaves_the_momentum_alone() -> None:
    half = Fraction(1, 2)
    assert Scheme("XBABX", LETTERS | {"X": Count()}).plan(1).before == (Move("X", half), Move("X", half))
    assert Scheme("XBABX", LETTERS | {"X": MergingCount()}).plan(1).before == (Move("X", Fraction(1)),)

    class Inside(Count):
        outside = False

    plan = Scheme("XBABX", LETTERS | {"X": Inside()}).plan(1)
    assert plan.before == ()
    assert "".join(move.letter for move in plan.moves) == "XBABX"


def test_a_letter_is_known_only_in_its_own_alphabet() -> None:
    with pytest.raises(BadInput, match="unknown letter 'X' at place 1 of the word 'XBABX'"):
        Scheme("XBABX")


class Shrink(Letter[float]):
    """m ← e^(−t/2) m: it loses energy, and from its end it does not lead back."""

    kicks, drifts, merges, outside = False, False, True, False
    noisy, not_reversible = False, None

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> float:
        return math.exp(-time / 2)

    def apply(self, motion: Motion, numbers: float) -> None:
        motion.momentum = numbers * motion.momentum

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0


class HonestShrink(Shrink):
    not_reversible = "it loses energy"


class Mirror(Shrink):
    """m ← −m: twice is nothing at all."""

    def apply(self, motion: Motion, numbers: float) -> None:
        motion.momentum = -motion.momentum


@dataclass(frozen=True, eq=False)
class OneMore(WordKernel):
    """A palindrome around a letter of one's own."""

    letter: Letter
    adjust: bool = True
    step_size: float = 0.1  # pyright: ignore[reportIncompatibleVariableOverride]
    guide: Guide = Exact()
    temperature: float = 1.0
    mass: MassLike = None

    def program(self, field: GradientField) -> Program:
        return Program("XOBABOX", 1.0, 1, letters=LETTERS | {"X": self.letter})


def test_a_palindrome_is_not_enough_for_a_letter_without_a_way_back() -> None:
    with pytest.raises(NotExact, match=r"the letter X \(Shrink\) has no way back"):
        OneMore(Shrink()).bind(gaussian())
    with pytest.raises(NotExact, match="has the letter X, which has no way back: it loses energy"):
        OneMore(HonestShrink()).bind(gaussian())
    OneMore(Mirror()).bind(gaussian())
    OneMore(HonestShrink(), adjust=False).bind(gaussian())


def test_a_letter_states_all_of_its_facts() -> None:
    with pytest.raises(TypeError, match="the letter Silent must state outside, noisy, not_reversible"):

        class Silent(Letter[None]):  # pyright: ignore[reportUnusedClass]
            kicks, drifts, merges = False, False, False


def test_only_noise_refreshes_the_momentum() -> None:
    def remarks(word: str, letter: Letter) -> list[str]:
        class Quiet(OneMore):
            def program(self, field: GradientField) -> Program:
                return Program(word, 1.0, 1, letters=LETTERS | {"X": letter})

        return Quiet(letter).sampler(gaussian(), Exact().bind(gaussian())).remarks

    assert "The momentum is never refreshed" in remarks("XBABX", Mirror())[0]
    assert remarks("XOBABOX", Mirror()) == []
