"""The trajectory's length: paths, and what is read off them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import ggmc
from ggmc.kernels import WordSampler
from ggmc.warmup import Warmup
from ggmc.warmup.length import Paths, _cost, explore, next_reach, steps_around
from ggmc.warmup.step_size import DualAveraging
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


# What a length is made of


def linear_paths(paths: Paths, number: int, steps: int) -> None:
    """Paths of four chains that move away from ±1, to one side or the other, at a steady pace."""
    begin = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=F64)[:, None]
    away = 0.01 * torch.arange(steps + 1, dtype=F64)[:, None, None]
    for i in range(number):
        paths.add(begin + (-1) ** i * away, torch.ones(steps + 1, 4, dtype=F64))


def test_lengths_that_few_paths_have_reached_are_not_chosen() -> None:
    """Of a hundred paths five go on to forty steps: fewer than a tenth. The range lies within the others'."""
    paths = Paths()
    linear_paths(paths, 95, 10)
    linear_paths(paths, 5, 40)
    assert paths.best_steps() == 8  # 8 · 1.25 = 10
    linear_paths(paths, 20, 40)
    best = paths.best_steps()
    assert best is not None
    assert best > 20


def test_a_coordinate_that_never_moves_has_nothing_to_say() -> None:
    paths, beside = Paths(), Paths()
    turning = _turning()
    for _ in range(50):
        positions = next(turning)
        paths.add(positions, torch.ones(41, 4, dtype=F64))
        still = torch.full_like(positions[..., :1], 7.0)
        beside.add(torch.cat([positions, still], -1), torch.ones(41, 4, dtype=F64))
    assert paths.best_steps() == beside.best_steps()
    none = Paths()
    for _ in range(50):
        none.add(torch.ones(41, 4, 2, dtype=F64), torch.ones(41, 4, dtype=F64))
    assert none.best_steps() is None


def test_between_the_ends_of_a_minibatch_path_the_error_is_taken_to_grow_in_proportion() -> None:
    target = logistic(400)
    warmup = Warmup(ggmc.GGMC(guide=ggmc.Minibatch(100), temperature=0.5), target, 100)
    sampler, paths, generator = warmup.sampler, Paths(), torch.Generator().manual_seed(0)
    assert isinstance(sampler, WordSampler)
    state = warmup.init(torch.zeros(4, 3, dtype=F64), generator)
    numbers = sampler.parameters.change(step_size=0.1)
    lengths = set[int]()
    for _ in range(6):
        state, info = explore(sampler.scheme.repeated, 8, 3, state, numbers, target, warmup.field, paths, generator)
        units = info.steps // 8
        errors = torch.arange(units + 1, dtype=F64)[:, None] / units * info.energy_error
        torch.testing.assert_close(paths.kept[-1][1], (-errors / 0.5).clamp_max(0).exp())
        lengths.add(info.steps)
    assert lengths <= {8, 16, 24}
    assert len(lengths) > 1


def test_the_range_of_steps_goes_a_fourth_either_way() -> None:
    assert [steps_around(length) for length in (0.3, 1.0, 2.0, 8.0, 20.0, 5000.0)] == [
        (1, 1), (1, 1), (2, 2), (6, 10), (15, 25), (768, 1280)
    ]  # fmt: skip


def tuned_to(kernel: Any, target: Any, time: float, first: float = 0.1) -> Warmup:
    warmup = Warmup(kernel, target, 100)
    warmup.learnt.time, warmup.learnt.dual = time, DualAveraging.around(first, 0.8)
    return warmup


