"""Scores against values worked out by hand and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics
import torch

from ggmc.bayes import metrics

BY_HAND = np.array([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.4, 0.35, 0.25]])


LABELS = np.array([0, 1, 1, 2])


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
    assert metrics.lppd(random.reshape(4, 10, 7)) == pytest.approx(metrics.lppd(random))  # several draws of each chain


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


def test_uncertainty_by_hand() -> None:
    # Example 1: draws say (0.9, 0.1) and (0.5, 0.5); example 2: both say (1, 0).
    parts = metrics.uncertainty([[[0.9, 0.1], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]]])
    total = -(0.7 * math.log(0.7) + 0.3 * math.log(0.3))
    aleatoric = (-(0.9 * math.log(0.9) + 0.1 * math.log(0.1)) + math.log(2)) / 2
    np.testing.assert_allclose(parts.total, [total, 0.0], atol=1e-15)
    np.testing.assert_allclose(parts.aleatoric, [aleatoric, 0.0], atol=1e-15)
    np.testing.assert_allclose(parts.epistemic, [total - aleatoric, 0.0], atol=1e-15)


def test_several_outcomes_by_hand() -> None:
    mean, y = [[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [3.0, 5.0]]
    assert metrics.rmse(mean, y) == pytest.approx(math.sqrt((0 + 4 + 0 + 1) / 4))
    assert metrics.coverage([[0.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [1.0, 9.0]], y) == 0.75


def test_the_order_of_arguments_matters() -> None:
    assert metrics.auroc(scores_out=[1.0, 2.0, 3.0], scores_in=[2.5]) == pytest.approx(1 / 3)
    assert metrics.nll([[0.2, 0.8]], [1]) == pytest.approx(-math.log(0.8))
    assert metrics.brier([[0.2, 0.3, 0.5]], [2]) == pytest.approx(0.04 + 0.09 + 0.25)


def test_the_default_device_does_not_matter() -> None:
    probabilities, labels = torch.from_numpy(BY_HAND), torch.from_numpy(LABELS)
    scores = (metrics.accuracy, metrics.nll, metrics.brier, metrics.ece)
    expected = [score(probabilities, labels) for score in scores]
    entropies = metrics.uncertainty(probabilities[None]).total
    with torch.device("meta"):
        assert [score(probabilities, labels) for score in scores] == expected
        assert metrics.lppd(probabilities) == metrics.lppd(BY_HAND)
        assert metrics.auroc(probabilities, probabilities) == 0.5
        assert metrics.rmse(probabilities, probabilities) == 0.0
        assert metrics.coverage(probabilities, probabilities, probabilities) == 1.0
        np.testing.assert_array_equal(metrics.uncertainty(probabilities[None]).total, entropies)
