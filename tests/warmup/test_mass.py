"""The mass: moments of the chains, and the size of gradients."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

import ggmc
from ggmc.dynamics.mass import Diagonal, Identity, as_mass
from ggmc.warmup import Warmup
from ggmc.warmup.mass import Moments, per_tensor, suitable_kind
from tests.support.gaussians import CORRELATED, gaussian, normal
from tests.support.logistic import logistic
from tests.support.posteriors import NORMAL, inputs, line, outcomes

F64 = torch.float64


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


def test_a_diagonal_mass_on_request_and_in_many_dimensions() -> None:
    scales = torch.logspace(-2, 2, 300, dtype=F64)
    target = ggmc.Density(lambda x: -((x / scales) ** 2).sum() / 2, torch.zeros(300, dtype=F64), jitter=0.01)
    trace = ggmc.sample(target, progress=False, draws=300, warmup=600)
    assert isinstance(trace.kernel.mass, Diagonal)
    found = trace.kernel.mass.matrix.rsqrt() / scales
    assert 0.7 < found.min() < found.max() < 1.4
    small = ggmc.sample(normal(CORRELATED), ggmc.GGMC(mass="diagonal"), draws=50, warmup=200, progress=False)
    assert isinstance(small.kernel.mass, Diagonal)


@pytest.mark.parametrize("friction", [0.01, 0.1])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_a_momentum_never_outlives_its_mass(friction: float, scale: float) -> None:
    """With little friction, a momentum drawn for the old mass would be wild under the new one."""
    target = ggmc.Density(lambda x: -((x / scale) ** 2).sum() / 2, torch.zeros(3, dtype=F64))
    kernel = ggmc.GGMC(scheme="O(BAB)O", friction=friction, steps=5)
    trace = ggmc.sample(target, kernel, draws=200, warmup=500, progress=False)
    assert 0.3 < trace.kernel.step_size < 2.0
    assert 0.5 < trace.stats["kinetic_temperature"].mean() < 2.0


def test_a_mass_per_tensor_is_the_size_of_its_gradients() -> None:
    start = {"a": torch.zeros(2, dtype=F64), "b": torch.zeros(3, dtype=F64)}
    target = ggmc.Density(lambda p: -(p["a"] ** 2).sum() / 2 - 50 * (p["b"] ** 2).sum(), start)
    mass: Any = per_tensor(target, torch.ones(4, 5, dtype=F64))
    torch.testing.assert_close(mass.matrix, torch.tensor([1, 1, 100, 100, 100], dtype=F64))
    trace = ggmc.sample(target, ggmc.HMC(mass="tensor"), draws=10, warmup=100, progress=False)
    assert trace.kernel.mass.matrix[0] == 1
    assert trace.kernel.mass.matrix[2] == trace.kernel.mass.matrix[4] > 5


def test_curvature_is_the_mass_where_none_is_given() -> None:
    guide = ggmc.ControlVariate(50, curvature="dense")
    field: Any = guide.bind(logistic(400))
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=guide), draws=10, warmup=100, progress=False)
    torch.testing.assert_close(trace.kernel.mass.matrix, field.curvature)
    given = ggmc.GGMC(guide=guide, mass="diagonal")
    assert ggmc.sample(logistic(400), given, draws=10, warmup=100, progress=False).kernel.mass.matrix.dim() == 1


def test_large_networks_take_the_priors_mass() -> None:
    torch.manual_seed(0)
    target = ggmc.Posterior(nn.Linear(2, 400).double(), "gaussian", NORMAL, inputs(), inputs(12, 400))
    warmup = Warmup(ggmc.GGMC(), target, 10)
    assert target.advice.mass is not None
    advised = target.advice.mass()
    assert advised is not None
    assert torch.equal(warmup.mass.velocity_variance(), as_mass(advised).velocity_variance())
    small = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    assert isinstance(Warmup(ggmc.GGMC(), small, 10).mass, Identity)


def test_effective_draws_are_those_of_the_slowest_coordinate() -> None:
    noise = torch.randn(2000, 4, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    slow = [noise[0, :, 0]]
    for e in noise[1:, :, 0]:
        slow.append(0.9 * slow[-1] + math.sqrt(1 - 0.9**2) * e)
    rows = torch.stack([torch.stack(slow), noise[:, :, 1]], -1)
    moments, alone = Moments.none(rows[0], "diagonal"), Moments.none(rows[0, :, :1], "diagonal")
    for previous, row in pairwise(rows):
        moments.add(row, previous)
        alone.add(row[:, :1], previous[:, :1])
    assert moments.effective_draws == alone.effective_draws < 0.1 * moments.count


def test_a_mass_per_tensor_is_a_root_mean_square_and_at_least_one() -> None:
    start = {name: torch.zeros(2, dtype=F64) for name in ("a", "b", "idle")}
    target = ggmc.DataDensity(
        lambda p: -(p["a"] ** 2).sum() / 2 - 5 * (p["b"] ** 2).sum() - 0 * p["idle"].sum(),
        lambda p, x: 0 * x * p["a"].sum(),
        torch.zeros(4, dtype=F64),
        start,
    )
    rows = torch.randn(4, 6, dtype=F64, generator=torch.Generator().manual_seed(0))
    mass: Any = per_tensor(target, rows)
    sizes = [rows[:, :2].square().mean().sqrt(), (10 * rows[:, 2:4]).square().mean().sqrt()]
    expected = [(size / min(sizes)).item() for size in sizes for _ in range(2)] + [1.0, 1.0]
    assert mass.matrix.tolist() == pytest.approx(expected)


def test_another_mass_lets_as_far_a_way_take_another_time() -> None:
    """With four times the mass in the median coordinate, positions move half as fast."""
    warmup = Warmup(ggmc.GGMC(), gaussian(3), 100)
    warmup.learnt.time = 2.0
    warmup.learnt.change_mass(Diagonal(torch.tensor([1.0, 4.0, 100.0], dtype=F64)))
    assert warmup.learnt.time == pytest.approx(4.0)
    warmup.learnt.change_mass(Diagonal(torch.tensor([4.0, 4.0, 4.0], dtype=F64)))
    assert warmup.learnt.time == pytest.approx(4.0)
    warmup.learnt.change_mass(None)
    assert warmup.mass == Diagonal(torch.tensor([4.0, 4.0, 4.0], dtype=F64))


@pytest.mark.parametrize("anneal", [None, 5.0])
def test_the_mass_that_is_found_has_the_kernels_temperature(anneal: float | None) -> None:
    """M = T/variance, whatever the temperature of the warm-up: the target then has unit frequency."""
    warmup = Warmup(ggmc.GGMC(temperature=0.25, mass="diagonal"), gaussian(2), 200, anneal=anneal)
    state = warmup.init(torch.zeros(4, 2, dtype=F64), torch.Generator())
    window = warmup._new_window(state)
    assert window.moments is not None
    rows = torch.randn(30, 4, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    for previous, row in pairwise(rows):
        window.moments.add(row, previous)
    found: Any = warmup._found_mass(window, state)
    torch.testing.assert_close(found.matrix, 0.25 / rows[1:].flatten(0, 1).var(0))
