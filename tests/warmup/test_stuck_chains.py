"""Chains where there is next to no probability are moved, and the trace says so; all others are left alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.state import State
from ggmc.sampling.chains import Chains
from ggmc.warmup import Warmup, stuck_chains
from ggmc.warmup.stuck_chains import ChainMoments, Judged, allowance, judge, move_stuck_chains
from ggmc.warmup.windows import Window
from tests.support.gaussians import gaussian

F64 = torch.float64


def seen(rows: Tensor, potential: Tensor) -> ChainMoments:
    """Moments of rows [draws, chains, d] with potentials [draws, chains]."""
    moments = ChainMoments.none(rows[0])
    for row, u in zip(rows, potential, strict=True):
        moments.add(row, u)
    return moments


def normal_draws(
    draws: int, scales: Tensor, heights: Tensor, correlation: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Chains [draws, chains, d] in Gaussian regions of these scales [chains, d], potentials, and last gradients.

    All coordinates have the same correlation. U = zᵀR⁻¹z/2 + height, z = x/scale.
    """
    generator = torch.Generator().manual_seed(0)
    chains, d = scales.shape
    matrix = torch.full((d, d), correlation, dtype=F64) + (1 - correlation) * torch.eye(d, dtype=F64)
    factor = torch.linalg.cholesky(matrix)
    z = torch.randn(draws, chains, d, dtype=F64, generator=generator) @ factor.mT
    force = z @ torch.linalg.inv(matrix)
    return z * scales, (z * force).sum(-1) / 2 + heights, (force / scales)[-1]


# The estimate


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("draws", [30, 300])
def test_the_log_mass_of_gaussian_regions_is_their_true_one(correlation: float, draws: int) -> None:
    """∫ exp(−U) = (2π)^(d/2) · det Σ^½ · exp(−height), whose differences between chains are known."""
    d = 8
    scales = torch.tensor([1.0, 0.05, 20.0, 1.0], dtype=F64)[:, None] * torch.linspace(0.5, 2.0, d, dtype=F64)
    heights = torch.tensor([0.0, -20.0, 15.0, 40.0], dtype=F64)
    rows, potential, gradient = normal_draws(draws, scales, heights, correlation)
    found = seen(rows, potential).log_mass(gradient, 1.0)
    truth = scales.log().sum(1) - heights
    # Of each chain: the mean potential has an error of √(d/2n), one gradient's logarithms one of √(d·π²/8).
    assert ((found - found[0]) - (truth - truth[0])).abs().max() < 6 * math.sqrt(2 * d * math.pi**2 / 8)


def test_the_temperature_scales_potentials_and_gradients() -> None:
    scales, heights = torch.tensor([[1.0], [0.1]], dtype=F64).expand(2, 5), torch.tensor([0.0, 3.0], dtype=F64)
    rows, potential, gradient = normal_draws(200, scales, heights)
    cold = seen(rows, potential).log_mass(gradient, 1.0)
    hot = seen(rows * math.sqrt(7.0), potential * 7.0).log_mass(gradient * math.sqrt(7.0), 7.0)
    torch.testing.assert_close(hot - cold, torch.full((2,), 2.5 * math.log(7.0), dtype=F64))


def test_moments_of_a_chain_are_its_mean_and_covariance() -> None:
    rows, potential, _ = normal_draws(50, torch.ones(3, 4, dtype=F64), torch.arange(3, dtype=F64), 0.5)
    moments = seen(rows, potential)
    torch.testing.assert_close(moments.potential, potential.mean(0))
    torch.testing.assert_close(moments.mean, rows.mean(0))
    for chain in range(3):
        torch.testing.assert_close(moments.scatter[chain] / 49, rows[:, chain].mT.cov())
    wide = seen(torch.randn(5, 2, 100, dtype=F64), torch.zeros(5, 2, dtype=F64))
    assert wide.scatter.shape == (2, 100)  # no [100, 100] for each chain


