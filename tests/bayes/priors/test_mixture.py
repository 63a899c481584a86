"""Mixtures by value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch
from torch.distributions import Normal

from ggmc.bayes import priors
from tests.support.priors import MIXTURE, kernel


def test_mixture_is_the_weighted_sum() -> None:
    value = kernel(4, 5)
    parts = [0.3 * scipy.stats.norm.pdf(value, 0, 0.1), 0.7 * scipy.stats.laplace.pdf(value, 0, 2.0)]
    torch.testing.assert_close(MIXTURE.log_prob(value), torch.tensor(np.log(sum(parts)).sum()))
    far = torch.tensor([1e3], dtype=torch.float64)  # where the spike's density is zero in floating point
    expected = math.log(0.7) + scipy.stats.laplace.logpdf(1e3, 0, 2.0)
    assert MIXTURE.log_prob(far).item() == pytest.approx(expected)
    of_distributions = priors.Mixture([0.3, 0.7], [Normal(0.0, 0.5), MIXTURE])
    both = torch.stack([Normal(0.0, 0.5).log_prob(value).exp(), MIXTURE.log_densities(value).exp()])
    torch.testing.assert_close(of_distributions.log_densities(value), (0.3 * both[0] + 0.7 * both[1]).log())


def test_mixture_by_hand() -> None:
    prior = priors.Mixture([0.2, 0.5, 0.3], [priors.Laplace(1.0), priors.Cauchy(2.0), priors.Laplace(4.0)])
    found = prior.log_densities(torch.tensor([0.0, 2.0], dtype=torch.float64))
    at_zero = 0.2 / 2 + 0.5 / (2 * math.pi) + 0.3 / 8
    at_two = 0.2 * math.exp(-2) / 2 + 0.5 / (4 * math.pi) + 0.3 * math.exp(-0.5) / 8
    torch.testing.assert_close(found, torch.tensor([at_zero, at_two], dtype=torch.float64).log())


def test_each_component_is_drawn_as_often_as_its_weight() -> None:
    torch.manual_seed(0)
    far_apart = priors.Mixture([0.2, 0.8], [priors.Gaussian(0.01, loc=-5.0), priors.Gaussian(0.01, loc=5.0)])
    share = (far_apart.sample(torch.Size([100, 100])) < 0).double().mean().item()
    assert abs(share - 0.2) < 6 * math.sqrt(0.2 * 0.8 / 10_000)


def test_weights_that_miss_one_by_rounding_are_normalised() -> None:
    off = priors.Mixture([0.5, 0.5 + 5e-7], [priors.Gaussian(), priors.Gaussian()])
    value = torch.zeros(1000, dtype=torch.float64)
    torch.testing.assert_close(off.log_prob(value), priors.Gaussian().log_prob(value), rtol=1e-12, atol=0)
    assert off.weights == (0.5, 0.5 + 5e-7)  # what was given is kept