def test_the_steps_are_as_many_as_make_the_time() -> None:
    exact = tuned_to(ggmc.GGMC(), gaussian(), 2.0)
    assert [exact._steps(h, exact.field) for h in (0.1, 0.02)] == [(15, 25), (75, 125)]
    sweeps = tuned_to(ggmc.GGMC(guide=ggmc.Minibatch(100)), logistic(400), 2.0)
    assert [sweeps._steps(h, sweeps.field) for h in (0.1, 0.06, 0.7)] == [(16, 16), (32, 32), (8, 8)]
    given = tuned_to(ggmc.GGMC(steps=(3, 4)), gaussian(), 2.0)
    assert given._steps(0.1, given.field) == (3, 4)
    errs = tuned_to(ggmc.GGMC(guide=ggmc.Surrogate(lambda w: -(w**2).sum())), logistic(), 2.0, first=0.8)
    assert [errs._steps(h, errs.field) for h in (0.4, 0.2, 0.02)] == [(4, 6), (8, 12), (8, 12)]
    unknown = Warmup(ggmc.GGMC(), gaussian(), 100)
    assert unknown._steps(0.1, unknown.field) == (8, 12)  # the first paths' ten steps


@pytest.mark.parametrize(
    ("kernel", "unit", "per_test"),
    [
        (ggmc.GGMC(mass="identity"), 1, 0.0),
        (ggmc.GGMC(guide=ggmc.Surrogate(lambda w: -(w**2).sum()), mass="identity"), 1, 1 / 3),
        (ggmc.GGMC(guide=ggmc.Minibatch(100), mass="identity"), 8, 1 / 6),  # of a sweep, which is two passes
        (ggmc.GGMC(guide=ggmc.ControlVariate(100), mass="identity"), 1, 4 / 3),  # of a step, a fourth of a pass
    ],
    ids=["exact", "surrogate", "sweeps", "control variate"],
)
@pytest.mark.parametrize(("best", "reach", "next_reach"), [(6, 10, 15), (1, 40, 20), (1, 3, 5), (900, 5, None)])
def test_a_window_settles_the_time_and_how_far_the_next_paths_reach(
    kernel: Any,
    unit: int,
    per_test: float,
    best: int,
    reach: int,
    next_reach: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warmup, generator = Warmup(kernel, logistic(400), 200), torch.Generator().manual_seed(0)
    state, _ = warmup.step(warmup.init(torch.zeros(2, 3, dtype=F64), generator), generator)
    asked: list[float] = []
    monkeypatch.setattr(Paths, "best_steps", lambda self, per_test: asked.append(per_test) or best)
    window, dual = warmup.learnt.window, warmup.learnt.dual
    assert window is not None
    assert dual is not None
    settled, warmup.learnt.reach = dual.settled, reach
    warmup._close_window(window, dual, state, generator)
    assert asked == [pytest.approx(per_test)]
    assert warmup.learnt.time == pytest.approx(best * unit * settled)
    assert warmup.learnt.reach == (1024 // unit if next_reach is None else next_reach)


def test_paths_reach_further_where_the_longest_was_the_best() -> None:
    assert next_reach(best=8, longest=8, reach=10, least=5, most=1024, settled=True) == 64
    assert next_reach(best=8, longest=8, reach=10, least=5, most=1024, settled=False) == 20  # the mass may be to blame
    assert next_reach(best=3, longest=8, reach=10, least=5, most=1024, settled=True) == 8
    assert next_reach(best=1, longest=80, reach=100, least=5, most=1024, settled=True) == 50  # shorter by halves only
    assert next_reach(best=900, longest=900, reach=1000, least=5, most=1024, settled=True) == 1024
    assert next_reach(best=1, longest=4, reach=5, least=5, most=1024, settled=True) == 5


def test_a_square_counts_less_than_a_mean() -> None:
    """Lengths at which a path ends opposite to its start suit means, and leave squares behind: up to a point."""
    change = torch.tensor([[0.0, 0.0], [0.25, 0.4], [1.2, 0.38], [1.2, 0.02]], dtype=torch.float64)
    costs = [_cost(change, n, 0.0) for n in (1, 2, 3)]
    assert min(range(3), key=costs.__getitem__) == 1
    assert _cost(change, 1, 100.0) > 10 * _cost(change, 1, 0.0)  # what a test costs is paid for each draw
