"""Whether chains moved, agree and gave enough draws: each finding by a trace that deserves it."""

from __future__ import annotations

from typing import Any

import arviz
import numpy as np
import pytest
import torch

import ggmc
from ggmc.trace import record
from ggmc.trace.merged import MergedStore
from ggmc.trace.mixing import measure, mixing
from ggmc.trace.store import ALL, Block, MemoryStore
from ggmc.trace.trace import Trace
from tests.support.traces import F64, Gaussian, PredictiveRegression, good_stats, regression_data, trace_of, white_noise


def line_rows(chains: int = 2, draws: int = 1000) -> np.ndarray:
    return white_noise(chains, draws, 3) / 10


def test_independent_draws_are_fine() -> None:
    assert mixing(trace_of(white_noise())) == []
    assert mixing(trace_of(line_rows(), PredictiveRegression(*regression_data()))) == []


def test_where_each_limit_lies() -> None:
    noise = white_noise()
    apart = noise + np.array([0.0, 0.0, 0.0, 0.5])[:, None, None]
    assert mixing(trace_of(apart))[0].startswith("The chains disagree on x (worst R̂ = 1.")
    few = mixing(trace_of(noise[:, :60]))
    assert len(few) == 1
    assert few[0].startswith("Few effective draws for x (least ")
    assert "below 400" in few[0]


def test_slow_tails_are_seen_where_the_bulk_is_fast() -> None:
    random = np.random.default_rng(0)
    noise = random.standard_normal((4, 1000))
    slow = np.empty_like(noise)
    slow[:, 0] = noise[:, 0]
    for t in range(1, 1000):
        slow[:, t] = 0.995 * slow[:, t - 1] + 0.1 * random.standard_normal(4)
    assert any("Few effective" in message for message in mixing(trace_of((noise * np.exp(1.5 * slow))[..., None])))


def test_one_chain_is_compared_with_itself() -> None:
    assert mixing(trace_of(white_noise(1))) == []
    drifting = np.linspace(0, 1, 1000)[None, :, None] + white_noise(1) / 10
    assert "The halves of the chain disagree on x" in mixing(trace_of(drifting))[0]


def test_the_halves_of_an_odd_number_of_draws_are_as_long() -> None:
    rows = white_noise(1, 101)
    (column,) = measure(trace_of(rows)).columns
    np.testing.assert_array_equal(column, [rows[0, :50, 0], rows[0, 50:100, 0]])


def test_too_few_draws_to_tell() -> None:
    assert mixing(trace_of(white_noise(4, 7))) == [
        "7 draws per chain are too few to judge convergence: draw at least 100."
    ]


@pytest.mark.parametrize("same_point", [True, False])
def test_chains_that_never_moved_are_called_so(same_point: bool) -> None:
    """Their R̂ is not a number, or infinite, so it says nothing."""
    rows = np.zeros((3, 100, 2)) if same_point else np.broadcast_to(np.arange(3.0)[:, None, None], (3, 100, 2))
    found = mixing(trace_of(rows.copy(), Gaussian()))
    assert len(found) == 1
    assert found[0].startswith("Chains 0, 1, 2 never moved: all draws of each are the same point.")


def test_one_chain_that_never_moved_among_others() -> None:
    rows = white_noise(4, 1000, 2)
    rows[2] = rows[2, :1]
    found = mixing(trace_of(rows, Gaussian()))
    assert found[0].startswith("Chain 2 never moved: all draws of it are the same point.")
    assert any("The chains disagree on theta[0], theta[1]" in message for message in found)
    assert "nan" not in " ".join(found)
    rows[2, 500] += 1.0  # away and back again
    assert "never moved" not in " ".join(mixing(trace_of(rows, Gaussian())))
    alone = mixing(trace_of(np.ones((1, 50, 2)), Gaussian()))
    assert [message.split(":")[0] for message in alone] == ["Chain 0 never moved"]


@pytest.mark.parametrize("value", [0.0, np.inf])
def test_a_constant_parameter_is_not_called_converged(value: float) -> None:
    rows = white_noise(4, 1000, 3)
    rows[..., 1] = value
    found = mixing(trace_of(rows, Gaussian({"theta": (3,)})))
    assert len(found) == 1
    assert found[0].startswith("R̂ cannot be computed for theta[1]: the values do not change or are not finite")


def test_many_parameters_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = white_noise(2, 300, 30)
    rows[1] += 3.0
    monkeypatch.setattr("ggmc.trace.mixing.SCALARS", 10)
    found = mixing(trace_of(rows, Gaussian({"theta": (30,)})))
    assert found[0].startswith("The chains disagree on theta[0], theta[3], theta[6] and 7 more (worst")


def test_many_parameters_of_a_run() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3000, dtype=F64))
    trace = ggmc.sample(target, ggmc.HMC(0.2, 7), draws=20, warmup=5, progress=False)
    assert isinstance(trace.warnings, list)


def test_predictions_are_what_mixing_is_judged_by() -> None:
    target = PredictiveRegression(*regression_data())
    rows = line_rows()
    rows[0, :, 0] += 5
    found = mixing(trace_of(rows, target))
    assert "disagree on prediction[0], prediction[1], prediction[2] and 2 more" in found[0]
    assert "weight" not in " ".join(found)


