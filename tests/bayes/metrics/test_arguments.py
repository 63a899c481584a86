"""What metrics refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ggmc.bayes import metrics
from ggmc.errors import BadInput

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
