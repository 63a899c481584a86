"""Threads: one for small work, torch's own number for large work, and the number restored however a run ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ggmc
from ggmc.guides import GradientField
from ggmc.sampling import threads
from ggmc.sampling.callbacks import Moment
from ggmc.sampling.threads import ENOUGH, threads_for, use_threads
from tests.support.gaussians import gaussian
from tests.support.logistic import logistic
from tests.support.posteriors import NORMAL, posterior

F64 = torch.float64


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Torch has two threads, whatever the other tests use."""
    with use_threads(2):
        yield


def large(numbers: int) -> ggmc.Density:
    """A density of one number whose gradient goes through a tensor of so many, for each chain."""
    grid = torch.linspace(0, 1, numbers, dtype=F64)
    return ggmc.Density(lambda x: -(x**2).sum() / 2 - (grid * x).mean() * 0, torch.zeros(1, dtype=F64))


def threads_on(target: Any, guide: Any = None, chains: int = 4) -> int:
    field = (guide or ggmc.Exact()).bind(target)
    return threads_for(field, target.starts(chains, torch.Generator().manual_seed(0)))


SMALL: list[Any] = [
    (gaussian(), None),
    (logistic(400), None),
    (logistic(400), ggmc.Minibatch(50)),
    (logistic(400), ggmc.Minibatch(50, recut=True)),
    (logistic(400), ggmc.ControlVariate(50, curvature="dense")),
    (logistic(400), ggmc.Surrogate(lambda w: -(w**2).sum())),
    (posterior(), None),
    (posterior(), ggmc.Minibatch(10)),
    (posterior(vectorise=False), None),
]


@pytest.mark.parametrize(("target", "guide"), SMALL)
def test_small_work_uses_one_thread(target: Any, guide: Any) -> None:
    assert threads_on(target, guide) == 1
    assert torch.get_num_threads() == 2


def test_large_work_uses_them_all() -> None:
    assert threads_on(large(ENOUGH), chains=1) == 2
    assert threads_on(large(ENOUGH // 4), chains=4) == 2  # vectorised: all chains' numbers in one tensor
    assert threads_on(large(ENOUGH // 16), chains=4) == 1
    x, y = torch.randn(ENOUGH // 100, 100), torch.zeros(ENOUGH // 100)
    net = nn.Sequential(nn.Linear(100, 128), nn.Tanh(), nn.Linear(128, 1))
    assert threads_on(ggmc.Posterior(net, "gaussian", NORMAL, x, y, vectorise=False), chains=2) == 2
    few = ggmc.Minibatch(20)  # of a batch of 20 examples the gradient is small
    assert threads_on(ggmc.Posterior(net, "gaussian", NORMAL, x, y, vectorise=False), few, chains=2) == 1


class Broken(GradientField):
    """A field that fails when it is observed."""

    def __init__(self) -> None:
        super().__init__(order=None)
        self.calls = 0

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        self.calls += 1
        if self.calls == 2:
            raise RuntimeError("not under observation")
        return position, None


def test_a_gradient_that_cannot_be_observed_leaves_the_number_as_it_is() -> None:
    assert threads_for(Broken(), torch.zeros(2, 3)) == 2


def test_with_one_thread_nothing_is_evaluated() -> None:
    field = Broken()
    with use_threads(1):
        assert threads_for(field, torch.zeros(2, 3)) == 1
    assert field.calls == 0


def test_a_run_uses_one_thread_and_restores_the_number() -> None:
    seen: list[int] = []

    def note(moment: Moment) -> None:
        seen.append(torch.get_num_threads())

    ggmc.sample(gaussian(), draws=5, warmup=30, progress=False, callback=note)
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("error", [RuntimeError("no luck"), KeyboardInterrupt()])
@pytest.mark.parametrize("after", [3, 40])
def test_the_number_is_restored_however_a_run_ends(error: BaseException, after: int) -> None:
    def fail(moment: Moment) -> None:
        assert torch.get_num_threads() == 1
        if moment.iteration == after:
            raise error

    with contextlib.suppress(RuntimeError, KeyboardInterrupt):  # after some draws, Ctrl-C raises nothing
        ggmc.sample(gaussian(), draws=50, warmup=30, progress=False, callback=fail)
    assert torch.get_num_threads() == 2


def test_draws_do_not_depend_on_the_number_by_more_than_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    target = logistic(400)
    kernel = ggmc.HMC(0.1, 4)
    with_one = ggmc.sample(target, kernel, draws=10, warmup=5, progress=False)
    monkeypatch.setattr(threads, "ENOUGH", 0)
    with_two = ggmc.sample(target, kernel, draws=10, warmup=5, progress=False)
    np.testing.assert_allclose(with_one.positions, with_two.positions, rtol=1e-9, atol=1e-9)
    assert np.array_equal(with_one.stats["is_accepted"], with_two.stats["is_accepted"])
