"""The trajectory's length: paths, and what is read off them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import ggmc
from ggmc.kernels import WordSampler
from ggmc.warmup import Warmup
from ggmc.warmup.length import Paths, explore, steps_around
from tests.support.gaussians import gaussian
from tests.support.logistic import logistic

F64 = torch.float64


def _turning() -> Any:
    """A Gaussian's own paths."""
    generator = torch.Generator().manual_seed(0)
    times = 0.1 * torch.arange(41, dtype=F64)[:, None, None]
    while True:
        position, momentum = torch.randn(2, 4, 3, dtype=F64, generator=generator)
        yield position * torch.cos(times) + momentum * torch.sin(times)


def test_the_cheapest_length_on_a_gaussian_is_a_quarter_turn() -> None:
    """x(t) = x₀ cos t + m sin t: at t = π/2 the next draw is independent, in x and in x²."""
    generator = torch.Generator().manual_seed(0)
    step, reach = 0.1, 40
    paths = Paths()
    times = step * torch.arange(reach + 1, dtype=F64)[:, None, None]
    for _ in range(400):
        position, momentum = torch.randn(2, 4, 3, dtype=F64, generator=generator)
        positions = position * torch.cos(times) + momentum * torch.sin(times)
        paths.add(positions, torch.ones(reach + 1, 4, dtype=F64))
    best = paths.best_steps()
    assert best is not None
    assert best * step == pytest.approx(math.pi / 2, abs=0.4)


def test_slow_paths_ask_for_longer_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    paths = Paths()
    times = 0.001 * torch.arange(11, dtype=F64)[:, None, None]
    for _ in range(50):
        position, momentum = torch.randn(2, 4, 3, dtype=F64, generator=generator)
        paths.add(position + momentum * times, torch.ones(11, 4, dtype=F64))
    best = paths.best_steps()
    assert best is not None
    assert best >= 7


def test_a_test_that_costs_much_asks_for_longer_ones() -> None:
    """Where the squared jump grows as the root of n, a draw of n steps costs (n + test)/√n: least at n = test."""
    paths = Paths()
    begin = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=F64)[:, None]
    away = 0.1 * torch.arange(41, dtype=F64)[:, None, None] ** 0.25
    for sign in (1, -1) * 10:
        paths.add(begin + sign * away, torch.ones(41, 4, dtype=F64))
    assert paths.best_steps() == 1
    best = paths.best_steps(per_test=16.0)
    assert best is not None
    assert 12 <= best <= 21  # trajectories are drawn from a range around it


def test_paths_keep_to_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.warmup.length.MEMORY", 10_000)
    paths = Paths()
    wide = torch.zeros(4, 1000)
    assert paths.observed(wide).untyped_storage().nbytes() <= 4 * 128 * 4  # a copy: the whole row is not kept alive
    for _ in range(50):
        paths.add(torch.zeros(3, 4, 100), torch.ones(3, 4))
    assert len(paths.kept) == 2


def test_ranges_of_steps() -> None:
    assert steps_around(0.01) == (1, 1)
    assert steps_around(1e9)[1] <= 1300
    assert all(steps_around(n)[0] <= n <= steps_around(n)[1] for n in range(1, 50))


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_lengths_follow_a_change_of_mass(scale: float) -> None:
    target = ggmc.Density(lambda x: -((x / scale) ** 2).sum() / 2, torch.zeros(3, dtype=F64), jitter=scale)
    trace = ggmc.sample(target, draws=20, warmup=60, progress=False)
    steps = trace.kernel.steps
    assert (steps if isinstance(steps, int) else steps[1]) < 40


def test_lengths_that_are_rejected_are_not_chosen() -> None:
    paths, turning = Paths(), _turning()
    acceptances = (torch.arange(41) <= 6).double()[:, None].expand(41, 4)
    for _ in range(100):
        positions = next(turning)
        positions[20:] = math.nan
        paths.add(positions, acceptances)
    best = paths.best_steps()
    assert best is not None
    assert 2 <= best <= 7


