"""Draws that open in ArviZ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pytest
import torch
import xarray
from torch.distributions import Gamma, Normal, constraints

import ggmc
from ggmc.kernels import from_dict

STATS = {
    "lp",
    "acceptance_rate",
    "diverging",
    "energy_error",
    "step_size",
    "n_steps",
    "log_accept",
    "is_accepted",
    "work",
    "kinetic_temperature",
    "kinetic_temperatures",
    "configurational_temperature",
}


@pytest.fixture(scope="module")
def trace() -> ggmc.Trace:
    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return Gamma(3.0, 2.0).log_prob(p["sigma"]) + Normal(0.0, 1.0).log_prob(p["w"]).sum()

    start = {"sigma": torch.ones((), dtype=torch.float64), "w": torch.zeros(2, 3, dtype=torch.float64)}
    target = ggmc.Density(log_prob, start, {"sigma": constraints.positive})
    return ggmc.sample(target, draws=400, warmup=300, seed=3, progress=False)


def test_groups_names_and_shapes(trace: ggmc.Trace) -> None:
    data = trace.to_arviz()
    assert set(data.groups()) == {"posterior", "sample_stats"}
    assert data.posterior["sigma"].dims == ("chain", "draw")
    assert data.posterior["w"].shape == (4, 400, 2, 3)
    assert set(data.sample_stats.data_vars) == STATS
    assert data.sample_stats["diverging"].dtype == bool
    np.testing.assert_array_equal(data.posterior["w"].values, trace["w"])


def test_draws_are_on_the_constrained_scale(trace: ggmc.Trace) -> None:
    assert (trace["sigma"] > 0).all()
    assert trace["sigma"].mean() == pytest.approx(1.5, abs=0.15)


def test_the_summary_is_arvizs(trace: ggmc.Trace) -> None:
    table = trace.summary()
    assert list(table.index) == ["sigma"] + [f"w[{i}, {j}]" for i in range(2) for j in range(3)]
    assert {"mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"} <= set(table.columns)
    assert table.equals(arviz.summary(trace.to_arviz()))
    assert list(trace.summary(var_names=["sigma"]).index) == ["sigma"]


def test_statistics_agree_with_each_other(trace: ggmc.Trace) -> None:
    s = trace.stats
    np.testing.assert_allclose(s["log_accept"], -s["energy_error"])
    np.testing.assert_allclose(s["acceptance_rate"], np.minimum(1, np.exp(s["log_accept"])))
    assert (s["step_size"] == trace.kernel.step_size).all()
    low, high = trace.kernel.steps
    assert set(np.unique(s["n_steps"])) == set(range(low, high + 1))
    assert (s["n_steps"] == s["n_steps"][:1]).all()
    for name in ("kinetic_temperature", "kinetic_temperatures", "configurational_temperature"):
        assert s[name].mean() == pytest.approx(1.0, abs=0.1), name


def test_settings_and_versions_are_stored_with_the_draws(trace: ggmc.Trace) -> None:
    stored = trace.to_arviz().posterior.attrs
    assert stored["inference_library"] == "ggmc"
    assert stored["inference_library_version"] == ggmc.__version__
    assert stored["torch_version"] == torch.__version__
    assert (stored["seed"], stored["tuning_steps"]) == (3, 300)
    assert from_dict(json.loads(stored["kernel"])) == trace.kernel


def test_it_can_be_written_and_read_back(trace: ggmc.Trace, tmp_path: Path) -> None:
    path = tmp_path / "draws.nc"
    trace.to_arviz().to_netcdf(str(path))
    again: Any = arviz.from_netcdf(str(path))
    np.testing.assert_array_equal(again.posterior["sigma"].values, trace["sigma"])


def test_a_newer_arviz_gets_the_tree_itself(trace: ggmc.Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(arviz, "InferenceData")
    tree = trace.to_arviz()
    assert isinstance(tree, xarray.DataTree)
    assert set(tree.children) == {"posterior", "sample_stats"}


def test_words_without_a_gradient_at_the_end_say_so() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
    trace = ggmc.sample(target, ggmc.GGMC(0.5, scheme="O(ABA)O"), draws=10, warmup=0, progress=False)
    assert np.isnan(trace.stats["configurational_temperature"]).all()
    assert np.isfinite(trace.stats["kinetic_temperature"]).all()


def test_it_introduces_itself(trace: ggmc.Trace) -> None:
    assert repr(trace).startswith("Trace(4 chains × 400 draws of sigma, w; GGMC(step_size=")
