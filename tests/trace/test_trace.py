"""Draws: the chains' own positions, and what is computed from them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch.distributions import Gamma, Normal, constraints

import ggmc
from ggmc.errors import BadInput
from ggmc.kernels import GGMC
from ggmc.trace import record
from ggmc.trace.store import Block, MemoryStore
from ggmc.trace.trace import Trace
from tests.support.traces import (
    F32,
    Gaussian,
    PredictiveRegression,
    Regression,
    Simplex,
    good_stats,
    regression_data,
    trace_of,
    white_noise,
)


def simplex_rows() -> np.ndarray:
    return (8 * np.random.default_rng(0).standard_normal((4, 50, 3))).astype(np.float32)


def regression_trace(kind: type[Regression] = PredictiveRegression) -> Trace:
    return trace_of(white_noise(2, 12, 3) / 10, kind(*regression_data()))


# Rows


def test_rows_are_the_chains_positions_bit_for_bit() -> None:
    rows, target = simplex_rows(), Simplex()
    trace = trace_of(rows, target)
    assert trace.rows().dtype == F32
    np.testing.assert_array_equal(trace.rows().numpy(), rows)
    np.testing.assert_array_equal(trace.rows()[:, -1].numpy(), rows[:, -1])
    # What would come of inverting the constrained values, as is done nowhere.
    back = target.unconstrain({"p": torch.from_numpy(trace["p"])})
    assert (back - trace.rows()).abs().max() > 0.01


def test_rows_of_a_run_are_where_the_chains_are() -> None:
    p = torch.full((4,), 0.25)
    target = ggmc.Density(lambda p: (0.1 * p.log()).sum(), p, constraints.simplex)
    trace = ggmc.sample(target, ggmc.HMC(0.5, 3), draws=60, warmup=0, progress=False)
    rows = trace.rows()
    assert rows.shape == (4, 60, 3)
    assert rows.dtype == F32
    # The potential that the chains carried along is that of these very rows.
    np.testing.assert_array_equal(-target.potential(rows[:, -1]).numpy(), trace.stats["lp"][:, -1])


def test_thinned_rows() -> None:
    trace = trace_of(simplex_rows(), Simplex())
    np.testing.assert_array_equal(trace.rows(thin=7).numpy(), simplex_rows()[:, ::7])
    np.testing.assert_array_equal(trace.stacked_rows(thin=7).numpy(), simplex_rows()[:, ::7].reshape(-1, 3))
    with pytest.raises(BadInput, match="thin must be a whole number of at least 1, got 0"):
        trace.rows(thin=0)
    with pytest.raises(BadInput, match=r"thin must be a whole number of at least 1, got 1\.5"):
        trace.stacked_rows(thin=1.5)  # pyright: ignore[reportArgumentType]


def test_changing_rows_does_not_change_the_record() -> None:
    trace = trace_of(simplex_rows(), Simplex())
    trace.rows().zero_()
    trace["p"][:] = 0
    np.testing.assert_array_equal(trace.rows().numpy(), simplex_rows())


def test_rows_that_cannot_be_written_to_are_fine() -> None:
    rows = white_noise(2, 20, 2)
    rows.flags.writeable = False  # as of a file mapped into memory
    trace = trace_of(rows, Gaussian())
    np.testing.assert_array_equal(trace.rows().numpy(), rows)
    np.testing.assert_array_equal(trace.stacked_rows().numpy(), rows.reshape(-1, 2))
    np.testing.assert_array_equal(trace["theta"], rows)


# Named values


def test_values_are_those_of_the_target() -> None:
    trace = trace_of(simplex_rows(), Simplex())
    expected = Simplex().constrain(torch.from_numpy(simplex_rows()))["p"].numpy()
    assert trace["p"].shape == (4, 50, 4)
    np.testing.assert_array_equal(trace["p"], expected)
    assert list(trace.draws) == ["p"]
    with pytest.raises(KeyError, match="q"):
        trace["q"]


@pytest.mark.parametrize("at_once", [1, 12, 70, 10**6])
def test_values_computed_in_parts_are_the_same(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Simplex().constrain(torch.from_numpy(simplex_rows()))["p"].numpy()
    monkeypatch.setattr(record, "NUMBERS_AT_ONCE", at_once)
    # Not to the last bit: vectorised functions round by where a number stands in its chunk.
    np.testing.assert_allclose(trace_of(simplex_rows(), Simplex())["p"], expected, rtol=1e-5, atol=1e-7)


def test_values_are_computed_once_and_for_each_target_anew() -> None:
    trace = trace_of(white_noise(2, 12, 3), Gaussian({"a": (3,)}))
    assert trace["a"] is trace["a"]
    trace.target = Gaussian({"a": (2,), "b": ()})
    assert list(trace.draws) == ["a", "b"]
    np.testing.assert_array_equal(trace["b"], white_noise(2, 12, 3)[..., 2])


def test_some_values_without_the_others() -> None:
    trace = regression_trace()
    found = trace.constrained(["noise"])
    assert list(found) == ["noise"]
    np.testing.assert_allclose(found["noise"], np.exp(white_noise(2, 12, 3)[..., 2] / 10), rtol=1e-15)
    with pytest.raises(BadInput, match=r"no values named \['nose'\]: it has \['noise', 'weight'\]"):
        trace.constrained(["nose"])


def test_draws_are_on_the_constrained_scale() -> None:
    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return Gamma(3.0, 2.0).log_prob(p["sigma"]) + Normal(0.0, 1.0).log_prob(p["w"]).sum()

    start = {"sigma": torch.ones((), dtype=torch.float64), "w": torch.zeros(2, 3, dtype=torch.float64)}
    target = ggmc.Density(log_prob, start, {"sigma": constraints.positive})
    trace = ggmc.sample(target, draws=400, warmup=300, seed=3, progress=False)
    assert (trace["sigma"] > 0).all()
    assert trace["sigma"].mean() == pytest.approx(1.5, abs=0.15)


# Without a target


def test_without_a_target_rows_and_statistics_remain() -> None:
    trace = trace_of(white_noise(2, 12, 3))
    trace.target = None
    np.testing.assert_array_equal(trace.rows().numpy(), white_noise(2, 12, 3))
    assert trace.stats["lp"].shape == (2, 12)
    assert repr(trace).startswith("Trace(2 chains × 12 draws of 3 numbers; GGMC(step_size=0.1")
    asked = {
        "named values": lambda: trace.draws,
        "named values ": lambda: trace["x"],
        "predictions": lambda: trace.predict(None),
        "predictions ": lambda: trace.score(None, None),
        "predictions  ": lambda: trace.predictive_summary(None),
        "log likelihoods": trace.log_likelihood,
        "temperatures": trace.temperatures,
        "named values  ": trace.to_arviz,
    }
    for what, ask in asked.items():
        with pytest.raises(BadInput, match=f"{what.strip()} need the target.*: set trace.target"):
            ask()
    trace.target = Gaussian({"x": (3,)})
    np.testing.assert_array_equal(trace["x"], white_noise(2, 12, 3))


def test_a_target_that_cannot_answer_is_named() -> None:
    trace = trace_of(white_noise(2, 12, 2), Gaussian())
    with pytest.raises(BadInput, match=r"log likelihoods need a target such as ggmc.DataDensity, got .*Gaussian"):
        trace.log_likelihood()
    for ask in (trace.predict, trace.predictive_summary, lambda x: trace.score(x, x)):
        with pytest.raises(BadInput, match=r"predictions need a target such as ggmc.Posterior, got .*Gaussian"):
            ask(torch.zeros(3, 2))
    with pytest.raises(BadInput, match=r"predictions need a target such as ggmc.Posterior, got .*Regression"):
        regression_trace(Regression).predict(torch.zeros(3, 2))


# With a target that predicts


def test_predictions_and_scores_are_those_of_the_rows() -> None:
    trace = regression_trace()
    x = torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float64)
    weights = white_noise(2, 12, 3)[..., :2] / 10
    expected = (weights.reshape(-1, 2) @ x.numpy().T).mean(0)
    found: Any = trace.predict(x, seed=5)
    np.testing.assert_allclose(found["mean"].numpy(), expected)
    assert found["seed"] == 5
    thinned = (weights[:, ::4].reshape(-1, 2) @ x.numpy().T).mean(0)
    found = trace.predict(x, thin=4)
    np.testing.assert_allclose(found["mean"].numpy(), thinned)
    y = torch.tensor([1.0, -1.0], dtype=torch.float64)
    assert trace.score(x, y) == {"rmse": pytest.approx(np.sqrt(((expected - y.numpy()) ** 2).mean()))}
    assert trace.score(x, y, thin=4) == {"rmse": pytest.approx(np.sqrt(((thinned - y.numpy()) ** 2).mean()))}


def test_the_predictive_summary_is_that_of_the_predictions() -> None:
    trace = regression_trace()
    x = torch.tensor([[1.0, 0.0], [2.0, 3.0], [0.0, 1.0]], dtype=torch.float64)
    table = trace.predictive_summary(x, round_to="none")
    assert list(table.index) == ["prediction[0]", "prediction[1]", "prediction[2]"]
    weights = white_noise(2, 12, 3)[..., :2] / 10
    np.testing.assert_allclose(table["mean"], (weights @ x.numpy().T).mean((0, 1)))
    assert {"r_hat", "ess_bulk"} <= set(table.columns)


@pytest.mark.parametrize("kind", [Regression, PredictiveRegression])
def test_log_likelihoods_of_old_and_new_data(kind: type[Regression]) -> None:
    trace = regression_trace(kind)
    x, y = regression_data()
    weight, noise = trace["weight"][1, 7], trace["noise"][1, 7]
    expected = norm.logpdf(y.numpy(), x.numpy() @ weight, noise) + 0.5 * np.log(2 * np.pi)
    terms = trace.log_likelihood()
    assert terms.shape == (2, 12, 20)
    np.testing.assert_allclose(terms[1, 7], expected)
    np.testing.assert_allclose(trace.log_likelihood((x[:3], y[:3]))[1, 7], expected[:3])
    np.testing.assert_array_equal(trace.log_likelihood(thin=7)[1, 1], terms[1, 7])


# The object itself


def test_statistics_agree_with_each_other() -> None:
    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return -(p["a"] ** 2).sum() / 2 - (p["b"] ** 2).sum() / 2

    start = {"a": torch.zeros(2, dtype=torch.float64), "b": torch.zeros(3, dtype=torch.float64)}
    trace = ggmc.sample(ggmc.Density(log_prob, start), draws=400, warmup=300, seed=3, progress=False)
    s = trace.stats
    np.testing.assert_allclose(s["log_accept"], -s["energy_error"])
    np.testing.assert_allclose(s["acceptance_rate"], np.minimum(1, np.exp(s["log_accept"])))
    assert (s["step_size"] == trace.kernel.step_size).all()
    assert isinstance(trace.kernel, ggmc.GGMC)
    assert isinstance(trace.kernel.steps, tuple)
    low, high = trace.kernel.steps
    assert set(np.unique(s["n_steps"])) == set(range(low, high + 1))
    assert (s["n_steps"] == s["n_steps"][:1]).all()
    for name in ("kinetic_temperature", "kinetic_temperatures", "configurational_temperature"):
        assert s[name].mean() == pytest.approx(1.0, abs=0.1), name


def test_words_without_a_gradient_at_the_end_say_so() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
    trace = ggmc.sample(target, ggmc.GGMC(0.5, scheme="O(ABA)O"), draws=10, warmup=0, progress=False)
    assert np.isnan(trace.stats["configurational_temperature"]).all()
    assert np.isfinite(trace.stats["kinetic_temperature"]).all()


def test_it_introduces_itself() -> None:
    trace = trace_of(white_noise(4, 40, 7), Gaussian({"sigma": (), "w": (2, 3)}))
    assert repr(trace).startswith("Trace(4 chains × 40 draws of sigma, w; GGMC(step_size=")
    assert "draws" not in vars(trace)  # nothing is computed to print it


def test_a_pickled_trace_is_the_same_trace() -> None:
    trace = regression_trace()
    trace.attributes["seed"], trace.warnings = 7, ["beware"]
    values = {name: value.copy() for name, value in trace.draws.items()}
    for again in (pickle.loads(pickle.dumps(trace)), copy.deepcopy(trace), copy.copy(trace)):
        assert torch.equal(again.rows(), trace.rows())
        for name, value in values.items():
            np.testing.assert_array_equal(again[name], value)
        for name, value in trace.stats.items():
            np.testing.assert_array_equal(again.stats[name], value)
        assert (again.kernel, again.attributes, again.warnings) == (trace.kernel, {"seed": 7}, ["beware"])
        predicted: list[Any] = [one.predict(torch.eye(2, dtype=torch.float64)) for one in (again, trace)]
        assert torch.equal(predicted[0]["mean"], predicted[1]["mean"])


def test_computed_values_are_not_pickled() -> None:
    trace = trace_of(white_noise(4, 1000, 5), Gaussian({"a": (5,)}))
    before = len(pickle.dumps(trace))
    trace.summary()
    assert len(pickle.dumps(trace)) == before


def test_each_trace_has_its_own_attributes_and_warnings() -> None:
    store = MemoryStore([Block(np.zeros((2, 3, 2)), good_stats(2, 3))])
    one, other = (Trace(store, GGMC(0.1), Gaussian()) for _ in range(2))
    one.attributes["seed"] = 1
    one.warnings.append("beware")
    assert (other.attributes, other.warnings) == ({}, [])
