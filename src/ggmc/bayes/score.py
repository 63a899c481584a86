"""How good a posterior's predictions are on data it has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ggmc import progress
from ggmc.bayes import metrics
from ggmc.bayes.data_checks import as_tensor
from ggmc.bayes.predict import EXAMPLES_AT_ONCE, predict
from ggmc.plain import Tree
from ggmc.targets.data import Data, InMemory

if TYPE_CHECKING:
    from ggmc.bayes.posterior import Posterior

LEVEL = 0.9  # of the interval whose coverage is reported


def score(target: Posterior, rows: Tensor, x: Tree, y: Tree) -> dict[str, float]:
    """The scores of the mixture over rows, by name.

    Args:
        target: The posterior.
        rows: Draws [draws, d].
        x: Inputs in the form of the training inputs.
        y: Their outcomes.

    Returns:
        `lppd`, the mean over examples of the log of the mean likelihood over draws; for classes also `nll`, `accuracy`,
        `brier` and `ece`; for numbers `rmse`, and `coverage`, the share of outcomes inside their 90 % interval.

    Example:
        >>> import torch
        >>> import ggmc
        >>> from ggmc.bayes.score import score
        >>> x, y = torch.randn(50, 2), torch.randint(2, (50,))
        >>> target = ggmc.Posterior(torch.nn.Linear(2, 2), "categorical", ggmc.priors.Gaussian(1.0), x, y)
        >>> sorted(score(target, torch.zeros(3, 6), x, y))
        ['accuracy', 'brier', 'ece', 'lppd', 'nll']
    """
    data = target.checked(x, y)
    found = {"lppd": _lppd(target, rows, data)}
    if not target.likelihood.predicts:
        return found
    outcomes = as_tensor(y).cpu().numpy()
    prediction = predict(target, rows, x)
    if prediction.probabilities is not None:
        if prediction.probabilities.ndim > 2:  # several outcomes of one example
            return found
        labels = outcomes.reshape(-1).astype(np.int64)
        for measure in (metrics.nll, metrics.accuracy, metrics.brier, metrics.ece):
            found[measure.__name__] = measure(prediction.probabilities, labels)
        return found
    outcomes = outcomes.reshape(prediction.mean.shape)
    found["rmse"] = metrics.rmse(prediction.mean, outcomes)
    found["coverage"] = metrics.coverage(*prediction.interval(LEVEL), outcomes)
    return found


def _lppd(target: Posterior, rows: Tensor, data: Data) -> float:
    """Some examples at a time: one number per draw and example can be more than memory holds."""
    total = 0.0
    with progress.bar(range(0, len(data), EXAMPLES_AT_ONCE), desc="scoring") as begins:
        for begin in begins:
            end = min(begin + EXAMPLES_AT_ONCE, len(data))
            some = InMemory(data.slice(begin, end), data.device)
            total += (end - begin) * metrics.lppd(target.log_likelihoods(rows, some).cpu())
    return total / len(data)
