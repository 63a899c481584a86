"""Numbers: every likelihood against SciPy and against densities written out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn import functional

from ggmc.bayes import likelihoods

F64 = torch.float64
REAL = torch.tensor([0.3, -1.2, 2.0], dtype=F64)
OUT = torch.tensor([[0.1], [-1.0], [1.0]], dtype=F64)


def normal(y: float, mean: float, scale: float) -> float:
    return -0.5 * ((y - mean) / scale) ** 2 - math.log(scale) - 0.5 * math.log(2 * math.pi)


def test_each_agrees_with_scipy() -> None:
    out, counts = OUT[:, 0].numpy(), torch.tensor([0, 2, 5])
    cases: list[tuple[likelihoods.Likelihood, Tensor, Tensor, Any]] = [
        (likelihoods.Gaussian(0.5), OUT, REAL, stats.norm.logpdf(REAL, out, 0.5)),
        (likelihoods.StudentT(0.5, df=3.0), OUT, REAL, stats.t.logpdf(REAL, 3, out, 0.5)),
        (likelihoods.Poisson(), OUT, counts, stats.poisson.logpmf(counts, OUT[:, 0].exp())),
    ]
    for likelihood, output, y, reference in cases:
        for given, seen in ((output, y), (output[:, 0], y), (output, y[:, None]), (output[:, 0], y[:, None])):
            found = likelihood.log_prob(given, seen, {})
            assert found.shape == (3,), likelihood  # [n] and [n, 1] are never broadcast to [n, n]
            assert torch.allclose(found, torch.as_tensor(reference)), likelihood


def test_a_heteroscedastic_scale_is_the_second_output() -> None:
    output = torch.tensor([[0.1, 0.5], [-1.0, -3.0]], dtype=F64)
    scale = functional.softplus(output[:, 1]) + likelihoods.LEAST_SCALE
    expected = stats.norm.logpdf(REAL[:2], output[:, 0], scale)
    assert torch.allclose(likelihoods.Heteroscedastic().log_prob(output, REAL[:2], {}), torch.as_tensor(expected))
    two = torch.randn(5, 4, dtype=F64)
    assert likelihoods.Heteroscedastic().log_prob(two, torch.randn(5, 2, dtype=F64), {}).shape == (5,)


def test_of_two_heteroscedastic_outcomes_the_means_come_first() -> None:
    scales = [0.5, 3.0]
    raw = [math.log(math.expm1(scale - likelihoods.LEAST_SCALE)) for scale in scales]  # the inverse of the softplus
    output = torch.tensor([[1.0, -4.0, *raw], [0.0, 2.0, raw[1], raw[0]]], dtype=F64)
    y = torch.tensor([[1.5, -1.0], [7.0, 2.5]], dtype=F64)
    expected = [normal(1.5, 1.0, 0.5) + normal(-1.0, -4.0, 3.0), normal(7.0, 0.0, 3.0) + normal(2.5, 2.0, 0.5)]
    likelihood = likelihoods.Heteroscedastic()
    torch.testing.assert_close(likelihood.log_prob(output, y, {}), torch.tensor(expected, dtype=F64))
    distribution = likelihood.distribution(output, {})
    torch.testing.assert_close(distribution.mean, torch.tensor([[1.0, -4.0], [0.0, 2.0]], dtype=F64))
    torch.testing.assert_close(distribution.stddev, torch.tensor([[0.5, 3.0], [3.0, 0.5]], dtype=F64))


def test_a_heteroscedastic_scale_stays_above_zero() -> None:
    distribution = likelihoods.Heteroscedastic().distribution(torch.tensor([[0.0, -1e4]]), {})
    assert distribution.stddev.item() == pytest.approx(1e-4)


def test_several_outcomes_of_one_example_add_up() -> None:
    output, y = torch.tensor([[1.0, -4.0], [0.0, 2.0]], dtype=F64), torch.tensor([[1.5, -1.0], [7.0, 2.5]], dtype=F64)
    distances = [[0.5, 3.0], [7.0, 0.5]]
    cauchy = [sum(-math.log(math.pi * 0.3 * (1 + (d / 0.3) ** 2)) for d in row) for row in distances]
    gaussian = [sum(normal(d, 0.0, 0.3) for d in row) for row in distances]
    for likelihood, expected in [
        (likelihoods.Gaussian(0.3), gaussian),
        (likelihoods.StudentT(0.3, df=1.0), cauchy),
    ]:
        torch.testing.assert_close(likelihood.log_prob(output, y, {}), torch.tensor(expected, dtype=F64))
        apart = sum(likelihood.log_prob(output[:, i], y[:, i], {}) for i in range(2))
        assert torch.allclose(likelihood.log_prob(output, y, {}), torch.as_tensor(apart))
    noise = {"noise": torch.tensor(0.3, dtype=F64)}
    unknown = likelihoods.Gaussian("learnt").log_prob(output, y, noise)
    torch.testing.assert_close(unknown, torch.tensor(gaussian, dtype=F64))


def test_several_counts_of_one_example_add_up() -> None:
    output = torch.tensor([[2.0, 3.0], [0.5, 1.0]], dtype=F64).log()
    y = torch.tensor([[1, 2], [0, 3]])
    # Of rate λ, k has the probability exp(−λ) λᵏ / k!
    expected = [math.log(2 * math.exp(-2) * 9 / 2 * math.exp(-3)), math.log(math.exp(-0.5) * math.exp(-1) / 6)]
    likelihood = likelihoods.Poisson()
    torch.testing.assert_close(likelihood.log_prob(output, y, {}), torch.tensor(expected, dtype=F64))
    distribution = likelihood.distribution(output, {})
    torch.testing.assert_close(distribution.mean, output.exp())
    torch.testing.assert_close(distribution.log_prob(y).sum(1), torch.tensor(expected, dtype=F64))


@pytest.mark.parametrize(
    "likelihood",
    [likelihoods.Gaussian(0.3), likelihoods.StudentT(0.3), likelihoods.Heteroscedastic(), likelihoods.Poisson()],
)
def test_terms_are_those_of_the_distribution(likelihood: likelihoods.Likelihood) -> None:
    outputs = 4 if isinstance(likelihood, likelihoods.Heteroscedastic) else 2
    output = torch.randn(5, outputs, dtype=F64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[0.0, 3.0], [2.0, 1.0], [1.0, 1.0], [4.0, 0.0], [0.0, 2.0]], dtype=F64)
    expected = likelihood.distribution(output, {}).log_prob(y).sum(1)
    torch.testing.assert_close(likelihood.log_prob(output, y, {}), expected)
