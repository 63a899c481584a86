"""Tuning that needs no expert: what it finds on targets whose answer is known."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.dynamics.mass import Dense, Diagonal
from ggmc.dynamics.scheme import State
from ggmc.errors import BadInput
from ggmc.sampling.sample import Chains
from ggmc.warmup import Warmup
from ggmc.warmup.length import Paths, steps_around
from ggmc.warmup.mass import Moments, suitable_kind
from ggmc.warmup.step_size import DualAveraging, harmonic_mean
from ggmc.warmup.warmup import bring_back_lost_chains, windows

F64 = torch.float64


def normal(covariance: torch.Tensor) -> ggmc.Density:
    precision = torch.linalg.inv(covariance)
    return ggmc.Density(lambda x: -(x @ precision @ x) / 2, torch.zeros(len(covariance), dtype=F64))


CORRELATED = torch.tensor([[1.0, 0.95], [0.95, 1.0]], dtype=F64) * torch.tensor([[1.0, 100.0], [100.0, 1e4]], dtype=F64)


@pytest.mark.parametrize("iterations", [0, 1, 10, 20, 25, 50, 100, 333, 1000, 5000])
def test_windows_grow_and_leave_time_to_settle(iterations: int) -> None:
    ends = windows(iterations)
    assert ends == sorted(set(ends))
    assert ends[-1] <= iterations
    if iterations >= 50:
        lengths = [b - a for a, b in pairwise([0, *ends])]
        assert lengths == sorted(lengths)
        assert iterations - ends[-1] >= 0.09 * iterations


@pytest.mark.parametrize("wanted", [0.6, 0.8, 0.95])
def test_dual_averaging_finds_the_wanted_acceptance(wanted: float) -> None:
    dual = DualAveraging.around(5.0, wanted)
    for _ in range(2000):
        dual.update(math.exp(-dual.exploring))
    assert math.exp(-dual.settled) == pytest.approx(wanted, abs=0.02)


def test_harmonic_mean_listens_to_the_chain_that_is_stuck() -> None:
    free = torch.log(torch.tensor([0.9, 0.9, 0.9, 0.9], dtype=F64))
    stuck = torch.tensor([math.log(0.9)] * 3 + [-math.inf], dtype=F64)
    assert harmonic_mean(free) == pytest.approx(0.9)
    assert harmonic_mean(torch.tensor([3.0, 0.0], dtype=F64)) == pytest.approx(1.0)
    assert 0 < harmonic_mean(stuck) < 0.01
    assert harmonic_mean(torch.log(torch.tensor([0.5, 1.0], dtype=F64))) == pytest.approx(2 / 3)


def test_moments_pool_chains_and_draws() -> None:
    rows = torch.randn(50, 4, 3, dtype=F64) * torch.tensor([1.0, 10.0, 0.1], dtype=F64) + 5
    for kind in ("diagonal", "dense"):
        moments = Moments.none(rows[0], kind)
        for previous, row in pairwise(rows):
            moments.add(row, previous)
        pooled = rows[1:].reshape(-1, 3)
        torch.testing.assert_close(moments.mean, pooled.mean(0))
        torch.testing.assert_close(moments.variance, pooled.var(0))
        if kind == "dense":
            torch.testing.assert_close(moments.scatter / (moments.count - 1), pooled.mT.cov())
        mass: Any = moments.mass(2.0, rows)
        covariance = pooled.mT.cov() if kind == "dense" else torch.diag(pooled.var(0))
        expected = 2.0 * torch.linalg.inv(covariance)
        torch.testing.assert_close(mass.matrix, expected if kind == "dense" else expected.diagonal())


def test_effective_draws_tell_a_slow_chain_from_a_fast_one() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2000, 4, 2, dtype=F64, generator=generator)
    slow, fast = [noise[0]], list(noise)
    for e in noise[1:]:
        slow.append(0.99 * slow[-1] + math.sqrt(1 - 0.99**2) * e)
    found = []
    for rows in (slow, fast):
        moments = Moments.none(rows[0], "diagonal")
        for previous, row in pairwise(rows):
            moments.add(row, previous)
        found.append(moments.effective_draws / moments.count)
    assert found[0] == pytest.approx(0.01 / 1.99, rel=0.3)
    assert found[1] == pytest.approx(1.0, rel=0.1)


def test_no_mass_from_chains_that_do_not_move() -> None:
    still = torch.ones(4, 2, dtype=F64)
    moments = Moments.none(still, "dense")
    assert moments.mass(1.0, still) is None
    for _ in range(10):
        moments.add(still, still)
    assert moments.mass(1.0, still) is None


def test_dense_where_there_are_draws_enough() -> None:
    assert suitable_kind(25, 2000) == "dense"
    assert suitable_kind(25, 100) == "diagonal"
    assert suitable_kind(10_000, 10**9) == "diagonal"


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


def test_paths_keep_to_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.warmup.length.MEMORY", 10_000)
    paths = Paths()
    wide = torch.zeros(4, 1000)
    assert paths.watched(wide).untyped_storage().nbytes() <= 4 * 128 * 4  # a copy: the whole row is not kept alive
    for _ in range(50):
        paths.add(torch.zeros(3, 4, 100), torch.ones(3, 4))
    assert len(paths.kept) == 2


def test_ranges_of_steps() -> None:
    assert steps_around(0.01) == (1, 1)
    assert steps_around(1e9)[1] <= 1300
    assert all(steps_around(n)[0] <= n <= steps_around(n)[1] for n in range(1, 50))


def test_defaults_on_a_correlated_and_badly_scaled_gaussian() -> None:
    trace = ggmc.sample(normal(CORRELATED), progress=False)
    assert trace.warnings == []
    assert isinstance(trace.kernel.mass, Dense)
    torch.testing.assert_close(torch.linalg.inv(trace.kernel.mass.matrix), CORRELATED, rtol=0.4, atol=0)
    covariance = np.cov(trace["theta"].reshape(-1, 2).T)
    np.testing.assert_allclose(covariance, CORRELATED.numpy(), rtol=0.15)
    assert trace.stats["acceptance_rate"].mean() > 0.7


def test_a_diagonal_mass_on_request_and_in_many_dimensions() -> None:
    scales = torch.logspace(-2, 2, 300, dtype=F64)
    target = ggmc.Density(lambda x: -((x / scales) ** 2).sum() / 2, torch.zeros(300, dtype=F64), jitter=0.01)
    trace = ggmc.sample(target, progress=False, draws=300, warmup=600)
    assert isinstance(trace.kernel.mass, Diagonal)
    found = trace.kernel.mass.matrix.rsqrt() / scales
    assert 0.7 < found.min() < found.max() < 1.4
    small = ggmc.sample(normal(CORRELATED), ggmc.GGMC(mass="diagonal"), draws=50, warmup=200, progress=False)
    assert isinstance(small.kernel.mass, Diagonal)


@pytest.mark.parametrize(
    "kernel",
    [ggmc.GGMC(), ggmc.GGMC(steps=4, friction=0.3), ggmc.HMC(), ggmc.MALA(), ggmc.MALT(), ggmc.GGMC(scheme="O(ABA)O")],
    ids=str,
)
def test_every_kernel_tunes_itself(kernel: Any) -> None:
    trace = ggmc.sample(normal(CORRELATED), kernel, draws=2000, warmup=1000, progress=False)
    assert type(trace.kernel) is type(kernel)
    assert trace.kernel.step_size is not None
    wanted = 0.6 if isinstance(kernel, ggmc.MALA) else 0.8
    assert trace.stats["acceptance_rate"].mean() == pytest.approx(wanted, abs=0.25)
    assert not any("disagree" in message for message in trace.warnings)
    np.testing.assert_allclose(trace["theta"].std((0, 1)), np.sqrt(np.diag(CORRELATED.numpy())), rtol=0.15)


def test_what_was_given_is_kept() -> None:
    mass = torch.tensor([1.0, 1e-4], dtype=F64)
    trace = ggmc.sample(
        normal(CORRELATED), ggmc.GGMC(steps=3, mass=mass, friction=0.4), draws=50, warmup=100, progress=False
    )
    assert (trace.kernel.steps, trace.kernel.friction) == (3, 0.4)
    assert torch.equal(trace.kernel.mass.matrix, mass)
    given = ggmc.HMC(step_size=0.3, steps=4)
    assert ggmc.sample(normal(CORRELATED), given, draws=10, warmup=10, progress=False).kernel == given


def test_target_accept_is_obeyed() -> None:
    means = [
        ggmc.sample(normal(CORRELATED), draws=300, target_accept=wanted, progress=False).stats["acceptance_rate"].mean()
        for wanted in (0.65, 0.97)
    ]
    assert means[0] < 0.9 < means[1]


def test_temperature_scales_the_spread_and_the_tuned_step_fits() -> None:
    trace = ggmc.sample(normal(CORRELATED), ggmc.GGMC(temperature=0.25, scheme="O(BAB)O"), progress=False)
    assert trace.warnings == []
    np.testing.assert_allclose(trace["theta"].std((0, 1)), 0.5 * np.sqrt(np.diag(CORRELATED.numpy())), rtol=0.15)
    assert trace.stats["kinetic_temperature"].mean() == pytest.approx(0.25, rel=0.1)
    assert 0.3 < trace.kernel.step_size < 2.5


def test_a_chain_in_a_trap_joins_the_others_but_modes_of_equal_height_are_left_alone() -> None:
    rows = torch.arange(8.0, dtype=F64).reshape(4, 2)
    near = State(rows, rows, torch.tensor([0.0, 3.0, 5.0, 16.0], dtype=F64), rows)
    assert torch.equal(bring_back_lost_chains(near, 1.0).position, rows)
    lost = near._replace(potential=torch.tensor([0.0, 3.0, 5.0, 50.0], dtype=F64))
    back = bring_back_lost_chains(lost, 1.0)
    assert torch.equal(back.position[:3], rows[:3])
    assert torch.equal(back.position[3], rows[0])
    assert back.potential is not None
    assert back.potential.tolist() == [0.0, 3.0, 5.0, 0.0]
    assert torch.equal(bring_back_lost_chains(lost, 10.0).position, rows)


@pytest.mark.parametrize("warmup", [1, 5, 19, 60])
def test_short_warm_ups_work(warmup: int) -> None:
    trace = ggmc.sample(normal(CORRELATED), draws=20, warmup=warmup, progress=False)
    assert trace.num_draws == 20
    assert math.isfinite(trace.kernel.step_size)


@pytest.mark.parametrize("friction", [0.01, 0.1])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_momentum_never_outlives_its_mass(friction: float, scale: float) -> None:
    """With little friction, a momentum drawn for the old mass would be wild under the new one."""
    target = ggmc.Density(lambda x: -((x / scale) ** 2).sum() / 2, torch.zeros(3, dtype=F64))
    kernel = ggmc.GGMC(scheme="O(BAB)O", friction=friction, steps=5)
    trace = ggmc.sample(target, kernel, draws=200, warmup=500, progress=False)
    assert 0.3 < trace.kernel.step_size < 2.0
    assert 0.5 < trace.stats["kinetic_temperature"].mean() < 2.0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_lengths_follow_a_change_of_mass(scale: float) -> None:
    target = ggmc.Density(lambda x: -((x / scale) ** 2).sum() / 2, torch.zeros(3, dtype=F64), jitter=scale)
    trace = ggmc.sample(target, draws=20, warmup=60, progress=False)
    assert trace.kernel.steps[1] < 40


def test_a_narrow_valley_in_float32() -> None:
    """A correlation of 1 − 5e-6: what is inverted and factored is float64."""
    covariance = torch.tensor([[1.0, 0.999995], [0.999995, 1.0]], dtype=F64)
    precision = torch.linalg.inv(covariance).float()
    target = ggmc.Density(lambda x: -(x @ precision @ x) / 2, torch.zeros(2), jitter=0.001)
    trace = ggmc.sample(target, draws=50, warmup=500, progress=False)
    assert trace["theta"].dtype == np.float32
    assert math.isfinite(trace.kernel.step_size)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (ggmc.GGMC(temperature=0.0, adjust=False), "temperature 0 has no acceptance to tune a step size by"),
        (ggmc.GGMC(scheme="B(AOA)B"), r"steps cannot be tuned for the word 'B\(AOA\)B'"),
    ],
)
def test_what_cannot_be_tuned_is_refused(kernel: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.sample(normal(CORRELATED), kernel, progress=False)


def gaussian() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=F64))


def test_a_lost_chain_becomes_the_best_one_in_every_respect() -> None:
    rows = torch.randn(3, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    state = State(rows[0], rows[1], torch.tensor([1.0, 0.0, 2.0, 500.0, 15.0], dtype=F64), rows[2])
    before: Any = state
    back: Any = bring_back_lost_chains(state, 1.0)
    assert all(torch.equal(x, y[[0, 1, 2, 1, 4]]) for x, y in zip(back[:4], before[:4], strict=True))
    hot: Any = bring_back_lost_chains(state, 100.0)
    assert all(map(torch.equal, hot[:4], before[:4]))


def test_chains_are_brought_back_between_early_windows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 200, 0)
    called: list[int] = []

    def record(state: State, temperature: float) -> State:
        called.append(chains.warmup.iteration)
        return state

    monkeypatch.setattr("ggmc.warmup.warmup.bring_back_lost_chains", record)
    for _ in range(230):
        chains.advance()
    assert called
    assert set(called) <= set(chains.warmup.ends[1:-1])


def test_a_chain_in_a_trap_is_freed_by_warm_up(caplog: pytest.LogCaptureFixture) -> None:
    """A deep mode and a trap 60 above it: chains that start in the trap leave it, and the trace says nothing of it."""

    def log_prob(x: torch.Tensor) -> torch.Tensor:
        return torch.logaddexp(-(x**2) / 2, -60 - (x - 30) ** 2 / 2).sum()

    target = ggmc.Density(log_prob, torch.full((1,), 14.0, dtype=F64), jitter=4.0)
    trace = ggmc.sample(target, draws=200, warmup=300, chains=6, progress=False)
    assert "was left behind" in caplog.text
    assert np.abs(trace["theta"]).max() < 10


def test_what_is_kept_is_the_settled_step_and_each_kernel_has_its_wanted_acceptance() -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 100, 0)
    for _ in range(100):
        chains.advance()
    assert chains.warmup.dual is not None
    assert chains.kernel.step_size == chains.warmup.dual.settled != chains.warmup.dual.exploring
    kernels = (ggmc.MALA(), ggmc.HMC(), ggmc.GGMC(), ggmc.GGMC(steps=1))
    assert [Warmup(kernel, gaussian(), 100).wanted for kernel in kernels] == [0.6, 0.8, 0.8, 0.8]


@pytest.mark.parametrize("kernel", [ggmc.GGMC(), ggmc.GGMC(steps=3)])
def test_the_step_size_hears_the_harmonic_mean(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    update = DualAveraging.update

    def listening(self: DualAveraging, acceptance: float) -> None:
        heard.append(acceptance)
        update(self, acceptance)

    monkeypatch.setattr(DualAveraging, "update", listening)
    chains = Chains(gaussian(), kernel, 4, 60, 0)
    assert [harmonic_mean(chains.advance().log_accept) for _ in range(60)] == heard


@pytest.mark.parametrize("word", ["OBABO", "O(BAB)O", "O(ABA)O", "BAOAB"])
def test_explored_paths_keep_their_energy_and_their_acceptance(word: str) -> None:
    target = gaussian()
    warmup = Warmup(ggmc.GGMC(scheme=word, temperature=0.25), target, 100)
    warmup.reach = 60
    generator = torch.Generator().manual_seed(0)
    init, _ = ggmc.GGMC(1.0).bind(target)
    state = init(target.starts(8, generator), generator)
    for step_size, bound in ((0.01, 1e-3), (1.5, math.inf)):
        for _ in range(10):
            state, info = warmup._explore(state, step_size, generator)
            positions, acceptances = warmup.paths.kept[-1]
            assert info.energy_error.abs().max() < bound
            assert len(positions) == info.steps + 1
            torch.testing.assert_close(acceptances[-1], info.log_accept.clamp_max(0).exp())


def test_each_window_has_moments_of_its_own_and_sees_chains_move() -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 200, 0)
    for i in range(1, chains.warmup.ends[-1]):
        chains.advance()
        moments = chains.warmup.moments
        assert moments is not None
        assert moments.count == 4 * (i - max(end for end in [0, *chains.warmup.ends] if end <= i))
        assert moments.count < 40 or (moments.square_jumps > 0).all()


def test_few_effective_draws_shrink_a_little_towards_the_diagonal() -> None:
    rows = torch.randn(12, 1, 3, dtype=F64, generator=torch.Generator().manual_seed(0)).cumsum(0)
    moments = Moments.none(rows[0], "dense")
    for previous, row in pairwise(rows):
        moments.add(row, previous)
    assert moments.effective_draws < 12
    covariance, trust = rows[1:, 0].mT.cov(), 11 / 16
    expected = trust * covariance + (1 - trust) * torch.diag(covariance.diagonal())
    mass: Any = moments.mass(1.0, rows)
    torch.testing.assert_close(torch.linalg.inv(mass.matrix), expected)


def _turning() -> Any:
    """A Gaussian's own paths."""
    generator = torch.Generator().manual_seed(0)
    times = 0.1 * torch.arange(41, dtype=F64)[:, None, None]
    while True:
        position, momentum = torch.randn(2, 4, 3, dtype=F64, generator=generator)
        yield position * torch.cos(times) + momentum * torch.sin(times)


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
