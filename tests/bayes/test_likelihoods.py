from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.distributions import HalfNormal

from ggmc.bayes import likelihoods
from ggmc.errors import BadInput

F64 = torch.float64
REAL = torch.tensor([0.3, -1.2, 2.0], dtype=F64)
OUT = torch.tensor([[0.1], [-1.0], [1.0]], dtype=F64)


def test_each_agrees_with_scipy() -> None:
    logits = torch.randn(3, 4, dtype=F64, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([3, 0, 1])
    expected = logits.log_softmax(1)[torch.arange(3), labels]
    assert torch.allclose(likelihoods.Categorical().log_prob(logits, labels, {}), expected)
    out, counts = OUT[:, 0].numpy(), torch.tensor([0, 2, 5])
    cases: list[tuple[likelihoods.Likelihood, Tensor, Tensor, Any]] = [
        (likelihoods.Gaussian(0.5), OUT, REAL, stats.norm.logpdf(REAL, out, 0.5)),
        (likelihoods.StudentT(0.5, df=3.0), OUT, REAL, stats.t.logpdf(REAL, 3, out, 0.5)),
        (likelihoods.Poisson(), OUT, counts, stats.poisson.logpmf(counts, OUT[:, 0].exp())),
        (likelihoods.Bernoulli(), OUT, counts.clamp_max(1), stats.bernoulli.logpmf([0, 1, 1], OUT[:, 0].sigmoid())),
    ]
    for likelihood, output, y, reference in cases:
        for given, seen in ((output, y), (output[:, 0], y), (output, y[:, None]), (output[:, 0], y[:, None])):
            found = likelihood.log_prob(given, seen, {})
            assert found.shape == (3,), likelihood  # [n] and [n, 1] are never broadcast to [n, n]
            assert torch.allclose(found, torch.as_tensor(reference)), likelihood


def test_a_heteroscedastic_scale_is_the_second_output() -> None:
    output = torch.tensor([[0.1, 0.5], [-1.0, -3.0]], dtype=F64)
    scale = torch.nn.functional.softplus(output[:, 1]) + likelihoods.LEAST_SCALE
    expected = stats.norm.logpdf(REAL[:2], output[:, 0], scale)
    assert torch.allclose(likelihoods.Heteroscedastic().log_prob(output, REAL[:2], {}), torch.as_tensor(expected))
    two = torch.randn(5, 4, dtype=F64)
    assert likelihoods.Heteroscedastic().log_prob(two, torch.randn(5, 2, dtype=F64), {}).shape == (5,)


def test_several_outcomes_of_one_example_add_up() -> None:
    output, y = torch.randn(5, 2, dtype=F64), torch.randn(5, 2, dtype=F64)
    for likelihood in (likelihoods.Gaussian(0.3), likelihoods.StudentT(0.3)):
        apart = sum(likelihood.log_prob(output[:, i], y[:, i], {}) for i in range(2))
        assert torch.allclose(likelihood.log_prob(output, y, {}), torch.as_tensor(apart))


@pytest.mark.parametrize(
    "likelihood", [likelihoods.Gaussian(0.3), likelihoods.StudentT(0.3), likelihoods.Gaussian(7.0)]
)
@pytest.mark.parametrize("outcomes", [1, 3])
def test_bounds_are_bounds_and_near(likelihood: Any, outcomes: int) -> None:
    y = torch.randn(4, outcomes)
    best = likelihood.log_prob(y, y, {}).max().item()
    assert best <= likelihood.bound(y) < best + 1e-3


def test_unknown_noise() -> None:
    sampled = likelihoods.Gaussian(HalfNormal(2.0))
    assert list(sampled.latents()) == ["noise"]
    assert sampled.bound(REAL) is None
    found = sampled.log_prob(OUT, REAL, {"noise": torch.tensor(0.5, dtype=F64)})
    assert torch.allclose(found, likelihoods.Gaussian(0.5).log_prob(OUT, REAL, {}))


@pytest.mark.parametrize(
    ("likelihood", "output", "y", "message"),
    [
        ("categorical", torch.zeros(4, 3), torch.tensor([0, 1, 3, 2]), "labels must be 0 … 2 .* got 3 in row 2"),
        ("categorical", torch.zeros(4, 3), torch.tensor([0, -1, 1, 2]), "got -1 in row 1"),
        ("categorical", torch.zeros(4, 3), torch.zeros(4), "integer dtype"),
        ("categorical", torch.zeros(4, 3), torch.zeros(4, 3, dtype=torch.long), "one-hot"),
        ("categorical", torch.zeros(4), torch.zeros(4, dtype=torch.long), r"\[n, classes\]"),
        ("bernoulli", torch.zeros(4), torch.tensor([0, 1, 2, 1]), "0 and 1, got 2 in row 2"),
        ("bernoulli", torch.zeros(4, 2), torch.zeros(4), "one output per outcome"),
        ("gaussian", torch.zeros(4, 2), torch.zeros(4), "one output per outcome"),
        ("poisson", torch.zeros(4), torch.tensor([0.0, 1.5, 2.0, 1.0]), "counts .* got 1.5 in row 1"),
        ("poisson", torch.zeros(4), torch.tensor([0, 1, -2, 1]), "got -2 in row 2"),
        ("heteroscedastic", torch.zeros(4, 3), torch.zeros(4), "a mean and a scale"),
        (lambda o, y: o.sum(), torch.zeros(4), torch.zeros(4), "one term per example"),
    ],
)
def test_refusals(likelihood: Any, output: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        likelihoods.as_likelihood(likelihood).check(output, y)


@pytest.mark.parametrize("given", ["gauss", 3, likelihoods.Gaussian])
def test_what_is_no_likelihood(given: Any) -> None:
    with pytest.raises(BadInput, match="likelihood must be one of categorical"):
        likelihoods.as_likelihood(given)


@pytest.mark.parametrize("noise", [0.0, -1.0, "sampled", HalfNormal(torch.ones(2))])
def test_noise_that_is_none(noise: Any) -> None:
    with pytest.raises(BadInput, match="noise"):
        likelihoods.Gaussian(noise)
