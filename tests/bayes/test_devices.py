"""Posteriors, their starts and their predictions make nothing on torch's default device.

Within `with torch.device("meta")` a tensor made without a device has no values, so that any use of it fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import HalfNormal

import ggmc
from ggmc.bayes import initial_points, likelihoods, nets, priors
from tests.support.posteriors import LABELS, NORMAL, dropping, inputs, line, normalising, outcomes

F64 = torch.float64
CPU = torch.device("cpu")
X, Y = inputs(), outcomes()
LINE, NETWORK, SEVERAL = line(), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double(), line(2)
IMAGES, CLASSIFIER = torch.rand(12, 1, 8, 8), nets.CNN(classes=2, widths=(4,))
NOISE = HalfNormal(1.0)
HIERARCHICAL = {"*.bias": priors.Horseshoe(0.5), "*": priors.Hierarchical()}
DROPPING, NORMALISING = dropping(), normalising()


@pytest.fixture(autouse=True)
def _elsewhere() -> Iterator[None]:
    with torch.device("meta"):
        yield


def generator() -> torch.Generator:
    return torch.Generator("cpu").manual_seed(0)


CASES: dict[str, Any] = {
    "regression": (NETWORK, "gaussian", NORMAL, X, Y),
    "arrays": (NETWORK, "gaussian", NORMAL, X.numpy(), Y.numpy()),
    "unknown scales": (NETWORK, likelihoods.Gaussian(NOISE), HIERARCHICAL, X, Y),
    "student-t": (LINE, likelihoods.StudentT(NOISE), priors.StudentT(4.0), X, Y),
    "heteroscedastic": (SEVERAL, "heteroscedastic", priors.Laplace(1.0), X, Y),
    "classes": (SEVERAL, "categorical", NORMAL, X, LABELS),
    "yes or no": (LINE, "bernoulli", NORMAL, X, LABELS),
    "counts": (LINE, "poisson", NORMAL, X, LABELS),
    "a function": (LINE, lambda output, y: -((output[:, 0] - y) ** 2), NORMAL, X, Y),
    "images": (CLASSIFIER, "categorical", NORMAL, IMAGES, LABELS),
    "dropout": (DROPPING, "gaussian", NORMAL, X, Y),
    "batch normalisation": (NORMALISING, "gaussian", NORMAL, X, Y),
}


@pytest.mark.parametrize("case", CASES)
def test_a_posterior_and_its_predictions(case: str) -> None:
    target = ggmc.Posterior(*CASES[case])
    x, y = CASES[case][3:]
    assert target.device == CPU
    rows = target.starts(3, generator())
    potential, gradient = target.potential_and_gradient(rows)
    assert target.advice.mass is not None
    mass = target.advice.mass()
    assert mass is not None
    for found in (
        rows,
        potential,
        gradient,
        mass,
        target.potential(rows, potential - 1),
        target.unconstrain(target.constrain(rows)),
        target.log_likelihoods(rows),
        target.log_likelihoods(rows, (x, y)),
        target.prediction_features(rows),
        target.prediction_features(rows, x),
        target.outputs(rows, torch.as_tensor(x, device="cpu")),
    ):
        assert found.device == CPU
        assert found.isfinite().all()
    for prediction in (target.predict(rows, x), target.prior_predictive(x, draws=3)):
        assert np.isfinite(prediction.mean).all()
        assert np.isfinite(prediction.total).all()
    assert all(math.isfinite(value) for value in target.score(rows, x, y).values())


@pytest.mark.parametrize("start", initial_points.NAMES)
@pytest.mark.parametrize("prior", [NORMAL, HIERARCHICAL], ids=["plain", "hierarchical"])
def test_starts_of_every_kind(start: str, prior: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_points, "STEPS", 5)
    target = ggmc.Posterior(NETWORK, "gaussian", prior, X, Y, start=start)
    rows = target.starts(3, generator())
    assert rows.device == CPU
    assert target.potential(rows).isfinite().all()


def test_noise_that_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_points, "STEPS", 5)
    target = ggmc.Posterior(NETWORK, likelihoods.Gaussian("learnt"), NORMAL, X, Y)
    assert "noise" not in target.layout.shapes


@pytest.mark.parametrize("views", [nets.FrozenViews(2, pad=1), nets.FreeViews(pad=1)], ids=lambda v: type(v).__name__)
def test_views_of_images(views: Any) -> None:
    target = ggmc.Posterior(CLASSIFIER, "categorical", NORMAL, IMAGES, LABELS, views=views)
    assert target.potential(target.start[None]).isfinite().all()
