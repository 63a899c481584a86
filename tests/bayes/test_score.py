"""Scores, by value."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.distributions import HalfNormal, Normal

import ggmc
from ggmc.bayes import likelihoods, nets, score
from tests.support.posteriors import (
    LABELS,
    NORMAL,
    X,
    inputs,
    labels,
    line,
    line_trace,
    outcomes,
    regression,
    rows_of,
)

F64 = torch.float64


@pytest.fixture
def trace() -> ggmc.Trace:
    return line_trace()


def test_scores_of_numbers() -> None:
    x, y = inputs(), outcomes()
    target = ggmc.Posterior(line(), likelihoods.Gaussian(0.5), NORMAL, x, y)
    rows = rows_of(target, 40)
    found = target.score(rows, x, y)
    assert set(found) == {"lppd", "rmse", "coverage"}
    outputs = target.outputs(rows, x)[..., 0].numpy()
    terms = stats.norm.logpdf(y.numpy(), outputs, 0.5)
    assert math.isclose(found["lppd"], np.log(np.exp(terms).mean(0)).mean())  # a mean over draws, then over examples
    assert math.isclose(found["rmse"], np.sqrt(((outputs.mean(0) - y.numpy()) ** 2).mean()))
    lower, upper = target.predict(rows, x).interval(0.9)
    inside = (lower <= y.numpy()) & (y.numpy() <= upper)
    assert 0 < inside.mean() < 1
    assert found["coverage"] == inside.mean()
    assert target.score(rows, x, y[:, None]) == found


@pytest.mark.parametrize("at_once", [1, 5, 11])  # of twelve examples
def test_all_examples_weigh_the_same_however_many_go_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = inputs(), outcomes()
    target = ggmc.Posterior(line(), likelihoods.Gaussian(0.5), NORMAL, x, y)
    rows = rows_of(target, 5)
    expected = target.score(rows, x, y)["lppd"]
    monkeypatch.setattr(score, "EXAMPLES_AT_ONCE", at_once)
    assert math.isclose(target.score(rows, x, y)["lppd"], expected)


def test_several_outcomes_of_one_example_are_added_up() -> None:
    x, y = inputs(), inputs(12, 3)
    target = ggmc.Posterior(line(3), likelihoods.Gaussian(0.5), NORMAL, x, y)
    rows = rows_of(target, 5)
    terms = stats.norm.logpdf(y.numpy(), target.outputs(rows, x).numpy(), 0.5).sum(-1)  # [rows, examples]
    assert np.allclose(target.log_likelihoods(rows), terms)
    assert np.allclose(target.log_likelihoods(rows, (x, y)), terms)
    assert math.isclose(target.score(rows, x, y)["lppd"], np.log(np.exp(terms).mean(0)).mean())
    yes = ggmc.Posterior(line(2), "bernoulli", NORMAL, x, inputs().gt(0).long())
    logits = yes.outputs(rows_of(yes, 5), x)
    own = -nn.functional.binary_cross_entropy_with_logits(
        logits, inputs().gt(0).double().expand(5, -1, -1), reduction="none"
    )
    lppd = own.sum(-1).exp().mean(0).log().mean().item()
    assert yes.score(rows_of(yes, 5), x, inputs().gt(0)) == {"lppd": pytest.approx(lppd)}


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli"])
def test_scores_of_classes(likelihood: str) -> None:
    x, y = inputs(40), labels(40)
    target = ggmc.Posterior(line(2 if likelihood == "categorical" else 1), likelihood, NORMAL, x, y)
    rows = rows_of(target, 7)
    outputs = target.outputs(rows, x)
    each = (
        outputs.softmax(-1)
        if likelihood == "categorical"
        else torch.cat([1 - outputs.sigmoid(), outputs.sigmoid()], -1)
    )
    probabilities = each.mean(0).numpy()
    of_labels = probabilities[np.arange(40), y.numpy()]
    found = target.score(rows, x, y)
    assert set(found) == {"lppd", "nll", "accuracy", "brier", "ece"}
    assert math.isclose(found["lppd"], np.log(of_labels).mean(), rel_tol=1e-6)
    assert math.isclose(found["nll"], -np.log(of_labels).mean(), rel_tol=1e-6)
    assert math.isclose(found["accuracy"], (probabilities.argmax(1) == y.numpy()).mean())
    truth = np.eye(2)[y.numpy()]
    assert math.isclose(found["brier"], ((probabilities - truth) ** 2).sum(1).mean(), rel_tol=1e-6)


def test_free_views_are_not_scored() -> None:
    generator = torch.Generator().manual_seed(0)
    images, y = torch.rand(6, 1, 8, 8, generator=generator), labels(6, 3)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    target = ggmc.Posterior(module, "categorical", NORMAL, images, y, views=nets.FreeViews(pad=2))
    found = target.log_likelihoods(target.start[None], (images, y))[0]
    assert torch.allclose(found.float(), -nn.functional.cross_entropy(module(images), y, reduction="none"))


def test_labels_in_a_column_are_scored() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "bernoulli", NORMAL, X, LABELS[:, None])
    found = target.score(torch.zeros(2, 3), X, LABELS[:, None])
    assert found == target.score(torch.zeros(2, 3), X, LABELS)
    assert found["accuracy"] == 0.5  # at weights of zero all are as likely


def test_likelihoods_and_scores(trace: ggmc.Trace) -> None:
    x, y = regression()
    terms = trace.log_likelihood()
    assert terms.shape == (4, 200, 30)
    slope, intercept = trace["weight"][1, 7, 0, 0], trace["bias"][1, 7, 0]
    expected = Normal(slope * x[:, 0] + intercept, 0.2).log_prob(y[:, 0]).numpy()
    assert np.allclose(terms[1, 7], expected)
    scores = trace.score(x, y)
    lppd = np.log(np.exp(terms).mean((0, 1))).mean()
    assert math.isclose(scores["lppd"], lppd, rel_tol=1e-6)
    assert math.isclose(scores["rmse"], float(np.sqrt(((trace.predict(x).mean - y[:, 0].numpy()) ** 2).mean())))
    assert set(scores) == {"lppd", "rmse", "coverage"}
    import arviz

    inference = trace.to_arviz(log_likelihood=True)
    assert inference.log_likelihood["y"].shape == (4, 200, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few draws leave some of the weights uncertain
        assert 0 < scores["lppd"] - arviz.loo(inference).elpd_loo / 30 < 0.5


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [
        ("gaussian", 1, torch.randn(20)),
        (likelihoods.Gaussian(HalfNormal(1.0)), 2, torch.randn(20, 2)),
        ("heteroscedastic", 2, torch.randn(20)),
        ("poisson", 1, torch.randint(4, (20,))),
        ("student-t", 1, torch.randn(20)),
        ("bernoulli", 1, torch.randint(2, (20,))),
        ("categorical", 3, torch.randint(3, (20,))),
        (lambda output, y: -((output[:, 0] - y) ** 2), 1, torch.randn(20)),
    ],
)
def test_every_likelihood_samples_and_predicts(likelihood: Any, outputs: int, y: Tensor) -> None:
    x = torch.randn(20, 3)
    target = ggmc.Posterior(nn.Linear(3, outputs), likelihood, NORMAL, x, y)
    trace = ggmc.sample(target, draws=10, warmup=20, chains=2, progress=False)
    prediction = trace.predict(x)
    assert len(prediction.mean) == 20
    assert np.isfinite(prediction.mean).all()
    assert np.isfinite(trace.score(x, y)["lppd"])
    if prediction.outcomes is not None:
        assert prediction.outcomes.shape[0] == 20
        assert np.isfinite(prediction.interval(0.8)).all()


@pytest.mark.parametrize("outcomes_each", [1, 3])
def test_each_draw_is_scored_with_its_own_noise(outcomes_each: int) -> None:
    x = inputs()
    y = outcomes() if outcomes_each == 1 else inputs(12, 3)
    target = ggmc.Posterior(line(outcomes_each), likelihoods.Gaussian(HalfNormal(1.0)), NORMAL, x, y)
    rows = rows_of(target, 40)
    noise = target.constrain(rows)["noise"].numpy()
    assert noise.std() > 0.1
    means = target.outputs(rows, x[:5]).numpy()
    each = stats.norm.logpdf(y[:5].view(5, -1).numpy(), means, noise[:, None, None]).sum(-1)
    assert np.allclose(target.log_likelihoods(rows, (x[:5], y[:5])), each)
    found = target.score(rows, x[:5], y[:5])
    assert math.isclose(found["lppd"], np.log(np.exp(each).mean(0)).mean())
    error = means.mean(0).squeeze(-1) - y[:5].numpy() if outcomes_each == 1 else means.mean(0) - y[:5].numpy()
    assert math.isclose(found["rmse"], np.sqrt((error**2).mean()))
    lower, upper = target.predict(rows, x[:5]).interval(0.9)
    assert found["coverage"] == ((lower <= y[:5].numpy()) & (y[:5].numpy() <= upper)).mean()
