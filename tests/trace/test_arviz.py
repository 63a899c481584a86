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

import ggmc
from ggmc.kernels import GGMC, from_dict
from ggmc.trace import arviz as room
from ggmc.trace.trace import Trace
from tests.support.traces import F64, Gaussian, PredictiveRegression, regression_data, trace_of, white_noise

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
def trace() -> Trace:
    trace = trace_of(white_noise(4, 400, 7), Gaussian({"sigma": (), "w": (2, 3)}))
    trace.attributes = {"seed": 3, "tuning_steps": 300}
    return trace


def test_groups_names_and_shapes(trace: Trace) -> None:
    data = trace.to_arviz()
    assert set(data.groups()) == {"posterior", "sample_stats"}
    assert data.posterior["sigma"].dims == ("chain", "draw")
    assert data.posterior["w"].dims == ("chain", "draw", "w_dim_0", "w_dim_1")
    assert data.posterior["w"].shape == (4, 400, 2, 3)
    assert data.posterior["w"].coords["draw"].values.tolist() == list(range(400))
    assert data.posterior["w"].coords["w_dim_1"].values.tolist() == [0, 1, 2]
    assert set(data.sample_stats.data_vars) == set(trace.stats)
    assert data.sample_stats["diverging"].dtype == bool
    np.testing.assert_array_equal(data.posterior["w"].values, trace["w"])
    np.testing.assert_array_equal(data.sample_stats["lp"].values, trace.stats["lp"])


def test_the_statistics_of_a_run_have_arvizs_names() -> None:
    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return -(p["a"] ** 2).sum() / 2 - (p["b"] ** 2).sum() / 2

    target = ggmc.Density(log_prob, {"a": torch.zeros((), dtype=F64), "b": torch.zeros(2, dtype=F64)})
    trace = ggmc.sample(target, draws=100, warmup=100, seed=3, progress=False)
    data = trace.to_arviz()
    assert set(data.sample_stats.data_vars) == STATS
    assert data.sample_stats["diverging"].dtype == bool
    stored = data.posterior.attrs
    assert (stored["seed"], stored["tuning_steps"]) == (3, 100)
    assert from_dict(json.loads(stored["kernel"])) == trace.kernel


def test_the_summary_is_arvizs(trace: Trace) -> None:
    table = trace.summary()
    assert list(table.index) == ["sigma"] + [f"w[{i}, {j}]" for i in range(2) for j in range(3)]
    assert {"mean", "sd", "mcse_mean", "ess_bulk", "ess_tail", "r_hat"} <= set(table.columns)
    assert table.equals(arviz.summary(trace.to_arviz()))
    assert list(trace.summary(var_names=["sigma"]).index) == ["sigma"]
    unrounded = trace.summary(round_to="none")
    assert unrounded.loc["w[1, 2]", "mean"] == pytest.approx(white_noise(4, 400, 7)[..., 6].mean(), rel=1e-12)


def test_settings_and_versions_are_stored_with_the_draws(trace: Trace) -> None:
    for group in ("posterior", "sample_stats"):
        stored = trace.to_arviz()[group].attrs
        assert stored["inference_library"] == "ggmc"
        assert stored["inference_library_version"] == ggmc.__version__
        assert stored["torch_version"] == torch.__version__
        assert (stored["seed"], stored["tuning_steps"]) == (3, 300)
        assert from_dict(json.loads(stored["kernel"])) == trace.kernel


def test_a_large_mass_is_only_named() -> None:
    mass: Any = torch.linspace(1, 2, 40_000, dtype=F64).tolist()
    stored = room.stored_attributes(trace_of(white_noise(1, 8, 2), Gaussian(), GGMC(0.1, mass=mass)))
    assert len(stored["kernel"]) < 1000
    assert json.loads(stored["kernel"])["mass"]["shape"] == [40_000]
    small = room.stored_attributes(trace_of(white_noise(1, 8, 2), Gaussian(), GGMC(0.1, mass=[1.0, 2.0])))
    assert json.loads(small["kernel"])["mass"]["tensor"] == [1.0, 2.0]


def test_it_can_be_written_and_read_back(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "draws.nc"
    trace.to_arviz().to_netcdf(str(path))
    again: Any = arviz.from_netcdf(str(path))
    np.testing.assert_array_equal(again.posterior["sigma"].values, trace["sigma"])


def test_a_newer_arviz_gets_the_tree_itself(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, wanted in (("0.20.0", arviz.InferenceData), ("1.0.0", xarray.DataTree), ("10.1", xarray.DataTree)):
        monkeypatch.setattr(room, "version", lambda name, v=version: v)
        assert isinstance(trace.to_arviz(), wanted)
    assert set(trace.to_arviz().children) == {"posterior", "sample_stats"}


def test_log_likelihoods_on_request() -> None:
    trace = trace_of(white_noise(2, 12, 3) / 10, PredictiveRegression(*regression_data()))
    assert set(trace.to_datatree().children) == {"posterior", "sample_stats"}
    tree = trace.to_datatree(log_likelihood=True)
    assert set(tree.children) == {"posterior", "sample_stats", "log_likelihood"}
    np.testing.assert_array_equal(tree["log_likelihood"]["y"].values, trace.log_likelihood())
    np.testing.assert_array_equal(trace.to_arviz(log_likelihood=True).log_likelihood["y"], trace.log_likelihood())