def test_one_broken_path_does_not_spoil_the_others() -> None:
    paths, turning = Paths(), _turning()
    for i in range(400):
        positions, acceptances = next(turning), torch.ones(41, 4, dtype=F64)
        if i == 7:
            positions[1:], acceptances[1:] = math.nan, 0.0
        paths.add(positions, acceptances)
    best = paths.best_steps()
    assert best is not None
    assert abs(0.1 * best - math.pi / 2) < 0.4


@pytest.mark.parametrize("word", ["OBABO", "O(BAB)O", "O(ABA)O", "BAOAB", "O(BCSS3)O"])
def test_explored_paths_keep_their_energy_and_their_acceptance(word: str) -> None:
    target = gaussian()
    warmup = Warmup(ggmc.GGMC(scheme=word, temperature=0.25), target, 100)
    sampler, paths = warmup.sampler, Paths()
    assert isinstance(sampler, WordSampler)
    generator = torch.Generator().manual_seed(0)
    state = warmup.init(target.starts(8, generator), generator)
    for step_size, bound in ((0.01, 1e-3), (1.5, math.inf)):
        parameters = sampler.parameters.change(step_size=step_size)
        for _ in range(10):
            before = state
            state, info = explore(
                sampler.scheme.repeated, 1, 60, state, parameters, target, warmup.field, paths, generator
            )
            positions, acceptances = paths.kept[-1]
            assert info.energy_error.abs().max() < bound
            assert len(positions) == info.steps + 1
            assert torch.equal(positions[0], before.position)
            assert torch.equal(acceptances[0], torch.ones(8, dtype=F64))
            torch.testing.assert_close(acceptances[-1], info.log_accept.clamp_max(0).exp())
            chosen = torch.where(info.accepted[:, None], positions[-1], positions[0])
            assert torch.equal(state.position, chosen)


def test_minibatches_travel_whole_sweeps() -> None:
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.Minibatch(100)), draws=10, warmup=150, progress=False)
    assert isinstance(trace.kernel.steps, int)
    assert trace.kernel.steps % 8 == 0
    assert (trace.stats["n_steps"] == trace.kernel.steps).all()


@pytest.mark.parametrize(("word", "unit"), [("O(BCSS2d)O", 4), ("O(BCSS3d)O", 8), ("O(ABABABA)O", 8)])
def test_minibatches_travel_whole_sweeps_with_several_gradients_in_a_step(word: str, unit: int) -> None:
    """Four batches out and back are eight gradients: four steps of two, or three sweeps in eight steps of three."""
    kernel = ggmc.GGMC(guide=ggmc.Minibatch(100), scheme=word)
    warmup = Warmup(kernel, logistic(400), 60)
    assert warmup.unit == unit
    trace = ggmc.sample(logistic(400), kernel, draws=10, warmup=60, progress=False)
    assert isinstance(trace.kernel.steps, int)
    assert trace.kernel.steps % unit == 0


def test_a_word_of_several_stages_is_tuned_to_longer_and_fewer_steps() -> None:
    frequencies = torch.linspace(1, 5, 25, dtype=F64)
    target = ggmc.Density(lambda x: -((frequencies * x) ** 2).sum() / 2, torch.zeros(25, dtype=F64))
    one, three = (
        ggmc.sample(target, ggmc.GGMC(scheme=word, mass="identity"), draws=100, warmup=200, progress=False)
        for word in ("O(BAB)O", "O(BCSS3)O")
    )
    assert three.kernel.step_size > 2 * one.kernel.step_size
    assert three.stats["n_steps"].mean() < one.stats["n_steps"].mean()
    assert three.stats["acceptance_rate"].mean() > 0.7


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_guide_that_errs_gets_shorter_trajectories_and_not_ever_shorter_steps(seed: int) -> None:
    """Over a given time the acceptance does not depend on the step; tuning it once went on to a thousand steps."""
    kernel = ggmc.GGMC(guide=ggmc.Surrogate(lambda w: -40 * (w**2).sum()))
    trace = ggmc.sample(logistic(400), kernel, draws=100, warmup=300, progress=False, seed=seed)
    assert trace.stats["n_steps"].max() < 40
    assert trace.kernel.step_size > 0.02
    assert trace.stats["acceptance_rate"].mean() > 0.7