def test_weights_that_predict_the_same_do_not_alarm() -> None:
    x, y = regression_data()
    x[:, 1] = x[:, 0]  # so that only the sum of the two weights is known
    rows = line_rows()
    rows[0, :, 0] += 5
    rows[0, :, 1] -= 5
    assert mixing(trace_of(rows, PredictiveRegression(x, y))) == []


def test_unknown_noise_is_diagnosed() -> None:
    rows = line_rows()
    rows[0, :, 2] += 5
    found = mixing(trace_of(rows, PredictiveRegression(*regression_data())))
    assert found[0].startswith("The chains disagree on noise (worst R̂")
    one = line_rows(1)
    one[0, :500, 2] += 5
    assert (
        "The halves of the chain disagree on noise"
        in mixing(trace_of(one, PredictiveRegression(*regression_data())))[0]
    )


def test_only_what_is_judged_is_computed() -> None:
    """The named values of a large network take as much memory as its rows."""
    trace = trace_of(line_rows(), PredictiveRegression(*regression_data()))
    mixing(trace)
    assert "draws" not in vars(trace)


def smooth(rows: np.ndarray) -> np.ndarray:
    """Draws of which neighbours are alike, more so in the later columns."""
    found = rows.copy()
    for column in range(rows.shape[2]):
        for _ in range(column):
            found[:, 1:, column] = (found[:, 1:, column] + found[:, :-1, column]) / 2**0.5
    return found


def test_what_is_measured_is_what_arviz_says_of_each_number() -> None:
    rows = smooth(white_noise(3, 200, 4))
    found = measure(trace_of(rows, Gaussian({"a": (), "b": (3,)})))
    assert found.names == ["a", "b[0]", "b[1]", "b[2]"]
    for i in range(4):
        assert found.rhat[i] == arviz.rhat(rows[..., i])
        assert found.bulk[i] == arviz.ess(rows[..., i], method="bulk")
        assert found.tail[i] == arviz.ess(rows[..., i], method="tail")
    assert (found.bulk != found.tail).all()
    np.testing.assert_array_equal(found.ess, np.minimum(found.bulk, found.tail))


def test_the_worst_numbers_are_named_with_their_values() -> None:
    rows = smooth(white_noise(2, 150, 3))[..., ::-1].copy()  # the slowest first
    rows[1, :, 1] += 3.0
    trace = trace_of(rows, Gaussian({"theta": (3,)}))
    known = measure(trace)
    apart, few = mixing(trace)
    assert np.argmax(known.rhat) == np.argmin(known.ess) == 1
    assert f"(worst R̂ = {known.rhat[1]:.4g} for theta[1], above 1.01)" in apart
    assert few.startswith("Few effective draws for theta[0], theta[1]")
    assert f"(least {known.ess[1]:.0f} for theta[1], below 200)" in few


@pytest.mark.parametrize("at_once", [1, 40, 10**6])
def test_what_is_measured_does_not_depend_on_how_draws_are_read(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target = PredictiveRegression(*regression_data())
    whole = measure(trace_of(line_rows(2, 50), target))
    assert whole.names == ["noise", *(f"prediction[{i}]" for i in range(5))]
    monkeypatch.setattr(record, "NUMBERS_AT_ONCE", at_once)
    parts = measure(trace_of(line_rows(2, 50), target))
    assert parts.names == whole.names
    np.testing.assert_allclose(parts.columns, whole.columns, rtol=1e-12)
    expected = line_rows(2, 50)[..., :2] @ regression_data()[0][:5].numpy().T
    np.testing.assert_allclose(np.moveaxis(np.array(whole.columns[1:]), 0, -1), expected)
    np.testing.assert_allclose(whole.columns[0], np.exp(line_rows(2, 50)[..., 2]))


def test_of_very_many_draws_fewer_numbers_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.trace.mixing.NUMBERS", 1000)
    rows = white_noise(2, 100, 12)
    found = measure(trace_of(rows, Gaussian({"theta": (12,)})))
    assert found.names == ["theta[0]", "theta[3]", "theta[6]", "theta[9]"]  # at most five: every third
    np.testing.assert_array_equal(found.columns, np.moveaxis(rows[..., ::3], -1, 0))


def test_predictions_of_merged_runs_are_compared_across_them() -> None:
    class Predictions(MergedStore):
        """Predictions of a run in memory, without positions."""

        def __init__(self, shift: float, draws: int):
            super().__init__([MemoryStore([Block(np.zeros((2, draws, 1)), good_stats(2, draws))])])
            self.keeps_rows = False
            self.found = white_noise(2, draws, 3) + shift

        def values(self, names: Any = None, draws: slice = ALL) -> dict[str, np.ndarray]:
            return {"prediction": self.found[:, draws]}

    runs = [Trace(Predictions(shift, draws), ggmc.GGMC(0.1), None) for shift, draws in ((0.0, 300), (5.0, 250))]
    merged = ggmc.merge(runs)
    assert (merged.num_chains, merged.num_draws, merged.store.keeps_rows) == (4, 250, False)
    expected = np.concatenate([white_noise(2, 300, 3)[:, :250], white_noise(2, 250, 3) + 5.0])
    np.testing.assert_array_equal(merged["prediction"], expected)
    whole = merged.store.values()  # of all draws: as many as the shortest run has
    assert whole is not None
    np.testing.assert_array_equal(whole["prediction"], expected)
    assert "The chains disagree on prediction[0], prediction[1], prediction[2]" in merged.warnings[1]
    assert (measure(merged).rhat > 1.5).all()
    assert max(measure(run).rhat.max() for run in runs) < 1.2
