"""Metrics: how good predictions are, and how well they state their uncertainty.

All take torch tensors or NumPy arrays, compute in float64, and return plain numbers. Probabilities are [examples,
classes], already averaged over draws unless said otherwise; labels are whole numbers. Logarithms are natural.

Example:
    >>> import torch
    >>> from ggmc.bayes import metrics
    >>> probabilities = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]])
    >>> labels = torch.tensor([0, 0, 1, 1])
    >>> metrics.accuracy(probabilities, labels)
    0.75
    >>> round(metrics.nll(probabilities, labels), 4), round(metrics.brier(probabilities, labels), 4)
    (0.5108, 0.35)
"""

from ggmc.bayes.metrics.calibration import Reliability, ece, plot_reliability, reliability
from ggmc.bayes.metrics.scores import Uncertainty, accuracy, auroc, brier, coverage, lppd, nll, rmse, uncertainty

__all__ = [
    "Reliability",
    "Uncertainty",
    "accuracy",
    "auroc",
    "brier",
    "coverage",
    "ece",
    "lppd",
    "nll",
    "plot_reliability",
    "reliability",
    "rmse",
    "uncertainty",
]
