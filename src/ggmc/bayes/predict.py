"""Predictions: the mixture, over posterior draws, of what the module and the likelihood say of new inputs.

Draws and inputs are streamed: of each draw only sums are kept, and, for outcomes that are numbers, one draw of each
outcome, from which intervals come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Distribution
from torch.utils._pytree import tree_leaves, tree_map

from ggmc import progress
from ggmc.bayes.data_checks import as_tensor, check_finite
from ggmc.bayes.initial_points import seeded
from ggmc.bayes.likelihoods import Given
from ggmc.errors import BadInput

if TYPE_CHECKING:
    from ggmc.bayes.posterior import Posterior

EXAMPLES_AT_ONCE = 1000


@dataclass(frozen=True)
class Prediction:
    """What is predicted for each of n inputs, as arrays.

    For classes, `probabilities` are [n, classes], and uncertainties are entropies in nats: `total` of the mixture,
    `aleatoric` the mean of the draws' own, and `epistemic` the rest, the mutual information of outcome and weights. For
    numbers, `mean` is [n] or [n, outcomes], and uncertainties are variances: `aleatoric` of the noise, `epistemic` of
    the mean between draws.

    Example:
        >>> import torch, ggmc
        >>> x, y = torch.randn(20, 3), torch.randn(20)
        >>> posterior = ggmc.Posterior(torch.nn.Linear(3, 1), "gaussian", ggmc.priors.Gaussian(1.0), x, y)
        >>> prediction = posterior.prior_predictive(x, draws=500)
        >>> lower, upper = prediction.interval(0.9)
        >>> lower.shape, bool((lower < prediction.mean).all())
        ((20,), True)
    """

    mean: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    probabilities: np.ndarray | None = None
    outcomes: np.ndarray | None = None
    """One drawn outcome for each draw of the weights, [draws, n, ...]; None for classes."""

    @property
    def label(self) -> np.ndarray:
        """The most probable class of each input."""
        if self.probabilities is None:
            raise BadInput("these predictions are numbers, not classes: use `mean`")
        return self.probabilities.argmax(-1)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds the outcome with this probability: lower and upper ends."""
        if not 0 < level < 1:
            raise BadInput(f"level must lie between 0 and 1, got {level!r}")
        if self.outcomes is None:
            raise BadInput("classes have no intervals: use `probabilities`, or predictions of numbers")
        lower, upper = np.quantile(self.outcomes, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper


def predict(target: Posterior, rows: Tensor, x: Any, seed: int = 0) -> Prediction:
    """Average over rows [draws, d]; `seed` is that of the drawn outcomes."""
    parts = []
    with seeded(seed, target.device):
        for chunk in chunks(x):
            total = _Sums(target.likelihood.classifies)
            for law, output in laws(target, rows, chunk):
                total.add(law, output)
            parts.append(total.prediction())
    fields = Prediction.__dataclass_fields__
    joined: dict[str, Any] = {}
    for name in fields:
        pieces = [getattr(part, name) for part in parts]
        axis = 1 if name == "outcomes" else 0
        joined[name] = None if pieces[0] is None else np.concatenate(pieces, axis)
    return Prediction(**joined)


def laws(target: Posterior, rows: Tensor, x: Any) -> Iterator[tuple[Distribution | None, Tensor]]:
    """The outcome's law under some rows at a time, batch shape [rows, n, …], and the module's outputs."""
    group = target.rows_at_once(max(1, len(tree_leaves(x)[0])))
    with progress.bar(range(0, len(rows), group), desc="predicting") as begins:
        for begin in begins:
            some = rows[begin : begin + group]
            output = target.outputs(some, x)
            if isinstance(target.likelihood, Given):
                yield None, output
                continue
            trailing = output.dim() - 1 - (output.dim() > 2 and output.shape[-1] == 1)
            if output.dim() == 2:  # one number each: not to be taken for the only outcome of one example
                output = output.unsqueeze(-1)
            latents = {name: value.view(-1, *(1,) * trailing) for name, value in target.latents_of(some).items()}
            yield target.likelihood.distribution(output, latents), output


def chunks(x: Any) -> Iterator[Any]:
    """Inputs, some at a time; refuses what is not finite."""
    x = tree_map(as_tensor, x)
    leaves = tree_leaves(x)
    if not leaves or not all(len(leaf) == len(leaves[0]) for leaf in leaves) or not len(leaves[0]):
        raise BadInput("x must be tensors or arrays of one length, with at least one row")
    for leaf in leaves:
        check_finite("x", leaf)
    for begin in range(0, len(leaves[0]), EXAMPLES_AT_ONCE):
        yield tree_map(lambda leaf, b=begin: leaf[b : b + EXAMPLES_AT_ONCE], x)


def probabilities_of(law: Distribution) -> Tensor:
    """Of each class, along the last dimension."""
    probabilities: Tensor = law.probs  # pyright: ignore[reportAttributeAccessIssue]
    return torch.stack([1 - probabilities, probabilities], -1) if isinstance(law, Bernoulli) else probabilities


def watched(target: Posterior, rows: Tensor, x: Any) -> Tensor:
    """What the predictions are in each row, as numbers whose mixing can be watched: [rows, features]."""
    found: list[Tensor] = []
    for law, output in laws(target, rows, x):
        if law is not None:
            output = probabilities_of(law) if target.likelihood.classifies else law.mean
        found.append(output.flatten(1))
    return torch.cat(found)


class _Sums:
    """Running sums over draws, in float64."""

    def __init__(self, classifies: bool):
        self._classifies = classifies
        self._number = 0
        self._sums: list[Tensor] = []
        self._outcomes: list[Tensor] = []

    def add(self, law: Distribution | None, output: Tensor) -> None:
        self._number += len(output)
        if law is None:
            new = [output, output.double() ** 2, torch.zeros_like(output)]
        elif self._classifies:
            probabilities = probabilities_of(law).double()
            new = [probabilities, torch.special.entr(probabilities).sum(-1)]
        else:
            new = [law.mean, law.mean.double() ** 2, law.variance]
            self._outcomes.append(law.sample())
        summed = [one.sum(0, dtype=torch.float64) for one in new]
        self._sums = [a + b for a, b in zip(self._sums, summed, strict=True)] if self._sums else summed

    def prediction(self) -> Prediction:
        means = [(total / self._number).cpu().numpy() for total in self._sums]
        if self._classifies:
            mean, aleatoric = means
            total = -(mean * np.log(np.maximum(mean, np.finfo(float).tiny))).sum(-1)
            return Prediction(mean, total, aleatoric, np.maximum(total - aleatoric, 0.0), probabilities=mean)
        mean, square, aleatoric = means
        epistemic = np.maximum(square - mean**2, 0.0)
        outcomes = torch.cat(self._outcomes).cpu().numpy() if self._outcomes else None
        return Prediction(mean, aleatoric + epistemic, aleatoric, epistemic, outcomes=outcomes)
