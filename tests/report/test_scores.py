"""Scores on test data and what is said of them, by value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

import ggmc
from ggmc.bayes import metrics
from ggmc.report import charts
from ggmc.report import scores as room
from ggmc.report.findings import find
from ggmc.report.scores import Scores, scores, section
from tests.support.posteriors import NORMAL, inputs, line, outcomes
from tests.support.traces import PredictiveRegression, regression_data, trace_of, white_noise

F64 = torch.float64
X, Y = torch.tensor([[1.0, 0.0], [2.0, 3.0], [0.0, -1.0]], dtype=F64), torch.tensor([1.0, 5.0, 0.0], dtype=F64)


def regression_trace(chains: int, draws: int) -> ggmc.Trace:
    return trace_of(white_noise(chains, draws, 3), PredictiveRegression(*regression_data()))


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [(0.123456, None, "0.1235"), (0.123456, 0.0123, "0.123 ± 0.012"), (0.123456, 0.5, "0.12 ± 0.50"),
     (-1234.5678, 12.3, "−1235 ± 12"), (0.5, 0.0, "0.5 ± 0"), (0.5, 1e-9, "0.5000 ± 0.0000")],
)  # fmt: skip
def test_a_score_has_as_many_digits_as_its_error_allows(value: float, error: float | None, text: str) -> None:
    known = Scores({"nll": value}, {} if error is None else {"nll": error})
    assert known.shown("nll").replace("\N{NO-BREAK SPACE}", " ") == text
    assert known.shown("rmse") == "–"


def test_a_long_run_is_scored_by_draws_spread_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "DRAWS", 40)
    trace = regression_trace(2, 50)
    found = scores(find(trace), X, Y)
    assert found is not None
    assert found.draws == 2 * 17  # every third of fifty
    target: Any = trace.target
    rows = torch.from_numpy(white_noise(2, 50, 3)[:, ::3])
    assert found.values == target.score(rows.flatten(0, 1), X, Y)
    left = [target.score(rows[1 - out], X, Y)["rmse"] for out in range(2)]
    assert found.errors == {"rmse": pytest.approx(abs(left[0] - left[1]))}  # two standard errors


def test_many_chains_are_left_out_in_eight_groups() -> None:
    trace = regression_trace(11, 10)
    found = scores(find(trace), X, Y)
    assert found is not None
    rows, target = trace.rows(), trace.target
    assert isinstance(target, PredictiveRegression)
    groups = np.array_split(np.arange(11), 8)
    left = np.array(
        [target.score(rows[[i for i in range(11) if i not in out]].flatten(0, 1), X, Y)["rmse"] for out in groups]
    )
    assert found.errors["rmse"] == pytest.approx(2 * np.sqrt(7 * left.var()))


def test_one_chain_has_scores_without_errors() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    found = find(trace_of(white_noise(1, 30, 3), target))
    known = scores(found, inputs(), outcomes())
    assert known is not None
    assert (known.errors, known.draws) == ({}, 30)
    assert known.values == target.score(found.trace.stacked_rows(), inputs(), outcomes())
    assert section(found, known, outcomes(), "r0").tables[0].caption == "Scores."


def test_what_the_section_says() -> None:
    known = Scores({"rmse": 2.0, "lppd": -1.0}, {"rmse": 0.1, "lppd": 0.2}, None, 1234)
    part = section(find(regression_trace(2, 30)), known, Y, "r0")
    assert part.paragraphs == ["3 test examples, predicted by the mixture of 1,234 draws."]
    rows = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in part.tables[0].rows]
    assert rows == [
        ["rmse", "2.00 ± 0.10", "root of the mean squared error"],
        ["lppd", "−1.00 ± 0.20", "log predictive density of an example; more is better"],
    ]


# Calibration


class Drawn(dict[str, Any]):
    """What a calibration diagram was drawn of."""


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    seen = Drawn()

    def calibration(prefix: str, said: Any, share: Any, ends: Any, labels: Any) -> str:
        seen.update(said=said, share=share, ends=ends, labels=labels)
        return "<svg/>"

    monkeypatch.setattr(charts, "calibration", calibration)
    return seen


def two_classes(confidence: float, right: int) -> tuple[np.ndarray, np.ndarray]:
    """A hundred predictions of the first class, so many of them right."""
    return np.tile([confidence, 1 - confidence], (100, 1)), (np.arange(100) >= right).astype(int)


@pytest.mark.parametrize(
    ("confidence", "right", "words"),
    [
        (0.9, 60, "It is overconfident."),
        (0.6, 95, "It is underconfident."),
        (0.9, 85, "That fits"),
        (0.9, 83, "It is overconfident."),
    ],
)
def test_confidence_beside_the_share_of_right_answers(confidence: float, right: int, words: str, drawn: Drawn) -> None:
    caption = room._reliability(*two_classes(confidence, right), "r0").caption
    assert f"The mean confidence is {confidence}, and {right / 100:.3g} of the answers are right. {words}" in caption
    interval = binomtest(right, 100).proportion_ci(method="wilson")
    np.testing.assert_allclose(drawn["said"], [confidence])
    np.testing.assert_allclose(drawn["share"], [right / 100])
    np.testing.assert_allclose(right / 100 - drawn["ends"][0], interval.low, atol=1e-4)  # 1.96 is rounded
    np.testing.assert_allclose(right / 100 + drawn["ends"][1], interval.high, atol=1e-4)
    assert drawn["labels"] == ("confidence", "share right")


def test_bins_weigh_as_many_examples_as_they_have(drawn: Drawn) -> None:
    probabilities = np.concatenate([np.tile([0.95, 0.05], (90, 1)), np.tile([0.55, 0.45], (10, 1))])
    caption = room._reliability(probabilities, np.r_[np.zeros(90, int), np.ones(10, int)], "r0").caption
    assert "The mean confidence is 0.91, and 0.9 of the answers are right. That fits" in caption
    np.testing.assert_allclose(drawn["said"], [0.55, 0.95])
    np.testing.assert_allclose(drawn["share"], [0.0, 1.0])


def outcomes_around(width: float) -> tuple[Scores, np.ndarray]:
    """Predictions with outcomes from −width to width; the truths lie evenly from −1 to 1."""
    nothing, truths = np.zeros(200), np.linspace(-1, 1, 200)
    outcomes = np.repeat(np.linspace(-width, width, 101)[:, None], 200, 1)
    return Scores({}, {}, ggmc.Prediction(nothing, nothing, nothing, nothing, outcomes=outcomes), 101), truths


@pytest.mark.parametrize(
    ("width", "in_90", "in_50", "words"),
    [
        (0.5, 45, 25, "Intervals are too narrow."),
        (1.0, 90, 50, "That fits"),
        (0.97, 87, 48, "That fits"),
        (2.0, 100, 100, "Intervals are too wide."),
    ],
)
def test_intervals_beside_the_share_of_outcomes_in_them(
    width: float, in_90: int, in_50: int, words: str, drawn: Drawn
) -> None:
    known, truths = outcomes_around(width)
    picture = room._diagram(known, truths[:, None], "r0")
    assert picture is not None
    said = f"Of the outcomes, {in_90}% lie within their 90 % intervals and {in_50}% within their 50 % ones. {words}"
    assert picture.caption.startswith(said)
    assert known.prediction is not None
    np.testing.assert_allclose(drawn["said"], np.arange(1, 10) / 10)
    expected = [metrics.coverage(*known.prediction.interval(level / 10), truths) for level in range(1, 10)]
    np.testing.assert_allclose(drawn["share"], expected)
    assert drawn["ends"] is None
