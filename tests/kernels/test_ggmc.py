"""GGMC: the word it takes by default, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.schedule import Along, Cosine, Drops, Over, ThereAndBack
from ggmc.errors import BadInput, NotExact
from ggmc.kernels import WordSampler
from tests.support.invariance import quartic, violations
from tests.support.kernels import begin, gaussian
from tests.support.logistic import logistic

F64 = torch.float64


def bound_word(kernel: Any, target: Any = None) -> str:
    target = logistic() if target is None else target
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    assert isinstance(sampler, WordSampler)
    return sampler.scheme.word


# The word


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        (ggmc.GGMC(0.1), "OBABO"),
        (ggmc.GGMC(0.1, guide=ggmc.Minibatch(10)), "O(ABA)O"),
        (ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, recut=True)), "O(ABA)O"),
        (ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10)), "O(ABA)O"),
        (ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, "iid")), "OBABO"),
        (ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, "epoch", recut=True)), "OBABO"),
        (ggmc.GGMC(0.1, guide=ggmc.Minibatch(10), scheme="BAOAB"), "BAOAB"),
    ],
    ids=str,
)
def test_palindromes_have_one_batch_per_step_and_friction_at_the_ends(kernel: Any, word: str) -> None:
    assert bound_word(kernel) == word


def test_a_word_left_open_follows_the_guide() -> None:
    kernel = ggmc.GGMC(0.1)
    assert kernel.scheme is None
    with_minibatches = replace(kernel, guide=ggmc.Minibatch(100))
    assert with_minibatches.scheme is None
    assert bound_word(with_minibatches) == "O(ABA)O"
    assert bound_word(replace(with_minibatches, guide=ggmc.Exact())) == "OBABO"
    trace = ggmc.sample(logistic(), replace(with_minibatches, step_size=0.01), draws=2, warmup=0, progress=False)
    assert trace.kernel == replace(with_minibatches, step_size=0.01)


def test_a_word_that_is_no_palindrome_is_refused_with_the_test_and_reported_without() -> None:
    with pytest.raises(NotExact, match="must read the same backwards"):
        ggmc.GGMC(0.1, scheme="OBA")
    trace = ggmc.sample(
        gaussian(2), ggmc.GGMC(0.1, scheme="OBA", adjust=False), draws=10, warmup=0, chains=2, progress=False
    )
    assert (trace.stats["log_accept"] == -math.inf).all()
    assert trace.stats["is_accepted"].all()
    assert any("'OBA' must read the same backwards" in warning for warning in trace.warnings)


@pytest.mark.parametrize("kind", [ggmc.AMAGOLD, lambda h, friction: ggmc.GGMC(h, friction, scheme="ACA")])
def test_the_implicit_kick_refuses_infinite_friction(kind: Any) -> None:
    with pytest.raises(BadInput, match="no limit of infinite friction: give a finite friction"):
        kind(0.1, math.inf)


# Settings that do not go together


def test_monitoring_cannot_be_thinned_with_the_test() -> None:
    with pytest.raises(BadInput, match="monitor_every=5 needs adjust=False"):
        ggmc.GGMC(0.1, monitor_every=5)


def test_explain_and_thinned_monitoring_do_not_mix() -> None:
    with pytest.raises(BadInput, match="use one of them"):
        ggmc.GGMC(0.1, explain=1.0, adjust=False, monitor_every=2)


def test_explain_and_either_way_do_not_mix() -> None:
    with pytest.raises(BadInput, match="cannot compare trajectories that go either way"):
        ggmc.GGMC(0.1, explain=1.0, along=Along(Cosine(0.1), either_way=True))


@pytest.mark.parametrize("share", [2.0, -0.1])
def test_a_share_lies_between_0_and_1(share: float) -> None:
    with pytest.raises(BadInput, match="explain must lie between 0 and 1"):
        ggmc.GGMC(0.1, explain=share)


def test_a_schedule_only_a_little_lopsided_is_refused() -> None:
    with pytest.raises(NotExact, match="must read the same backwards"):
        ggmc.GGMC(0.1, along=Along(lambda x: 1.0 + 0.01 * x))


def test_a_temperature_over_the_run_is_refused_with_the_test() -> None:
    with pytest.raises(NotExact, match="no one distribution to sample"):
        ggmc.GGMC(0.1, over=Over(4, temperature=Cosine(0.5)))


# A temperature along the trajectory


@pytest.mark.parametrize("word", ["O(ABA)O", "O(BAB)O", "BAB"])
@pytest.mark.parametrize("adjust", [True, False])
def test_a_temperature_that_would_have_no_effect_is_refused(word: str, adjust: bool) -> None:
    kernel = ggmc.GGMC(0.1, scheme=word, along=Along(temperature=ThereAndBack(Cosine(0.5))), adjust=adjust)
    with pytest.raises(BadInput, match="along a trajectory has no effect on the word"):
        kernel.bind(gaussian())
    palindromic = ggmc.GGMC(0.1, guide=ggmc.Minibatch(10), along=Along(temperature=ThereAndBack(Cosine(0.5))))
    with pytest.raises(BadInput, match=r"has no effect on the word 'O\(ABA\)O'"):
        palindromic.bind(logistic())


@pytest.mark.parametrize("word", ["OBABO", "OABAO"])
def test_a_temperature_acts_on_the_outermost_noise_too(word: str) -> None:
    """One step far hotter than T, with friction so strong that all momentum is new: it has the step's temperature."""
    kernel = ggmc.GGMC(1e-3, 1e6, 1, word, adjust=False, along=Along(temperature=lambda x: 9.0))
    state, step, generator = begin(kernel, gaussian(), chains=20_000)
    after, _ = step(state, generator)
    error = 9 * (2 / 20_000) ** 0.5
    assert abs(after.momentum.var().item() - 9.0) < 6 * error


@pytest.mark.parametrize(
    "temperature",
    [ThereAndBack(Cosine(0.3)), ThereAndBack(Drops((0.5,), 3.0)), lambda x: 4.0],
    ids=["cosine", "drops", "constant"],
)
@pytest.mark.parametrize(("word", "friction"), [("OBABO", 0.9), ("BAOAB", 0.9), ("ACA", 0.9), ("OBABO", math.inf)])
def test_a_temperature_along_the_trajectory_stays_exact(word: str, friction: float, temperature: Any) -> None:
    kernel = ggmc.GGMC(0.6, friction, 3, word, along=Along(temperature=temperature))
    assert violations(quartic(), kernel, trajectories=10, chains=40_000) == {}


def test_a_lopsided_temperature_either_way_stays_exact() -> None:
    kernel = ggmc.GGMC(0.6, 0.9, 3, along=Along(temperature=Cosine(0.3), either_way=True))
    assert violations(quartic(), kernel, trajectories=10, chains=40_000) == {}


def test_the_heat_of_another_temperature_must_be_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the heat in the work is seen to be wrong, so that the checks above can see it."""
    from ggmc.dynamics import letters

    monkeypatch.setattr(letters, "_gain", lambda motion, before: torch.zeros(len(before), dtype=F64))
    kernel = ggmc.GGMC(0.6, 0.9, 3, along=Along(temperature=ThereAndBack(Cosine(0.3))))
    assert violations(quartic(), kernel, trajectories=10, chains=40_000) != {}
