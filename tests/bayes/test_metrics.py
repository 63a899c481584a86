"""Metrics against values worked out by hand and against scikit-learn."""

import builtins
import math

import matplotlib
import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics
import torch

from ggmc.bayes import metrics
from ggmc.errors import BadInput

matplotlib.use("Agg")
from matplotlib import pyplot as plt

BY_HAND = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.4, 0.35, 0.25]])
LABELS = np.array([0, 1, 1, 2])


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 500 examples and four classes, and labels drawn from flatter ones."""
    random = np.random.default_rng(0)
    logits = 2 * random.standard_normal((500, 4))
    flat = scipy.special.softmax(logits / 2, -1)
    labels = (flat.cumsum(-1) < random.uniform(size=(500, 1))).sum(-1)
    return scipy.special.softmax(logits, -1), labels


# Classification


def test_by_hand() -> None:
    assert metrics.accuracy(BY_HAND, LABELS) == 0.5
    assert metrics.nll(BY_HAND, LABELS) == pytest.approx(-math.log(0.7 * 0.6 * 0.3 * 0.25) / 4)
    rows = [0.09 + 0.04 + 0.01, 0.01 + 0.16 + 0.09, 0.04 + 0.49 + 0.25, 0.16 + 0.1225 + 0.5625]
    assert metrics.brier(BY_HAND, LABELS) == pytest.approx(sum(rows) / 4)


def test_against_scikit_learn(many) -> None:
    probabilities, labels = many
    assert metrics.nll(probabilities, labels) == pytest.approx(sklearn.metrics.log_loss(labels, probabilities))
    top = sklearn.metrics.accuracy_score(labels, probabilities.argmax(-1))
    assert metrics.accuracy(probabilities, labels) == pytest.approx(top)
    # Scikit-learn's score of two classes counts one of them: half of Brier's own.
    two = np.stack([1 - probabilities[:, 0], probabilities[:, 0]], -1)
    binary = sklearn.metrics.brier_score_loss(labels == 0, probabilities[:, 0])
    assert metrics.brier(two, labels == 0) == pytest.approx(2 * binary)


def test_perfect_hopeless_and_impossible_predictions() -> None:
    perfect = np.eye(3)
    assert (metrics.accuracy(perfect, [0, 1, 2]), metrics.nll(perfect, [0, 1, 2])) == (1.0, 0.0)
    assert math.copysign(1, metrics.nll(perfect, [0, 1, 2])) == 1
    assert (metrics.brier(perfect, [0, 1, 2]), metrics.ece(perfect, [0, 1, 2])) == (0.0, 0.0)
    assert (metrics.accuracy(perfect, [1, 2, 0]), metrics.nll(perfect, [1, 2, 0])) == (0.0, math.inf)
    assert (metrics.brier(perfect, [1, 2, 0]), metrics.ece(perfect, [1, 2, 0])) == (2.0, 1.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_arrays_and_lists_are_alike(dtype) -> None:
    probabilities = torch.from_numpy(BY_HAND).log().to(dtype).softmax(-1).requires_grad_()
    tolerance = 20 * torch.finfo(dtype).eps
    for metric in (metrics.accuracy, metrics.nll, metrics.brier):
        found = metric(probabilities, torch.from_numpy(LABELS))
        assert type(found) is float
        assert found == pytest.approx(metric(BY_HAND.tolist(), LABELS.tolist()), rel=tolerance)


def test_lppd_is_the_log_of_the_mean_over_draws() -> None:
    likelihood = np.array([[0.5, 0.2, 0.1], [0.7, 0.4, 0.3]])
    expected = math.log(0.6 * 0.3 * 0.2) / 3
    assert metrics.lppd(np.log(likelihood)) == pytest.approx(expected)
    assert metrics.lppd(np.log(likelihood).reshape(2, 1, 3)) == pytest.approx(expected)  # chains
    assert metrics.lppd(torch.from_numpy(np.log(likelihood)) - 5000) == pytest.approx(expected - 5000)
    assert metrics.lppd([[-math.inf], [0.0]]) == pytest.approx(-math.log(2))
    assert metrics.lppd([[-math.inf], [-math.inf]]) == -math.inf
    random = np.random.default_rng(0).standard_normal((40, 7))
    assert metrics.lppd(random) == pytest.approx((scipy.special.logsumexp(random, 0) - math.log(40)).mean())


# Calibration


def test_reliability_by_hand() -> None:
    top = np.array([0.9, 0.95, 0.75, 0.7, 0.55])
    probabilities = np.stack([top, 1 - top], -1)
    table = metrics.reliability(probabilities, [0, 1, 0, 0, 1], bins=5)
    np.testing.assert_array_equal(table.count, [0, 0, 1, 2, 2])
    np.testing.assert_allclose(table.confidence, [np.nan, np.nan, 0.55, 0.725, 0.925])
    np.testing.assert_allclose(table.accuracy, [np.nan, np.nan, 0.0, 1.0, 0.5])
    expected = (0.55 + 2 * 0.275 + 2 * 0.425) / 5
    assert metrics.ece(probabilities, [0, 1, 0, 0, 1], bins=5) == pytest.approx(expected)


def test_a_bin_has_its_upper_end() -> None:
    table = metrics.reliability([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]], [0, 0, 0], bins=4)
    assert table.count.tolist() == [0, 1, 1, 1]


def test_one_bin_is_the_overall_gap(many) -> None:
    probabilities, labels = many
    gap = abs(metrics.accuracy(probabilities, labels) - probabilities.max(-1).mean())
    assert metrics.ece(probabilities, labels, bins=1) == pytest.approx(gap)
    assert metrics.reliability(probabilities, labels).count.sum() == len(labels)
    assert metrics.ece(probabilities, labels) >= gap  # the triangle inequality
    assert gap > 0.1  # the labels are from flatter probabilities


def test_plot_shows_the_table_and_the_counts(many) -> None:
    probabilities, labels = many
    axis = metrics.plot_reliability(probabilities, labels, label="chains", bins=10)
    again = metrics.plot_reliability((probabilities + 0.25) / 2, labels, axis=axis)
    axis.figure.canvas.draw()
    assert again is axis
    table = metrics.reliability(probabilities, labels, bins=10)
    lines = [line for line in axis.get_lines() if line.get_marker() == "o"]
    filled = table.count > 0
    np.testing.assert_allclose(lines[0].get_xydata(), np.stack([table.confidence, table.accuracy], -1)[filled])
    (below,) = axis.child_axes
    np.testing.assert_array_equal(below.patches[0].get_data().values, table.count)
    assert below.get_ylim()[1] > table.count.max()
    texts = [text.get_text() for text in axis.get_legend().get_texts()]
    first, second = metrics.ece(probabilities, labels, 10), metrics.ece((probabilities + 0.25) / 2, labels)
    assert texts == [f"chains: ECE {first:.3f}", f"ECE {second:.3f}"]
    interval = axis.collections[0].get_segments()[-1][:, 1]
    hits, count = round(table.accuracy[-1] * table.count[-1]), int(table.count[-1])
    wilson = scipy.stats.binomtest(hits, count).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(interval, [wilson.low, wilson.high], atol=1e-4)
    plt.close(axis.figure)


def test_plot_says_what_it_needs(many, monkeypatch) -> None:
    real = builtins.__import__

    def without(name, *args):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install ggmc\[demo\]"):
        metrics.plot_reliability(*many)


# Out of distribution, regression


def test_auroc_by_hand_and_against_scikit_learn() -> None:
    assert metrics.auroc([2.0, 3.0], [0.0, 1.0]) == 1.0
    assert metrics.auroc([0.0, 1.0], [2.0, 3.0]) == 0.0
    assert metrics.auroc([1.0, 1.0, 1.0], [1.0]) == 0.5
    assert metrics.auroc([1.0, 3.0, 2.0], [2.0, 0.0]) == pytest.approx((1 + 2 + 1.5) / 6)
    random = np.random.default_rng(1)
    for round_to in (8, 1):  # few ties, and many
        foreign, known = random.normal(0.5, 1, 300).round(round_to), random.normal(0, 1, 200).round(round_to)
        truth = np.r_[np.ones(300), np.zeros(200)]
        expected = sklearn.metrics.roc_auc_score(truth, np.r_[foreign, known])
        assert metrics.auroc(torch.from_numpy(foreign), known) == pytest.approx(expected)
    assert metrics.auroc([math.inf], [1.0]) == 1.0


def test_rmse_and_coverage() -> None:
    assert metrics.rmse([1.0, 2.0], torch.tensor([4.0, 6.0])) == pytest.approx(math.sqrt(12.5))
    lower, upper = np.zeros(4), np.ones(4)
    assert metrics.coverage(lower, upper, [0.0, 1.0, 0.5, 1.5]) == 0.75
    assert metrics.coverage(lower, upper, [-0.1, 1.1, 2.0, 0.3]) == 0.25
    assert metrics.coverage(-np.inf * upper, np.inf * upper, lower) == 1.0


# Where uncertainty comes from


def test_uncertainty_adds_up_and_matches_scipy(many) -> None:
    per_draw = np.stack([many[0], np.roll(many[0], 1, axis=1), many[0][::-1]])
    parts = metrics.uncertainty(torch.from_numpy(per_draw.copy()))
    np.testing.assert_allclose(parts.total, scipy.stats.entropy(per_draw.mean(0), axis=-1))
    np.testing.assert_allclose(parts.aleatoric, scipy.stats.entropy(per_draw, axis=-1).mean(0))
    to_mean = scipy.stats.entropy(per_draw, per_draw.mean(0)[None], axis=-1).mean(0)  # the mutual information
    np.testing.assert_allclose(parts.epistemic, to_mean, atol=1e-12)
    by_chain = metrics.uncertainty(per_draw.reshape(3, 1, 500, 4))
    np.testing.assert_array_equal(by_chain.epistemic, parts.epistemic)


def test_draws_that_agree_leave_no_epistemic_uncertainty(many) -> None:
    parts = metrics.uncertainty(np.stack([many[0]] * 7))
    np.testing.assert_allclose(parts.epistemic, 0, atol=1e-14)
    assert (parts.epistemic >= 0).all()
    torn = metrics.uncertainty(np.eye(4)[:, None, :])  # each draw is certain, of another class
    assert (torn.aleatoric.item(), torn.epistemic.item()) == (0.0, pytest.approx(math.log(4)))


# Refusals

SURE = [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: metrics.nll([[2.0, -1.0]], [0]), "must not be negative or NaN, got -1: use softmax"),
        (lambda: metrics.nll([[math.nan, 1.0]], [0]), "must not be negative or NaN, got nan"),
        (
            lambda: metrics.brier([[0.5, 0.5], [0.7, 0.7]], [0, 1]),
            r"sum to one over classes, got 1.4 at \[1\]: use soft",
        ),
        (lambda: metrics.accuracy([0.5, 0.5], [0, 1]), r"must be \[examples, classes\], got shape \(2,\)"),
        (lambda: metrics.accuracy([SURE, SURE], [0, 1]), r"got shape \(2, 2, 2\): average over draws"),
        (lambda: metrics.accuracy(np.zeros((0, 3)), []), r"got shape \(0, 3\)"),
        (lambda: metrics.ece(SURE, [0]), r"labels must have the shape \(2,\) of the examples, got \(1,\)"),
        (lambda: metrics.ece(SURE, [[0], [1]]), r"labels must have the shape \(2,\) of the examples, got \(2, 1\)"),
        (lambda: metrics.nll(SURE, [0, 2]), "labels must be whole numbers from 0 to 1, got 2"),
        (lambda: metrics.nll(SURE, [0, -1]), "labels must be whole numbers from 0 to 1, got -1"),
        (lambda: metrics.nll(SURE, [0, 0.5]), "labels must be whole numbers from 0 to 1, got 0.5"),
        (lambda: metrics.nll(SURE, ["cat", "dog"]), "labels must be a tensor or an array of numbers, got list"),
        (lambda: metrics.ece(SURE, [0, 1], bins=0), "bins must be a whole number of at least 1, got 0"),
        (lambda: metrics.lppd([0.0, 1.0]), r"must be \[draws, examples\], got shape \(2,\)"),
        (lambda: metrics.lppd([[math.nan]]), "got NaN or inf"),
        (lambda: metrics.auroc([], [1.0]), "scores_out must be at least one number"),
        (lambda: metrics.auroc([1.0], [math.nan]), "scores_in must be at least one number and not NaN"),
        (lambda: metrics.rmse(np.zeros((3, 1)), np.zeros(3)), r"got mean \(3, 1\), y \(3,\): use .squeeze"),
        (lambda: metrics.rmse([math.nan], [0.0]), "mean must be at least one number and not NaN"),
        (lambda: metrics.coverage([1.0], [0.0], [0.5]), "lower must not exceed upper, got 1 and 0 at 0"),
        (lambda: metrics.uncertainty(SURE), r"must be \[draws, examples, classes\], got shape \(2, 2\)"),
        (lambda: metrics.uncertainty([[[0.5, 0.6]]]), r"sum to one over classes, got 1.1 at \[0, 0\]"),
    ],
)
def test_refusals(call, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        call()
