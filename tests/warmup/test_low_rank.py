"""A mass of low rank: the stiffest directions, found from differences of gradients at past states."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.mass import Diagonal, LowRank
from ggmc.errors import BadInput
from ggmc.targets import Advice
from ggmc.warmup import Warmup
from ggmc.warmup.low_rank import curvature_products, largest_rank, leading, low_rank, prior_diagonal
from ggmc.warmup.mass import GOLDEN, STATES, PastStates
from tests.support.logistic import logistic
from tests.support.posteriors import dropping, inputs, outcomes, posterior

F64 = torch.float64
STIFF = torch.tensor([1e4, 4e3, 2e3, 1e3, 400.0], dtype=F64)


def orthonormal(d: int, k: int) -> Tensor:
    return torch.linalg.qr(torch.randn(d, k, dtype=F64, generator=torch.Generator().manual_seed(0)))[0]


def stiff(d: int = 300, dtype: torch.dtype = F64) -> ggmc.Density:
    """N(0, (I + V diag(λ) Vᵀ)⁻¹) with five directions that are no coordinates."""
    columns = (orthonormal(d, 5) * STIFF.sqrt()).to(dtype)
    return ggmc.Density(
        lambda x: -(x.square().sum() + (x @ columns).square().sum()) / 2, torch.zeros(d, dtype=dtype), jitter=0.05
    )


def test_warm_up_finds_the_stiff_directions() -> None:
    kernel = ggmc.GGMC(mass="low_rank", scheme="O(BAB)O", steps=12)
    trace = ggmc.sample(stiff(), kernel, draws=10, warmup=200, chains=4, progress=False)
    mass: Any = trace.kernel.mass
    assert isinstance(mass, LowRank)
    assert mass.rank == 5
    root = mass.colour(torch.eye(300, dtype=F64))
    found = torch.linalg.eigvalsh(root.mT @ root).flip(0)[:5]
    torch.testing.assert_close(found, 1 + STIFF, rtol=0.03, atol=0)
    assert trace.kernel.step_size > 0.1  # 0.02 is the longest stable one without
    assert "the 5 stiffest directions" in trace.attributes["mass"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_curvature_of_a_gaussian_is_its_precision(dtype: torch.dtype) -> None:
    states = torch.randn(20, 300, generator=torch.Generator().manual_seed(1)).to(dtype)
    unit = Diagonal(torch.ones(300, dtype=F64), dtype)
    mass: Any = low_rank(stiff(dtype=dtype), states, unit, 0)[0]
    torch.testing.assert_close(mass.values, STIFF, rtol=1e-3 if dtype == torch.float32 else 1e-4, atol=0)
    overlap = (mass.directions.mT @ orthonormal(300, 5)).abs()
    torch.testing.assert_close(overlap, torch.eye(5, dtype=F64), rtol=0, atol=1e-3)
    assert mass.dtype == dtype


def test_the_curvature_of_a_target_with_data_is_averaged_over_states_and_examples() -> None:
    """Each example is seen once, each state by as many; with all states alike it is the Hessian itself."""
    target = logistic(120)
    d = target.layout.size
    state = torch.full((1, d), 0.3, dtype=F64)
    eye, diagonal = torch.eye(d, dtype=F64), torch.tensor([4.0, 1.0, 0.25], dtype=F64)
    everything = target.data.slice(0, 120)
    batch = tuple(leaf.expand(d, *leaf.shape) for leaf in everything)
    hessian = target.batch_hessian_products(state.expand(d, -1), batch, torch.ones(d, 120, dtype=F64), eye)
    generator = torch.Generator().manual_seed(0)
    for number in (1, STATES, 40):
        product = curvature_products(target, state.expand(number, -1), diagonal, generator)
        scale = diagonal.rsqrt()
        torch.testing.assert_close(product(eye), scale[:, None] * hessian * scale, rtol=1e-6, atol=1e-6)


def test_leading_directions_of_a_slowly_falling_spectrum() -> None:
    values = torch.cat([700 / torch.arange(1, 101, dtype=F64) ** 1.5, torch.zeros(300, dtype=F64)])
    vectors = orthonormal(400, 400)
    matrix = (vectors * values) @ vectors.mT
    found, _ = leading(lambda columns: matrix @ columns, 400, 60, torch.Generator().manual_seed(0))
    torch.testing.assert_close(found[:30], values[:30], rtol=0.06, atol=0)
    assert (found[30:] <= values[30:60]).all()


def test_the_rank_follows_the_number_of_parameters() -> None:
    assert [largest_rank(d) for d in (1, 8, 300, 6310, 2**20)] == [1, 2, 75, 200, 32]


def test_a_diagonal_where_no_direction_stands_out() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(8, dtype=F64))
    unit = Diagonal(torch.ones(8, dtype=F64))
    assert low_rank(target, torch.zeros(2, 8, dtype=F64), unit, 0) == (
        unit,
        "a diagonal: no direction is twice as stiff as it says",
    )
    wild = ggmc.Density(lambda x: -(x**2).sum() / (x.sum() < 1), torch.zeros(8, dtype=F64))
    assert low_rank(wild, torch.ones(2, 8, dtype=F64), unit, 0)[1].startswith("a diagonal: the curvature is not finite")


def test_a_network_adds_directions_to_the_precision_of_its_prior() -> None:
    kernel = ggmc.HMC(mass="low_rank", steps=8)
    target = posterior(prior=ggmc.priors.Gaussian(0.5))
    four = torch.full((target.layout.size,), 4.0, dtype=F64)
    torch.testing.assert_close(Warmup(kernel, target, 60).mass.stored(), four, rtol=0.1, atol=0)
    trace = ggmc.sample(target, kernel, draws=5, warmup=60, chains=2, progress=False)
    mass: Any = trace.kernel.mass
    assert isinstance(mass, LowRank)
    torch.testing.assert_close(mass.diagonal, four, rtol=0.1, atol=0)
    assert mass.values[0] > 10
    assert mass.rank <= target.layout.size // 4


@pytest.mark.parametrize("advised", [None, torch.eye(2, dtype=F64), -torch.ones(2, dtype=F64)])
def test_advice_that_is_no_diagonal_is_left_alone(advised: Tensor | None) -> None:
    target = ggmc.DataDensity(
        lambda w: -(w**2).sum() / 2,
        lambda w, batch: -((batch - w.sum()) ** 2),
        torch.ones(10, dtype=F64),
        torch.zeros(2, dtype=F64),
        advice=Advice(mass=lambda: advised),
    )
    assert prior_diagonal(target) is None


def test_past_states_are_spread_over_the_window_and_over_chains() -> None:
    states = PastStates(torch.empty(0, 2))
    for i in range(1000):
        states.add(torch.tensor([[float(i), chain] for chain in range(4)]))
        assert len(states.rows) < 2 * STATES
    when, chains = states.rows.unbind(1)
    assert when.diff().unique().tolist() == [64.0]
    assert when[0] == 0
    assert min(chains.long().bincount(minlength=4)) >= 2
    assert math.isclose(GOLDEN**2, 1 - GOLDEN)


def test_a_target_with_random_gradients_is_refused() -> None:
    target = posterior(module=dropping(), data=(inputs(), outcomes()[:, None]))
    with pytest.raises(BadInput, match=r'mass="low_rank" is found from differences of gradients.*"tensor"'):
        Warmup(ggmc.GGMC(mass="low_rank", adjust=False), target, 20)
