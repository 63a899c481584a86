"""Predictions, by value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.distributions import HalfNormal

import ggmc
from ggmc.bayes import likelihoods, metrics, predict, priors, score
from ggmc.errors import BadInput
from ggmc.targets import potential
from tests.support.posteriors import (
    NORMAL,
    QUICK,
    X,
    Y,
    inputs,
    labels,
    line,
    line_trace,
    outcomes,
    posterior,
    regression,
    rows_of,
)

F64 = torch.float64


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("family", [likelihoods.Gaussian, likelihoods.StudentT])
def test_each_draw_predicts_with_its_own_noise(family: Any, shape: tuple[int, ...]) -> None:
    class Shaped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = line(math.prod(shape))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x).view(len(x), *shape)

    y = outcomes(12 * math.prod(shape)).view(12, *shape)
    target = ggmc.Posterior(Shaped(), family(HalfNormal(1.0)), NORMAL, inputs(), y)
    rows = rows_of(target, 5)
    noise = target.constrain(rows)["noise"]
    found = predict.predict(target, rows, inputs(4))
    outside = (4, 3) if shape == (3,) else (4,)
    variance = noise**2 if family is likelihoods.Gaussian else 2 * noise**2  # 4 degrees of freedom
    assert found.mean.shape == outside
    assert found.outcomes is not None
    assert found.outcomes.shape == (5, *outside)
    assert np.allclose(found.aleatoric, variance.mean().item())
    assert np.allclose(found.mean, target.outputs(rows, inputs(4)).mean(0).reshape(outside))


def test_predictions_do_not_depend_on_how_they_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    for likelihood, outputs, y in (("gaussian", 1, outcomes()), ("categorical", 3, labels(classes=3))):
        target = ggmc.Posterior(line(outputs), likelihood, NORMAL, inputs(), y)
        rows, x = rows_of(target, 7), inputs(11)
        whole, terms = predict.predict(target, rows, x), target.log_likelihoods(rows)
        lppd = metrics.lppd(terms)
        with monkeypatch.context() as patch:
            patch.setattr(predict, "EXAMPLES_AT_ONCE", 4)
            patch.setattr(score, "EXAMPLES_AT_ONCE", 5)
            patch.setattr(potential, "CHUNK_MEMORY", 10 * target.data_sum.example_bytes)
            assert target.rows_at_once(4) == 2
            parts = predict.predict(target, rows, x)
            assert torch.allclose(target.log_likelihoods(rows), terms)
            assert torch.allclose(target.log_likelihoods(rows, (inputs(), y)), terms)
            assert math.isclose(score.score(target, rows, inputs(), y)["lppd"], lppd)
        for name in ("mean", "total", "aleatoric", "epistemic"):
            assert np.allclose(getattr(parts, name), getattr(whole, name)), name
        if whole.outcomes is not None:
            assert parts.outcomes is not None
            assert parts.outcomes.shape == whole.outcomes.shape == (7, 11)
            # Drawn, so not the same; but each about the output of its own draw and input.
            away = parts.outcomes - target.outputs(rows, x)[..., 0].numpy()
            assert np.abs(away).max() < 6


def test_small_differences_of_large_float32_predictions_count() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    rows = torch.zeros(4, 3)
    rows[:, 2] = 10_000 + torch.tensor([0.25, -0.25, 0.25, -0.25])  # the bias
    found = target.predict(rows, X)
    assert np.allclose(found.mean, 10_000)
    assert np.allclose(found.epistemic, 0.0625, rtol=1e-4)


def test_inputs_to_predict_for_are_checked() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    bad = inputs()
    bad[3, 1] = math.nan
    with pytest.raises(BadInput, match="x has nan in row 3"):
        predict.predict(target, rows_of(target), bad)
    with pytest.raises(BadInput, match="at least one row"):
        predict.predict(target, rows_of(target), inputs()[:0])


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[:, 0]


class Asking(Flat):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (2 if x.shape[0] < 0 or super().forward(x).sum().item() > 1e9 else 1)


def test_a_module_that_cannot_be_vectorised_predicts() -> None:
    trace = ggmc.sample(ggmc.Posterior(Asking(), "gaussian", NORMAL, X, Y), **QUICK)
    assert not any("could not be diagnosed" in w for w in trace.warnings)
    trace.predict(X)


@pytest.mark.parametrize("likelihood", ["gaussian", likelihoods.Gaussian(HalfNormal(1.0)), "poisson"])
@pytest.mark.parametrize("number", [1, 1001])
def test_one_input_at_a_time(likelihood: Any, number: int) -> None:
    y = Y.abs().round() if likelihood == "poisson" else Y
    target = ggmc.Posterior(Flat(), likelihood, NORMAL, X, y)
    found = target.prior_predictive(torch.randn(number, 2), draws=7)
    assert found.mean.shape == (number,)
    assert found.outcomes is not None
    assert found.outcomes.shape == (7, number)


def test_the_prior_predictive_does_not_look_at_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    monkeypatch.setattr(target, "potential_and_gradient", None)
    assert target.prior_predictive(X, draws=5).mean.shape == (12,)


@pytest.fixture
def trace() -> ggmc.Trace:
    return line_trace()


def bayesian_line() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of slope and intercept in closed form, and the design matrix."""
    x, y = (part.numpy() for part in regression())
    design = np.hstack([x, np.ones_like(x)])
    covariance = np.linalg.inv(design.T @ design / 0.04 + np.eye(2))
    return covariance @ design.T @ y[:, 0] / 0.04, covariance, design


