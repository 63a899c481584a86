"""Predictions to score."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of 500 examples and four classes, and labels drawn from flatter ones."""
    random = np.random.default_rng(0)
    logits = 2 * random.standard_normal((500, 4))
    flat = scipy.special.softmax(logits / 2, -1)
    labels = (flat.cumsum(-1) < random.uniform(size=(500, 1))).sum(-1)
    return scipy.special.softmax(logits, -1), labels
