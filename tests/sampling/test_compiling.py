"""`sample(compile=...)`: the same distribution, the same draws for a seed, and compiled only where it pays."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics import compiled_stretch
from ggmc.errors import BadInput
from ggmc.programs.compiled import Compiled
from ggmc.sampling.compiling import work_of
from ggmc.targets import traced
from tests.support.logistic import examples, logistic

F64 = torch.float64
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def normal(d: int = 3) -> ggmc.Density:
    scale = torch.arange(1.0, d + 1, dtype=F64)
    return ggmc.Density(lambda x: -((x / scale) ** 2).sum() / 2, torch.zeros(d, dtype=F64))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled from now on."""
    found: list[Any] = []

    class Counted(Compiled):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            found.append(self)

    monkeypatch.setattr(compiled_stretch, "Compiled", Counted)
    return found


def test_a_seed_gives_the_same_draws_and_the_right_ones(made: list[Any]) -> None:
    one, two = (ggmc.sample(normal(), draws=600, warmup=300, progress=False, compile=True) for _ in range(2))
    number = len(made)
    assert 4 <= number <= 6  # with the identity, then with the mass that was found
    assert torch.equal(torch.as_tensor(one["theta"]), torch.as_tensor(two["theta"]))
    ratio = torch.as_tensor(one["theta"]).flatten(0, 1).std(0) / torch.arange(1.0, 4.0, dtype=F64)
    assert bool(((ratio - 1).abs() < 0.12).all())
    plain = ggmc.sample(normal(), draws=600, warmup=300, progress=False, compile=False)
    assert len(made) == number
    assert plain.kernel.step_size == pytest.approx(one.kernel.step_size, rel=0.3)


def test_plain_runs_are_the_same_to_the_last_bit_whether_traced_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not compiled gives the numbers of the functions as they were written."""
    first = ggmc.sample(normal(), draws=50, warmup=50, progress=False, compile=False)
    monkeypatch.setattr(traced, "CALLS_FIRST", 10**9)
    second = ggmc.sample(normal(), draws=50, warmup=50, progress=False, compile=False)
    assert torch.equal(torch.as_tensor(first["theta"]), torch.as_tensor(second["theta"]))


def test_short_runs_and_large_tensors_are_not_compiled(made: list[Any]) -> None:
    ggmc.sample(normal(), draws=20, warmup=20, progress=False)
    assert made == []
    large = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(200_000, dtype=torch.float64))
    kernel = ggmc.HMC(0.1, 3)
    for target, trajectories, worth in ((large, 10**6, False), (normal(), 100_000, True), (normal(), 10, False)):
        sampler = kernel.sampler(target, kernel.guide.bind(target))
        work = work_of(sampler, target.start.expand(4, -1))
        assert work is not None
        assert work.is_worth_compiling(trajectories) == worth


def test_trajectories_are_longer_where_a_draw_costs_more_than_its_gradients() -> None:
    kernel = ggmc.HMC(0.1, 3)
    small = work_of(kernel.sampler(normal(3), kernel.guide.bind(normal(3))), torch.zeros(4, 3, dtype=F64))
    large = work_of(kernel.sampler(normal(9999), kernel.guide.bind(normal(9999))), torch.zeros(4, 9999, dtype=F64))
    assert small is not None
    assert large is not None
    assert small.per_draw > 5 > 1 > large.per_draw


def test_usual_runs_are_compiled_by_default(made: list[Any]) -> None:
    x, signs = examples()
    target = ggmc.Density(
        lambda w: -(w**2).sum() / 2 + torch.nn.functional.logsigmoid(signs * (x @ w)).sum(), torch.zeros(3, dtype=F64)
    )
    ggmc.sample(target, draws=1000, warmup=1000, progress=False)
    assert made


@pytest.mark.parametrize("compile", [True, False])
def test_a_run_is_resumed_bit_for_bit(tmp_path: Path, compile: bool, made: list[Any]) -> None:
    whole = ggmc.sample(normal(), draws=60, warmup=100, out=tmp_path / "whole", progress=False, compile=compile)
    ggmc.sample(normal(), draws=20, warmup=100, out=tmp_path / "part", progress=False, compile=compile)
    del made[:]
    longer = ggmc.resume(tmp_path / "part", normal(), draws=60, progress=False)
    assert bool(made) == compile
    assert torch.equal(torch.as_tensor(longer["theta"]), torch.as_tensor(whole["theta"]))


def test_a_change_of_batch_size_in_warm_up_is_compiled_too(made: list[Any]) -> None:
    target = logistic()
    kernel = ggmc.GGMC(guide=ggmc.Minibatch("auto"))
    trace = ggmc.sample(target, kernel, draws=100, warmup=200, progress=False, compile=True)
    assert len(made) >= 3
    assert trace.stats["is_accepted"].mean() > 0.3


def test_without_a_compiler_a_notice_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with caplog.at_level(logging.WARNING):
        trace = ggmc.sample(normal(), draws=50, warmup=100, progress=False, compile=True)
    assert [m for m in caplog.messages if "not compiled" in m] == [
        "trajectories are not compiled, which is slower: there is no C compiler: install gcc or clang"
    ]
    plain = ggmc.sample(normal(), draws=50, warmup=100, progress=False, compile=False)
    assert torch.equal(torch.as_tensor(trace["theta"]), torch.as_tensor(plain["theta"]))


@pytest.mark.parametrize("choice", ["yes", 1, None])
def test_other_choices_are_refused(choice: Any) -> None:
    with pytest.raises(BadInput, match='compile must be "auto", True or False'):
        ggmc.sample(normal(), draws=10, warmup=10, progress=False, compile=choice)
