"""Logistic regression as a target with data: weights ~ N(0, 1), logits = X·weights, outcomes ±1."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import ggmc
from benchmarks.posteriors import DATA


def logistic_regression(X: Any, outcomes: Any, dtype: torch.dtype = torch.float64) -> ggmc.DataDensity:
    """The posterior of the weights."""

    def log_likelihood(weights: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        rows, signs = batch
        return torch.nn.functional.logsigmoid(signs * (rows @ weights))

    features, signs = (torch.as_tensor(np.asarray(x), dtype=dtype) for x in (X, outcomes))
    start = torch.zeros(features.shape[1], dtype=dtype)
    return ggmc.DataDensity(lambda weights: -(weights**2).sum() / 2, log_likelihood, (features, signs), start)


def simulated(num_data: int = 200_000, parameters: int = 50, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal features and outcomes of a known model: X and ±1."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(num_data, parameters))
    weights = 0.3 * draw.normal(size=parameters)
    return X, np.where(draw.uniform(size=num_data) < 1 / (1 + np.exp(-X @ weights)), 1.0, -1.0)


def a9a() -> tuple[np.ndarray, np.ndarray]:
    """Adult income: 32,561 people, 123 binary features and a constant."""
    data = np.load(DATA / "logreg" / "a9a.npz")
    X = np.asarray(data["x_train"], dtype=float)
    return np.column_stack([X, np.ones(len(X))]), np.where(data["y_train"] > 0, 1.0, -1.0)


def german() -> tuple[np.ndarray, np.ndarray]:
    """German credit, as in the reference: 24 standardised features and a constant."""
    table = np.loadtxt(DATA / "german_credit" / "german.data-numeric.txt")
    X = (table[:, :-1] - table[:, :-1].mean(0)) / table[:, :-1].std(0)
    return np.column_stack([X, np.ones(len(X))]), np.where(table[:, -1] == 2, 1.0, -1.0)
