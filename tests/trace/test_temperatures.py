"""Temperatures by value, and their intervals."""

from __future__ import annotations

import math

import arviz
import numpy as np
import pytest
import torch
from scipy import stats

from ggmc.errors import BadInput
from ggmc.trace import temperatures as room
from tests.support.traces import Gaussian, Regression, regression_data, trace_of, white_noise


def test_the_kinetic_interval_is_that_of_chi_squared() -> None:
    generator = np.random.default_rng(0)
    seen = generator.chisquare(5, (2, 6)) / 5  # too few draws for autocorrelations
    mean, low, high = room.kinetic_interval(seen, 5, 0.9)
    degrees = 5 * 12
    assert mean == seen.mean()
    assert math.isclose(low, degrees * mean / stats.chi2.ppf(0.95, degrees))
    assert math.isclose(high, degrees * mean / stats.chi2.ppf(0.05, degrees))
    slow = np.repeat(generator.normal(1, 0.1, (2, 50)), 20, axis=1)  # a hundred draws, each repeated twenty times
    assert 25 < room._effective(slow) < 400
    assert room._effective(slow) == arviz.ess(slow, method="mean")
    mean, low, high = room.kinetic_interval(slow, 3, 0.9)
    degrees = 3 * room._effective(slow)
    np.testing.assert_allclose([low, high], degrees * mean / stats.chi2.ppf([0.95, 0.05], degrees))
    assert room._effective(np.tile([1.0, -1.0], (2, 100))) == 400  # never more than there are


def test_batch_means() -> None:
    seen = np.arange(40.0).reshape(2, 20) % 7
    mean, low, high = room._batch_means(seen, 0.95)
    means = seen.reshape(2, 10, 2).mean(2).flatten()
    expected = stats.t.interval(0.95, 19, loc=means.mean(), scale=stats.sem(means))
    assert np.allclose([mean, low, high], [means.mean(), *expected])


def test_configurational_draws_are_spread_over_the_run() -> None:
    positions = np.arange(99.0)[None, :, None]
    found = room._configurational(positions, Gaussian({"theta": (1,)}), 50)
    assert found.shape == (1, 50, 2)
    assert found[0, 0, 0] == 0
    assert found[0, -1, 0] == 98.0**2  # θ∇U = θ²
    assert (np.diff(found[0, :, 0]) > 0).all()


def test_temperatures_of_tensors_add_up() -> None:
    target = Regression(*regression_data())
    rows = white_noise(2, 40, 3) / 3
    momentum_squared = np.random.default_rng(1).chisquare(1, (2, 40, 3))
    trace = trace_of(rows, target, kinetic_temperature=momentum_squared.mean(-1))
    per_tensor = np.stack([momentum_squared[..., :2].mean(-1), momentum_squared[..., 2]], -1)
    trace.stats = {**trace.stats, "kinetic_temperatures": per_tensor}
    table = trace.temperatures(draws=10)
    assert list(table.index) == ["all", "weight", "noise"]
    for kind in ("kinetic", "configurational"):
        assert math.isclose(table.loc["all", kind], (2 * table.loc["weight", kind] + table.loc["noise", kind]) / 3)
        assert table.loc["weight", kind] != table.loc["noise", kind]
        assert (table[f"{kind}_low"] < table[kind]).all()
        assert (table[kind] < table[f"{kind}_high"]).all()
    assert math.isclose(table.loc["noise", "kinetic"], momentum_squared[..., 2].mean())
    some = torch.from_numpy(rows[:, np.linspace(0, 39, 10).round().astype(int)]).flatten(0, 1)
    products = some * target.potential_and_gradient(some)[1]
    assert math.isclose(table.loc["all", "configurational"], products.mean().item())
    assert math.isclose(table.loc["noise", "configurational"], products[:, 2].mean().item())


def test_exact_draws_have_the_temperature_one() -> None:
    rows = white_noise(4, 1000, 5)
    kinetic = np.random.default_rng(1).chisquare(5, (4, 1000)) / 5
    table = trace_of(rows, Gaussian({"theta": (5,)}), kinetic_temperature=kinetic).temperatures(1000, level=0.999999)
    for kind in ("kinetic", "configurational"):
        assert (table[f"{kind}_low"] < 1).all()
        assert (table[f"{kind}_high"] > 1).all()
        assert (table[f"{kind}_high"] - table[f"{kind}_low"] < 0.2).all()
    assert table.loc["all"].equals(table.loc["theta"])  # one tensor is all there is
    narrow = trace_of(rows, Gaussian({"theta": (5,)}), kinetic_temperature=kinetic).temperatures(1000, level=0.5)
    assert (narrow["kinetic_high"] < table["kinetic_high"]).all()


def test_the_positions_used_are_the_chains_own() -> None:
    """In float32, at positions that no inverse of the constraints would give back."""
    seen: list[torch.Tensor] = []

    class Noted(Gaussian):
        def potential_and_gradient(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            seen.append(position.clone())
            return super().potential_and_gradient(position)

        def unconstrain(self, values: object) -> torch.Tensor:
            raise AssertionError("nothing is inverted")

    rows = white_noise(2, 9, 2).astype(np.float32)
    trace_of(rows, Noted(dtype=torch.float32)).temperatures(draws=9)
    np.testing.assert_array_equal(torch.stack(seen, 1).numpy(), rows)


def test_draws_kept_in_fewer_digits_are_taken_in_the_targets_precision() -> None:
    target = Regression(*regression_data())  # its data are float64, which torch does not multiply with float32
    rows = (white_noise(2, 9, 3) / 3).astype(np.float32)
    few, same = (room._configurational(kept, target, 9) for kept in (rows, rows.astype(np.float64)))
    np.testing.assert_array_equal(few, same)


def test_one_batch_has_no_interval() -> None:
    assert all(map(math.isnan, room._batch_means(np.ones((1, 3)), 0.9)[1:]))


def test_what_is_refused() -> None:
    trace = trace_of(white_noise(2, 12, 2), Gaussian())
    with pytest.raises(BadInput, match="draws must be a whole number of at least 2, got 1"):
        trace.temperatures(draws=1)
    with pytest.raises(BadInput, match=r"level must lie between 0 and 1, got 1\.0"):
        trace.temperatures(level=1.0)
    trace.target = None
    with pytest.raises(BadInput, match="temperatures need the target"):
        trace.temperatures()