def test_predictions_agree_with_the_closed_form(trace: ggmc.Trace) -> None:
    mean, covariance, design = bayesian_line()
    prediction = trace.predict(regression()[0])
    variance = np.einsum("ni,ij,nj->n", design, covariance, design)
    error = np.sqrt(variance / 300)
    assert (np.abs(prediction.mean - design @ mean) < 6 * error).all()
    assert np.allclose(prediction.aleatoric, 0.04)
    assert np.allclose(prediction.epistemic, variance, rtol=0.5)
    assert np.allclose(prediction.total, prediction.aleatoric + prediction.epistemic)
    lower, upper = prediction.interval(0.9)
    half = 1.645 * np.sqrt(variance + 0.04)
    assert np.allclose((upper - lower) / 2, half, rtol=0.2)
    with pytest.raises(BadInput, match="numbers, not classes"):
        _ = prediction.label


def test_class_predictions() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=generator)
    y = (x[:, 0] > 0).long()
    trace = ggmc.sample(
        ggmc.Posterior(nn.Linear(2, 2), "categorical", NORMAL, x, y), draws=100, warmup=200, chains=2, progress=False
    )
    prediction = trace.predict(x)
    assert prediction.probabilities is not None
    assert isinstance(trace.target, ggmc.Posterior)
    outputs = trace.target.outputs(trace.rows().flatten(0, 1), x).double().softmax(-1).numpy()
    assert np.allclose(prediction.probabilities, outputs.mean(0), atol=1e-6)
    entropy = -(outputs * np.log(outputs)).sum(-1).mean(0)
    total = -(prediction.probabilities * np.log(prediction.probabilities)).sum(-1)
    assert np.allclose(prediction.aleatoric, entropy, atol=1e-5)
    assert np.allclose(prediction.total, total, atol=1e-5)
    assert np.allclose(prediction.epistemic, total - entropy, atol=1e-5)
    assert trace.score(x, y)["accuracy"] > 0.9
    with pytest.raises(BadInput, match="classes have no intervals"):
        prediction.interval()
    with pytest.raises(BadInput, match="got 5 in row 0"):
        trace.score(x, y + 5)
    bernoulli = ggmc.Posterior(nn.Linear(2, 1), "bernoulli", NORMAL, x, y)
    shown = bernoulli.prior_predictive(x, draws=7)
    assert shown.probabilities is not None
    assert shown.probabilities.shape == (200, 2)
    assert np.allclose(shown.probabilities.sum(1), 1)


def test_permuted_hidden_units_do_not_alarm() -> None:
    target = posterior()
    rows = target.start.expand(2, 200, -1) + 0.1 * torch.randn(2, 200, target.layout.size, dtype=F64)
    values = {name: value.clone() for name, value in target.constrain(rows).items()}
    order = [4, 3, 2, 1, 0]
    for name, axis in (("layers.0.weight", 1), ("layers.0.bias", 1), ("layers.1.weight", 2)):
        values[name][1] = values[name][1].index_select(axis, torch.tensor(order))
    seen = target.prediction_features(target.unconstrain(values).flatten(0, 1)).unflatten(0, (2, 200))
    gap = (seen[0].mean(0) - seen[1].mean(0)).abs() / seen.std((0, 1))
    assert gap.max() < 1


