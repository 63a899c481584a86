"""The batch size: chosen in warm-up, and the choice explained."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.state import Info
from ggmc.guides import GradientField
from ggmc.warmup import Warmup
from ggmc.warmup.batch_size import Search, Tried
from ggmc.warmup.step_size import DualAveraging
from tests.support.logistic import logistic

F64 = torch.float64


def test_the_batch_size_is_chosen_and_the_choice_explained() -> None:
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.Minibatch("auto")), draws=10, warmup=200, progress=False)
    size = trace.kernel.guide.size
    assert isinstance(size, int)
    why = trace.attributes["batch_size"]
    assert why.startswith(f"{size} examples")
    assert "farthest per pass over the data times acceptance" in why
    assert why.count("batches ") >= 3
    assert "batch_size" in trace.to_datatree()["posterior"].attrs


@pytest.mark.parametrize("best", [5, 10, 20])  # batches, of which 10 are tried first
def test_the_field_that_is_kept_is_that_of_the_chosen_size(best: int) -> None:
    target, guide = logistic(400), ggmc.Minibatch(40)

    def sampler_on(field: GradientField) -> Any:
        """Accepts everything with the best number of batches, and else nothing."""
        log_accept = torch.full((2,), 0.0 if field.epoch == best else -math.inf, dtype=F64)
        accepted, zero = log_accept == 0, torch.zeros(2, dtype=F64)
        info = Info(log_accept, accepted, ~accepted, zero, zero, 4)
        return SimpleNamespace(step=lambda state, *_: (state, info), gradients_per_step=1)

    unused: Any = None
    search = Search(guide, target, sampler_on, guide.bind(target), lambda *_: unused, wanted=0.65)
    _, chosen, _, why = search.run(unused, 0.1, unused)
    assert chosen.size == 400 // best
    assert search.field.epoch == best
    assert why.startswith(f"{400 // best} examples ({best} batches)")


def test_what_comes_after_the_choice_reads_batches_of_the_chosen_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(self: Any, state: Any, step_size: float, generator: torch.Generator) -> tuple[Any, ...]:
        guide = self._guide.with_size(self._guide.size // 2)
        self.field = guide.bind(self._target)
        return state, guide, step_size, "half of the first guess"

    monkeypatch.setattr(Search, "run", halved)
    warmup, generator = Warmup(ggmc.GGMC(guide=ggmc.Minibatch("auto")), logistic(400), 40), torch.Generator()
    first = warmup.field.epoch
    state = warmup.init(warmup.starts(2, generator), generator)
    for _ in range(40):
        state, _ = warmup.step(state, generator)
    kernel: Any = warmup.tuned()
    assert 400 // kernel.guide.size == warmup.field.epoch == warmup.sampler.field.epoch == 2 * first
    assert kernel.steps % warmup.field.sweep == 0


def test_the_score_is_the_time_per_pass_times_the_acceptance_of_the_settled_half() -> None:
    """A pass is ten steps of ten batches, and the test a third of one; what was tuned is not counted."""
    target, guide = logistic(400), ggmc.Minibatch(40)
    heard: list[float] = []

    def sampler_on(field: GradientField) -> Any:
        def step(*_: Any) -> tuple[None, Info]:
            log_accept = torch.full((2,), -math.inf if len(heard) <= 12 else math.log(0.5), dtype=F64)
            nothing = torch.zeros(2, dtype=F64)
            return None, Info(log_accept, nothing > 0, nothing > 0, nothing, nothing, 4 + 2 * (len(heard) % 2))

        return SimpleNamespace(step=step, gradients_per_step=1)

    unused: Any = None
    search = Search(guide, target, sampler_on, guide.bind(target), lambda h, _: heard.append(h), wanted=0.65)  # pyright: ignore
    tried: dict[int, Tried] = {}
    search._try(tried, 10, unused, 0.1, unused)
    score, h, accepted, batches = tried[10]
    dual = DualAveraging.around(0.1, 0.65)
    for told in heard[:12]:
        assert told == pytest.approx(dual.exploring)
        dual.update(0.0)
    assert heard[12:] == [dual.settled] * 12
    assert (h, accepted, batches) == (pytest.approx(dual.settled), pytest.approx(0.5), 10)
    assert score == pytest.approx(5 * h * 0.5 / (5 / 10 + 1 / 3))


def test_a_pass_is_guessed_to_take_the_same_time_whatever_the_batches() -> None:
    target, guide, first = logistic(400), ggmc.Minibatch(40), list[float]()

    def tried(self: Any, known: dict[int, Tried], batches: int, state: Any, step_size: float, _: Any) -> Any:
        first.append(step_size * batches)
        known[batches] = Tried(-abs(batches - 20.0), step_size, 1.0, batches)
        return state

    search = Search(guide, target, None, guide.bind(target), None, wanted=0.65)  # pyright: ignore
    search._try = tried.__get__(search)
    _, chosen, step_size, _ = search.run(None, 0.1, None)  # pyright: ignore
    assert first == pytest.approx([1.0] * 4)  # of 10, 20, 40 and 5 batches
    assert (chosen.size, step_size) == (20, pytest.approx(0.05))
