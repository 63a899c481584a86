"""Numbers that say how good predictions are, and entropies that say how certain."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ggmc.bayes.metrics.arguments import (
    Values,
    as_alike,
    as_array,
    as_classification,
    as_numbers,
    check_probabilities,
)
from ggmc.errors import BadInput


def accuracy(probabilities: Values, labels: Values) -> float:
    """The share of examples whose most probable class is the true one.

    Args:
        probabilities: [examples, classes], summing to one over classes.
        labels: The true classes, whole numbers [examples].

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1])
        0.5
    """
    probabilities, labels = as_classification(probabilities, labels)
    return float((probabilities.argmax(-1) == labels).mean())


def nll(probabilities: Values, labels: Values) -> float:
    """The negative log probability of the true class, in nats, mean over examples; infinite if one has probability 0.

    Args:
        probabilities: [examples, classes], summing to one over classes.
        labels: The true classes, whole numbers [examples].

    Example:
        >>> from ggmc.bayes import metrics
        >>> round(metrics.nll([[0.5, 0.5], [0.25, 0.75]], [0, 0]), 4)        # (log 2 + log 4) / 2
        1.0397
    """
    probabilities, labels = as_classification(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(0.0 - np.log(probabilities[np.arange(len(labels)), labels]).mean())


def lppd(log_likelihood: Values) -> float:
    """The log pointwise predictive density, mean over examples: log of the mean over draws of each one's likelihood.

    Args:
        log_likelihood: [draws, examples] or [chains, draws, examples].

    Returns:
        The mean over examples. Much of the literature takes the sum: multiply by the number of examples for that.

    Example:
        >>> import numpy as np
        >>> from ggmc.bayes import metrics
        >>> bool(np.isclose(metrics.lppd(np.log([[0.5, 0.2], [0.7, 0.4]])), np.log(0.6 * 0.3) / 2))
        True
    """
    terms = as_array("log_likelihood", log_likelihood)
    if terms.ndim < 2 or not terms.size:
        raise BadInput(f"log_likelihood must be [draws, examples], got shape {terms.shape}")
    if np.isnan(terms).any() or (terms == np.inf).any():
        raise BadInput("log_likelihood must be numbers below infinity, got NaN or inf")
    terms = terms.reshape(-1, terms.shape[-1])
    return float((np.logaddexp.reduce(terms, axis=0) - np.log(len(terms))).mean())


def brier(probabilities: Values, labels: Values) -> float:
    """Brier's score: squared distance to the one-hot truth, summed over classes, mean over examples. 0 best, 2 worst.

    Args:
        probabilities: [examples, classes], summing to one over classes.
        labels: The true classes, whole numbers [examples].

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.brier([[0.5, 0.5], [0.0, 1.0]], [0, 1])
        0.25
    """
    probabilities, labels = as_classification(probabilities, labels)
    truth = np.eye(probabilities.shape[1])[labels]
    return float(((probabilities - truth) ** 2).sum(-1).mean())


def auroc(scores_out: Values, scores_in: Values) -> float:
    """How well a score separates inputs from outside the training distribution from those inside it.

    It is the probability that the score is higher outside than inside: 1 is perfect, ½ is chance; ties count half.

    Args:
        scores_out: The scores of inputs from outside, any shape.
        scores_in: The scores of inputs from inside, any shape.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.auroc(scores_out=[0.9, 0.5], scores_in=[0.1, 0.5])
        0.875
    """
    foreign, known = as_numbers("scores_out", scores_out), np.sort(as_numbers("scores_in", scores_in))
    below = np.searchsorted(known, foreign, "left") + np.searchsorted(known, foreign, "right")
    return float(below.mean() / (2 * len(known)))


def rmse(mean: Values, y: Values) -> float:
    """The root of the mean squared error.

    Args:
        mean: The predictions, any shape.
        y: The outcomes, of the same shape.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.rmse([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 6.0])
        1.0
    """
    mean, y = as_alike(mean=mean, y=y)
    return float(np.sqrt(((mean - y) ** 2).mean()))


def coverage(lower: Values, upper: Values, y: Values) -> float:
    """The share of outcomes within their intervals, ends included: to be compared with the intervals' level.

    Args:
        lower: The lower ends, any shape.
        upper: The upper ends, of the same shape.
        y: The outcomes, of the same shape.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.coverage([0.0, 0.0], [1.0, 1.0], [0.3, 1.3])
        0.5
    """
    lower, upper, y = as_alike(lower=lower, upper=upper, y=y)
    if (lower > upper).any():
        at = np.argmax((lower > upper).ravel())
        raise BadInput(f"lower must not exceed upper, got {lower.ravel()[at]:g} and {upper.ravel()[at]:g} at {at}")
    return float(((lower <= y) & (y <= upper)).mean())


class Uncertainty(NamedTuple):
    """Entropies of each example, in nats: total = aleatoric + epistemic.

    Args:
        total: The entropy of the mean over draws, [examples].
        aleatoric: The mean of the draws' entropies, [examples].
        epistemic: Their difference, [examples].

    Example:
        >>> from ggmc.bayes import metrics
        >>> draws = [[[0.9, 0.1]], [[0.1, 0.9]]]                        # two draws of one example
        >>> bool(metrics.uncertainty(draws).epistemic > metrics.uncertainty(draws).aleatoric)
        True
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def uncertainty(probabilities: Values) -> Uncertainty:
    """Where the uncertainty comes from: the noise of the labels, or the disagreement of the draws.

    Args:
        probabilities: Probabilities *of each draw*, [draws, examples, classes] or [chains, draws, examples, classes].

    Returns:
        Total is the entropy of the mean over draws; aleatoric is the mean of the draws' entropies, which more data
        would not reduce; epistemic is their difference, the mutual information of label and weights.

    Example:
        >>> from ggmc.bayes import metrics
        >>> torn, noisy = [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]   # two draws each
        >>> parts = metrics.uncertainty([[t, n] for t, n in zip(torn, noisy)])
        >>> parts.epistemic.round(4), parts.aleatoric.round(4)
        (array([0.6931, 0.    ]), array([0.    , 0.6931]))
    """
    array = as_array("probabilities", probabilities)
    if array.ndim < 3 or not array.size:
        raise BadInput(f"probabilities must be [draws, examples, classes], got shape {array.shape}")
    check_probabilities(array)
    array = array.reshape(-1, *array.shape[-2:])
    total, aleatoric = _entropy(array.mean(0)), _entropy(array).mean(0)
    return Uncertainty(total, aleatoric, np.maximum(total - aleatoric, 0.0))  # rounding may make it −1e-17


def _entropy(probabilities: np.ndarray) -> np.ndarray:
    return -(probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0))).sum(-1)