def test_seeds_are_those_of_the_drawn_outcomes() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    rows = rows_of(target, 20)
    drawn = [target.predict(rows, inputs(), seed).outcomes for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1])  # pyright: ignore[reportArgumentType]
    assert not np.array_equal(drawn[0], drawn[2])  # pyright: ignore[reportArgumentType]
    assert np.allclose(target.predict(rows, inputs()).mean, target.outputs(rows, inputs())[..., 0].mean(0))


# By value


def test_bernoulli_probabilities_are_those_of_no_and_yes_in_this_order() -> None:
    target = ggmc.Posterior(line(), "bernoulli", NORMAL, inputs(), labels())
    rows = rows_of(target, 4)
    prediction = target.predict(rows, inputs())
    yes = target.outputs(rows, inputs())[..., 0].sigmoid()
    assert prediction.probabilities is not None
    assert np.allclose(prediction.probabilities[:, 1], yes.mean(0))
    assert np.allclose(prediction.probabilities[:, 0], 1 - yes.mean(0))
    assert np.array_equal(prediction.label, (yes.mean(0) > 0.5).long())
    entropy = -(yes * yes.log() + (1 - yes) * (1 - yes).log()).mean(0)
    assert np.allclose(prediction.aleatoric, entropy)
    assert np.allclose(target.prediction_features(rows, inputs()).view(4, 12, 2)[..., 1], yes)


def test_intervals_are_central_quantiles_of_the_outcomes() -> None:
    draws = np.arange(101.0)[:, None] + np.array([0.0, 1000.0])
    nothing = np.zeros(2)
    prediction = ggmc.Prediction(nothing, nothing, nothing, nothing, outcomes=draws)
    lower, upper = prediction.interval(0.9)
    assert np.allclose(lower, [5.0, 1005.0])
    assert np.allclose(upper, [95.0, 1095.0])
    for level in (0.0, 1.0, -1.0):
        with pytest.raises(BadInput, match="level must lie between 0 and 1"):
            prediction.interval(level)
    with pytest.raises(BadInput, match="cannot be drawn from a likelihood given as a function"):
        ggmc.Prediction(nothing, nothing, nothing, nothing).interval()


def test_intervals_hold_their_share_of_a_known_outcome() -> None:
    """With the weights known, the outcome is normal about the output."""
    target = ggmc.Posterior(line(), likelihoods.Gaussian(0.5), NORMAL, inputs(), outcomes())
    rows = target.start.expand(20_000, -1)
    lower, upper = target.predict(rows, inputs()).interval(0.8)
    centre, half = target.outputs(rows[:1], inputs())[0, :, 0].numpy(), 0.5 * stats.norm.ppf(0.9)
    error = 6 * 0.5 * np.sqrt(0.1 * 0.9 / 20_000) / stats.norm.pdf(stats.norm.ppf(0.9))  # of a sample quantile
    assert np.allclose(lower, centre - half, atol=error)
    assert np.allclose(upper, centre + half, atol=error)


def test_draws_and_inputs_are_not_mixed_up() -> None:
    """Several outcomes of each example, with their own means and variances."""
    target = ggmc.Posterior(line(3), likelihoods.Gaussian(HalfNormal(1.0)), NORMAL, inputs(), inputs(12, 3))
    rows = rows_of(target, 5)
    prediction = target.predict(rows, inputs(4))
    outputs = target.outputs(rows, inputs(4)).numpy()
    assert np.allclose(prediction.mean, outputs.mean(0))
    assert np.allclose(prediction.epistemic, outputs.var(0))
    assert np.allclose(prediction.aleatoric, (target.constrain(rows)["noise"] ** 2).mean().item())
    assert np.allclose(prediction.total, prediction.aleatoric + prediction.epistemic)
    features = target.prediction_features(rows, inputs(4))
    assert np.allclose(features.view(5, 4, 3), outputs)


def test_features_are_those_of_training_inputs_by_default() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(100), outcomes(100))
    rows = rows_of(target)
    some = torch.arange(32) * 100 // 32
    assert torch.allclose(target.prediction_features(rows), target.outputs(rows, inputs(100)[some])[..., 0])
    assert target.watched_latents() == []
    noisy = ggmc.Posterior(line(), likelihoods.Gaussian(HalfNormal(1.0)), NORMAL, inputs(), outcomes())
    assert noisy.watched_latents() == ["noise"]