def test_a_slow_chain_is_given_the_width_that_its_gradients_tell() -> None:
    """A chain that has seen a hundredth of a wide region: the covariance alone would make it e^−92 of what it is."""
    d = 20
    scales, heights = torch.ones(4, d, dtype=F64), torch.zeros(4, dtype=F64)
    rows, potential, gradient = normal_draws(100, scales, heights)
    rows[:, 0] = rows[-1, 0] + 0.01 * rows[:, 0]
    moments = seen(rows, potential)
    assert moments._explored_log_volume()[0] < -80
    assert not judge(moments, potential[-1], gradient, 1.0).stuck.any()


@pytest.mark.parametrize(("draws", "dense"), [(11, False), (12, True)])
def test_correlations_count_where_three_draws_for_each_dimension_know_them(draws: int, dense: bool) -> None:
    rows, potential, _ = normal_draws(draws, torch.ones(2, 4, dtype=F64), torch.zeros(2, dtype=F64), 0.9)
    covariance = torch.stack([rows[:, chain].mT.cov() for chain in range(2)])
    expected = covariance.logdet() / 2 if dense else covariance.diagonal(dim1=1, dim2=2).log().sum(1) / 2
    torch.testing.assert_close(seen(rows, potential)._explored_log_volume(), expected)


def test_one_gradient_of_each_chain_tells_the_volume_without_bias() -> None:
    """At T = 2 the gradients of coordinates of variance 2s² are N(0, 2/s²); of χ²₁ the logarithm has variance π²/2."""
    scales, chains = torch.tensor([0.5, 2.0, 3.0], dtype=F64), 20_000
    noise = torch.randn(chains, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    found = stuck_chains._log_volume_from(math.sqrt(2.0) / scales * noise, 2.0)
    expected = (math.sqrt(2.0) * scales).log().sum()
    assert abs(found.mean() - expected) < 5 * math.sqrt(3 * math.pi**2 / 8 / chains)


# Who counts as stuck


def test_only_what_holds_next_to_no_probability_is_stuck() -> None:
    d = 20
    ones = torch.ones(5, d, dtype=F64)
    heights = torch.tensor([0.0, 1.0, -2.0, 5.0, 200.0], dtype=F64)
    rows, potential, gradient = normal_draws(60, ones, heights)
    judged = judge(seen(rows, potential), potential[-1], gradient, 1.0)
    assert judged.stuck.tolist() == [False] * 4 + [True]
    assert not judged.travelling.any()
    hot = judge(seen(rows, potential), potential[-1], gradient, 100.0)  # there, 200 is nothing
    assert not hot.stuck.any()


def test_a_wide_region_may_lie_high() -> None:
    """Three chains in a narrow mode, one in a wide one, which holds 999 times as much although it lies higher."""
    d = 20
    scales = torch.tensor([1.0, 0.05, 0.05, 0.05], dtype=F64)[:, None].expand(4, d)
    heights = torch.tensor([0.0] + [d * math.log(0.05) + math.log(999.0)] * 3, dtype=F64)
    assert heights[0] - heights[1] > allowance(d)  # by potential alone the wide one would be moved
    rows, potential, gradient = normal_draws(60, scales, heights)
    assert not judge(seen(rows, potential), potential[-1], gradient, 1.0).stuck.any()


@pytest.mark.parametrize("chains", [2, 3, 4])
def test_the_better_half_is_what_others_are_compared_with(chains: int) -> None:
    heights = torch.tensor([100.0, 0.0, 0.0, 100.0][:chains], dtype=F64)
    rows, potential, gradient = normal_draws(60, torch.ones(chains, 2, dtype=F64), heights)
    judged = judge(seen(rows, potential), potential[-1], gradient, 1.0)
    assert judged.stuck.tolist() == [True, False, False, True][:chains]


def test_a_chain_that_is_still_falling_is_on_its_way() -> None:
    heights = torch.zeros(4, dtype=F64)
    rows, potential, gradient = normal_draws(60, torch.ones(4, 3, dtype=F64), heights)
    potential[:, 2] += torch.linspace(1000, 200, 60, dtype=F64)  # not there yet
    potential[:40, 3] += 1000.0  # arrived in this window
    judged = judge(seen(rows, potential), potential[-1], gradient, 1.0)
    assert judged.stuck.tolist() == [False] * 4
    assert judged.travelling.tolist() == [False, False, True, True]


def test_a_chain_that_never_moved_is_judged_by_its_potential() -> None:
    heights = torch.tensor([0.0, 0.0, 0.0, 500.0], dtype=F64)
    rows, potential, gradient = normal_draws(60, torch.ones(4, 3, dtype=F64), heights)
    still, same = rows.clone(), potential.clone()
    still[:], same[:] = rows[-1], potential[-1]
    for who in (still[:, 2:], same[:, 2:]):
        assert (who == who[0]).all()
    rows[:, 2:], potential[:, 2:] = still[:, 2:], same[:, 2:]
    assert judge(seen(rows, potential), potential[-1], gradient, 1.0).stuck.tolist() == [False, False, False, True]


def test_a_stuck_chain_becomes_the_best_one_in_every_respect_and_it_is_said() -> None:
    rows = torch.randn(4, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    potential = torch.tensor([1.0, 0.0, 2.0, 500.0, 15.0], dtype=F64)
    state = State(rows[0], rows[1], potential, rows[2], extra={"own": rows[3]})
    moments = seen(rows[:1].repeat(2, 1, 1), potential.repeat(2, 1))
    log_mass = -potential
    judged = Judged(log_mass, potential > 100, torch.zeros(5, dtype=torch.bool))
    back, remarks = move_stuck_chains(state, moments, judged)
    order = [0, 1, 2, 1, 4]
    assert torch.equal(back.position, rows[0][order])
    assert torch.equal(back.momentum, rows[1][order])
    assert back.potential is not None
    assert torch.equal(back.potential, potential[order])
    assert back.gradient is not None
    assert torch.equal(back.gradient, rows[2][order])
    assert torch.equal(back.extra["own"], rows[3][order])
    assert len(remarks) == 1
    assert remarks[0].startswith("Warm-up moved chain 3 to chain 1")
    assert "500" in remarks[0]
    assert "e^-500" in remarks[0]


# In warm-up


def test_chains_are_judged_between_early_windows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 200, 0)
    called: list[int] = []
    original = stuck_chains.judge

    def record(*arguments: Any) -> Judged:
        called.append(chains.warmup.iteration)
        return original(*arguments)

    monkeypatch.setattr(stuck_chains, "judge", record)
    for _ in range(230):
        chains.advance()
    assert called
    assert set(called) <= set(chains.warmup.ends[1:-1])


@pytest.mark.parametrize(("temperature", "judged"), [(1.0, 0), (10.0, 1)])
def test_chains_are_judged_once_the_best_one_has_arrived(
    temperature: float, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fall of 60 since the last window is nothing at ten times the temperature, where 174 is allowed."""
    warmup, called = Warmup(ggmc.GGMC(temperature=temperature), gaussian(2), 200), list[float]()
    state = warmup.init(torch.zeros(3, 2, dtype=F64), torch.Generator().manual_seed(0))
    window = Window.opened(state, 2.5, None, chains=True)
    none = torch.zeros(3, dtype=torch.bool)

    def judge(moments: ChainMoments, potential: Tensor, gradient: Tensor, temperature: float) -> Judged:
        called.append(temperature)
        return Judged(potential, none, none)

    monkeypatch.setattr(stuck_chains, "judge", judge)
    warmup._without_stuck_chains(window, state)  # nothing is known of a window before
    assert called == []
    assert warmup.learnt.lowest_potential == 0.0
    warmup.learnt.lowest_potential = 60.0
    warmup._without_stuck_chains(window, state)
    assert called == [2.5] * judged  # at the window's temperature


def test_a_chain_in_a_trap_is_freed_by_warm_up_and_the_trace_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A deep mode and a trap 60 above it: chains that start in the trap leave it."""

    def log_prob(x: Tensor) -> Tensor:
        return torch.logaddexp(-(x**2) / 2, -60 - (x - 30) ** 2 / 2).sum()

    target = ggmc.Density(log_prob, torch.full((1,), 14.0, dtype=F64), jitter=4.0)
    trace = ggmc.sample(target, draws=200, warmup=300, chains=6, progress=False)
    assert np.abs(trace["theta"]).max() < 10
    moved = [message for message in trace.warnings if "Warm-up moved chain" in message]
    assert moved
    assert all(message in caplog.text for message in moved)


D = 20
CENTRE = torch.zeros(D, dtype=F64)
CENTRE[0] = 15.0


def two_modes(scale: float, log_weight: float) -> ggmc.Density:
    """A standard normal and, around another centre, a second one of another width and next to no weight."""

    def log_prob(x: Tensor) -> Tensor:
        other = log_weight - (((x - CENTRE) / scale) ** 2).sum() / 2 - D * math.log(scale)
        return torch.logaddexp(-(x**2).sum() / 2, other)

    return ggmc.Density(log_prob, torch.zeros(D, dtype=F64))


def starts(scale: float, at_the_other: list[bool], seed: int) -> Tensor:
    z = torch.randn(len(at_the_other), D, dtype=F64, generator=torch.Generator().manual_seed(seed))
    return torch.where(torch.tensor(at_the_other)[:, None], CENTRE + scale * z, z)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_one_chain_in_a_wide_mode_stays_there(seed: int) -> None:
    """A wide mode with 99.9 % of the mass, and one chain in it: three in the narrow one are no reason to move it."""
    target = two_modes(0.05, math.log(0.001 / 0.999))
    start = starts(0.05, [False, True, True, True], seed)
    trace = ggmc.sample(target, draws=50, warmup=300, progress=False, start=start, seed=seed)
    assert np.abs(trace["theta"][0, :, 0]).max() < 7
    assert not any("Warm-up moved chain 0" in message for message in trace.warnings)
    assert any("disagree" in message for message in trace.warnings)  # R̂ shows the two modes


@pytest.mark.parametrize("seed", [0, 1])
def test_the_one_chain_where_there_is_no_probability_is_moved(seed: int) -> None:
    target = two_modes(1.0, -60.0)
    start = starts(1.0, [False, False, False, True], seed)
    trace = ggmc.sample(target, draws=50, warmup=300, progress=False, start=start, seed=seed)
    assert np.abs(trace["theta"][..., 0]).max() < 7
    moved = [message for message in trace.warnings if "Warm-up moved chain 3" in message]
    assert len(moved) == 1


def test_chains_on_their_way_are_neither_moved_nor_do_they_spoil_the_mass() -> None:
    """One chain starts a thousand standard deviations away, and gets home by itself."""
    start = torch.randn(4, D, dtype=F64, generator=torch.Generator().manual_seed(0))
    start[3] += 1000.0
    trace = ggmc.sample(gaussian(D), draws=200, warmup=400, progress=False, start=start)
    assert not any("moved" in message for message in trace.warnings)
    assert np.abs(trace["theta"]).max() < 7
    mass = trace.kernel.mass.matrix
    variance = (mass if mass.dim() == 1 else torch.linalg.inv(mass).diagonal()).log()
    assert variance.abs().max() < math.log(3.0)


def test_chains_that_differ_only_because_warm_up_is_hot_are_left_alone() -> None:
    trace = ggmc.sample(gaussian(D), draws=20, warmup=400, chains=8, progress=False, anneal=200.0)
    assert not any("moved" in message for message in trace.warnings)
