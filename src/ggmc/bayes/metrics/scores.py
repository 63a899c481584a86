"""Single numbers for how good predictions are, and entropies for how sure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ggmc.bayes.metrics.arguments import as_alike, as_array, as_classification, as_numbers, check_probabilities
from ggmc.errors import BadInput


def accuracy(probabilities: Any, labels: Any) -> float:
    """The share of examples whose most probable class is the true one.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.accuracy([[0.9, 0.1], [0.6, 0.4]], [0, 1])
        0.5
    """
    probabilities, labels = as_classification(probabilities, labels)
    return float((probabilities.argmax(-1) == labels).mean())


def nll(probabilities: Any, labels: Any) -> float:
    """The negative log probability of the true class, mean over examples; infinite if any true class has none.

    Example:
        >>> from ggmc.bayes import metrics
        >>> round(metrics.nll([[0.5, 0.5], [0.25, 0.75]], [0, 0]), 4)        # (log 2 + log 4) / 2
        1.0397
    """
    probabilities, labels = as_classification(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(0.0 - np.log(probabilities[np.arange(len(labels)), labels]).mean())


def lppd(log_likelihood: Any) -> float:
    """The log pointwise predictive density, mean over examples: log of the mean over draws of each one's likelihood.

    `log_likelihood` is [draws, examples], or [chains, draws, examples]. Much of the literature sums over examples:
    multiply by their number for that.

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


def brier(probabilities: Any, labels: Any) -> float:
    """Brier's score: squared distance to the one-hot truth, summed over classes, mean over examples. 0 best, 2 worst.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.brier([[0.5, 0.5], [0.0, 1.0]], [0, 1])
        0.25
    """
    probabilities, labels = as_classification(probabilities, labels)
    truth = np.eye(probabilities.shape[1])[labels]
    return float(((probabilities - truth) ** 2).sum(-1).mean())


def auroc(scores_out: Any, scores_in: Any) -> float:
    """How well a score tells what is foreign: the probability that it is higher out of distribution than in it.

    1 tells perfectly, ½ not at all; ties count half.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.auroc(scores_out=[0.9, 0.5], scores_in=[0.1, 0.5])
        0.875
    """
    foreign, known = as_numbers("scores_out", scores_out), np.sort(as_numbers("scores_in", scores_in))
    below = np.searchsorted(known, foreign, "left") + np.searchsorted(known, foreign, "right")
    return float(below.mean() / (2 * len(known)))


def rmse(mean: Any, y: Any) -> float:
    """The root of the mean squared error.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.rmse([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 6.0])
        1.0
    """
    mean, y = as_alike(mean=mean, y=y)
    return float(np.sqrt(((mean - y) ** 2).mean()))


def coverage(lower: Any, upper: Any, y: Any) -> float:
    """The share of values within their intervals, ends included: to be compared with what the intervals promise.

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
    """Entropies of each example, in nats: total = aleatoric + epistemic."""

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def uncertainty(probabilities: Any) -> Uncertainty:
    """Where the uncertainty comes from, of probabilities *per draw*: [draws, examples, classes].

    Total is the entropy of the mean over draws, aleatoric the mean of the draws' entropies (what more data would not
    remove), and epistemic their difference, the mutual information of label and weights (what the draws disagree on).

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
