"""Predictions: the mixture, over posterior draws, of the outcomes that module and likelihood predict for new inputs.

Draws and inputs are streamed: of each draw only sums are kept, and, for outcomes that are numbers, one draw of each
outcome, from which intervals come.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ggmc import progress
from ggmc.bayes.data_checks import as_tensor, check_finite, check_form
from ggmc.bayes.likelihoods import Likelihood
from ggmc.bayes.module_checks import first_output
from ggmc.bayes.private_random import seeded
from ggmc.errors import BadInput, require_between
from ggmc.plain import Tree

if TYPE_CHECKING:
    from ggmc.bayes.posterior import Posterior

EXAMPLES_AT_ONCE = 1000


@dataclass(frozen=True)
class Prediction:
    """What is predicted for each of n inputs, as arrays.

    Args:
        mean: The mean outcome, [n] or [n, outcomes]; for classes, the probabilities.
        total: The uncertainty of the outcome, `aleatoric` + `epistemic`. For numbers, variances of the shape of `mean`;
            for classes, entropies in nats, [n].
        aleatoric: The part that stays when the weights are known: the mean variance of the noise, or the mean entropy.
        epistemic: The part due to the weights: the variance of the mean between draws, or the mutual information of
            class and weights.
        probabilities: Of each class, [n, classes]; None for numbers.
        outcomes: One drawn outcome for each draw of the weights, [draws, n, ...]; None for classes, and where the
            likelihood is a function of the user's own.

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

    @property
    def label(self) -> np.ndarray:
        """The most probable class of each input."""
        if self.probabilities is None:
            raise BadInput("these predictions are numbers, not classes: use `mean`")
        return self.probabilities.argmax(-1)

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval that holds the outcome with this probability.

        Args:
            level: The probability, between 0 and 1.

        Returns:
            The lower and upper ends, each of the shape of `mean`.
        """
        require_between("level", level)
        if self.probabilities is not None:
            raise BadInput("classes have no intervals: use `probabilities`, or predictions of numbers")
        if self.outcomes is None:
            raise BadInput(
                "outcomes cannot be drawn from a likelihood given as a function: use one of ggmc.likelihoods"
            )
        lower, upper = np.quantile(self.outcomes, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper


def predict(target: Posterior, rows: Tensor, x: Tree, seed: int = 0) -> Prediction:
    """The mixture over rows of what is predicted for x.

    Args:
        target: The posterior.
        rows: Draws [draws, d].
        x: New inputs in the form of the training inputs.
        seed: The seed of the drawn outcomes.
    """
    parts: list[Prediction] = []
    with seeded(seed, target.device):
        for chunk in chunks(new_inputs(target, x)):
            total = _Sums(target.likelihood)
            for output, latents in outputs(target, rows, chunk):
                total.add(output, latents)
            parts.append(total.prediction())
    return Prediction(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.total for part in parts]),
        np.concatenate([part.aleatoric for part in parts]),
        np.concatenate([part.epistemic for part in parts]),
        _joined([part.probabilities for part in parts], axis=0),
        _joined([part.outcomes for part in parts], axis=1),
    )


def features(target: Posterior, rows: Tensor, x: Tree) -> Tensor:
    """Predictions in each row as numbers: probabilities, means, or outputs, [rows, features].

    Args:
        target: The posterior.
        rows: Draws [rows, d].
        x: New inputs in the form of the training inputs.
    """
    likelihood = target.likelihood
    found: list[Tensor] = []
    for output, latents in outputs(target, rows, new_inputs(target, x)):
        if likelihood.classifies:
            output = likelihood.class_probabilities(output, latents)
        elif likelihood.predicts:
            output = likelihood.distribution(output, latents).mean
        found.append(output.flatten(1))
    return torch.cat(found)


def outputs(target: Posterior, rows: Tensor, x: Tree) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
    """The module's outputs under some rows at a time, [rows, n, …], and the likelihood's unknowns, [rows, 1, …]."""
    group = target.rows_at_once(len(tree_leaves(x)[0]))
    with progress.bar(range(0, len(rows), group), desc="predicting") as begins:
        for begin in begins:
            some = rows[begin : begin + group]
            output = target.outputs(some, x)
            trailing = output.dim() - 1 - (output.dim() > 2 and output.shape[-1] == 1)
            if output.dim() == 2 and target.likelihood.predicts:
                output = output.unsqueeze(-1)  # one number each: not to be taken for the outputs of one example
            yield output, {name: value.view(-1, *(1,) * trailing) for name, value in target.latents_of(some).items()}


def new_inputs(target: Posterior, x: Tree) -> Tree:
    """New inputs as tensors; refuses what is not finite, or not in the form of the training inputs."""
    x = tree_map(as_tensor, x)
    leaves = tree_leaves(x)
    if not leaves or not all(len(leaf) == len(leaves[0]) for leaf in leaves) or not len(leaves[0]):
        raise BadInput("x must be tensors or arrays of one length, with at least one row")
    check_form(x, target.input_shapes)
    for leaf in leaves:
        check_finite("x", leaf)
    first_output(target.module, tree_map(lambda leaf: leaf[:4], x), target.start)
    return x


def chunks(x: Tree) -> Iterator[Tree]:
    """Inputs, some at a time."""
    for begin in range(0, len(tree_leaves(x)[0]), EXAMPLES_AT_ONCE):
        yield tree_map(lambda leaf, b=begin: leaf[b : b + EXAMPLES_AT_ONCE], x)


def _joined(pieces: list[np.ndarray | None], axis: int) -> np.ndarray | None:
    arrays = [piece for piece in pieces if piece is not None]
    return np.concatenate(arrays, axis) if arrays else None


class _Sums:
    """Running sums over draws, in float64."""

    def __init__(self, likelihood: Likelihood):
        self._likelihood = likelihood
        self._number = 0
        self._sums: list[Tensor] = []
        self._outcomes: list[Tensor] = []

    def add(self, output: Tensor, latents: dict[str, Tensor]) -> None:
        self._number += len(output)
        if self._likelihood.classifies:
            probabilities = self._likelihood.class_probabilities(output, latents).double()
            new = [probabilities, torch.special.entr(probabilities).sum(-1)]
        elif not self._likelihood.predicts:
            new = [output, output.double() ** 2, torch.zeros_like(output)]
        else:
            distribution = self._likelihood.distribution(output, latents)
            new = [distribution.mean, distribution.mean.double() ** 2, distribution.variance]
            self._outcomes.append(distribution.sample())
        summed = [one.sum(0, dtype=torch.float64) for one in new]
        self._sums = [a + b for a, b in zip(self._sums, summed, strict=True)] if self._sums else summed

    def prediction(self) -> Prediction:
        means = [(total / self._number).cpu().numpy() for total in self._sums]
        if self._likelihood.classifies:
            mean, aleatoric = means
            total = -(mean * np.log(np.maximum(mean, np.finfo(float).tiny))).sum(-1)
            return Prediction(mean, total, aleatoric, np.maximum(total - aleatoric, 0.0), probabilities=mean)
        mean, square, aleatoric = means
        epistemic = np.maximum(square - mean**2, 0.0)
        outcomes = torch.cat(self._outcomes).cpu().numpy() if self._outcomes else None
        return Prediction(mean, aleatoric + epistemic, aleatoric, epistemic, outcomes=outcomes)