# The prior predictive: a line through the origin, y = w·x + noise, has moments that can be written down

ONE = torch.ones(3, 1, dtype=F64)
PRIOR_DRAWS = 4000


def prior_outcomes(prior: Any, likelihood: Any) -> tuple[ggmc.Prediction, np.ndarray]:
    """Predictions at x = 1, and one outcome of each draw."""
    module = nn.Linear(1, 1, bias=False).double()
    target = ggmc.Posterior(module, likelihood, prior, ONE, torch.zeros(3, dtype=F64))
    found = target.prior_predictive(ONE, draws=PRIOR_DRAWS, seed=3)
    assert found.outcomes is not None
    return found, found.outcomes[:, 0]


def agrees(found: float, expected: float, deviation: float) -> bool:
    """Within six standard errors of a mean of the draws, each with this standard deviation."""
    return abs(found - expected) < 6 * deviation / math.sqrt(PRIOR_DRAWS)


def test_prior_predictive_draws_have_the_priors_scale() -> None:
    found, drawn = prior_outcomes(priors.Gaussian(2.0, loc=1.0), likelihoods.Gaussian(0.5))
    assert agrees(found.mean[0], 1.0, 2.0)
    assert agrees(found.epistemic[0], 4.0, 4 * math.sqrt(2))
    assert np.allclose(found.aleatoric, 0.25)
    assert agrees(drawn.mean(), 1.0, math.sqrt(4.25))
    assert agrees(((drawn - 1) ** 2).mean(), 4.25, 4.25 * math.sqrt(2))


def test_prior_predictive_draws_have_unknown_scales_of_their_own() -> None:
    """scale · z with a half-normal scale: variance E[scale²] = 1 and fourth moment 3 · 3, not that of one scale, 3."""
    found, drawn = prior_outcomes(priors.Hierarchical(scale=HalfNormal(1.0)), likelihoods.Gaussian(0.1))
    assert agrees(found.epistemic[0], 1.0, math.sqrt(9 - 1))
    # Half of the draws lie closer to zero than the median of |scale · z|, which is 0.3362 (a product of two normals).
    near = math.sqrt(0.25)
    assert agrees((np.abs(drawn) < product_median(0.1)).mean(), 0.5, near)


def product_median(noise: float) -> float:
    """The median of |scale · z + noise|, by integration over the scale."""
    scales, weights = np.polynomial.legendre.leggauss(400)
    scales, weights = 4 * (scales + 1), 4 * weights * 2 * stats.norm.pdf(4 * (scales + 1))

    def probability(size: float) -> float:
        return float((weights * (2 * stats.norm.cdf(size / np.hypot(scales, noise)) - 1)).sum())

    low, high = 0.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < 0.5 else (low, middle)
    return low


def test_prior_predictive_draws_have_unknown_noise_of_their_own() -> None:
    found, drawn = prior_outcomes(priors.Gaussian(0.01), likelihoods.Gaussian(HalfNormal(2.0)))
    assert agrees(found.aleatoric[0], 4.0, 4 * math.sqrt(2))  # E[noise²] = 2²
    assert agrees((np.abs(drawn) < 2 * product_median(0.005)).mean(), 0.5, math.sqrt(0.25))


@pytest.mark.parametrize("vectorise", [True, False])
def test_weights_with_unknown_scales_predict_as_the_module_sees_them(vectorise: bool) -> None:
    target = ggmc.Posterior(line(), "gaussian", priors.Horseshoe(0.5), inputs(), outcomes(), vectorise=vectorise)
    rows = rows_of(target, 4)
    seen = target.constrain(rows)
    expected = torch.einsum("ni,roi->rno", inputs(5), seen["weight"]) + seen["bias"][:, None]
    assert torch.allclose(target.outputs(rows, inputs(5)), expected)
    assert torch.allclose(target.prediction_features(rows, inputs(5)), expected[..., 0])
    assert np.allclose(target.predict(rows, inputs(5)).mean, expected[..., 0].mean(0))
    assert not torch.allclose(target.layout.views(rows)["weight"], seen["weight"])


def test_the_prior_predictive_has_its_own_seed() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    first, same, other = (target.prior_predictive(inputs(), 20, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.mean, same.mean)
    assert not np.allclose(first.mean, other.mean)
    assert first.outcomes is not None
    assert first.outcomes.shape == (20, 12)
