"""Correlated filters against multivariate normals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from ggmc.bayes import priors
from tests.support.priors import kernel


@pytest.mark.parametrize("window", [(5,), (3, 3), (3, 2), (2, 2, 2), (1, 1)])
def test_correlated_filters_density(window: tuple[int, ...]) -> None:
    pixels = np.stack(np.meshgrid(*map(np.arange, window), indexing="ij"), -1).reshape(-1, len(window))
    distance = scipy.spatial.distance.cdist(pixels, pixels)
    value = kernel(4, 3, *window)
    scale = 0.8 / math.sqrt(3 * len(pixels))
    distribution = scipy.stats.multivariate_normal(np.zeros(len(pixels)), scale**2 * np.exp(-distance / 1.7))
    expected = distribution.logpdf(value.reshape(12, -1).numpy()).sum()
    assert priors.CorrelatedFilters(0.8, 1.7, fan_in=True).log_prob(value).item() == pytest.approx(expected)


def test_short_length_scales_are_the_independent_limit() -> None:
    value = kernel(4, 3, 3, 3)
    near, independent = priors.CorrelatedFilters(0.8, 0.01, fan_in=True), priors.Gaussian(0.8, fan_in=True)
    torch.testing.assert_close(near.log_prob(value), independent.log_prob(value))


def test_draws_of_correlated_filters_have_their_covariance() -> None:
    torch.manual_seed(2)
    prior = priors.CorrelatedFilters(0.8, 1.7)
    draws = prior.sample(torch.Size([200, 200, 2, 2]))
    per_filter = draws.reshape(-1, 4).numpy()
    side, diagonal = math.exp(-1 / 1.7), math.exp(-math.sqrt(2) / 1.7)
    expected = 0.64 * np.array(
        [
            [1, side, side, diagonal],
            [side, 1, diagonal, side],
            [side, diagonal, 1, side],
            [diagonal, side, side, 1],
        ]
    )
    # The standard error of a covariance of normals is √((c_ii c_jj + c_ij²) / n), at most 0.64 √(2/n).
    np.testing.assert_allclose(np.cov(per_filter.T), expected, atol=6 * 0.64 * math.sqrt(2 / len(per_filter)))
    channels = draws[:, :, 0, 0]
    across = (channels[:, :100] * channels[:, 100:]).mean().item()
    assert abs(across) < 6 * 0.64 / math.sqrt(200 * 100)
    scaled = priors.CorrelatedFilters(0.8, 1.7, fan_in=True).sample(torch.Size([200, 200, 2, 2]))
    assert scaled.std().item() == pytest.approx(0.8 / math.sqrt(800), rel=0.03)


def test_correlated_filters_by_hand() -> None:
    # A window of two pixels: covariance scale² [[1, c], [c, 1]] with c = exp(−1/length_scale).
    correlation, scale = math.exp(-1 / 2.0), 3.0 / math.sqrt(2 * 2)
    a, b = 0.5, -1.0
    square = (a * a - 2 * correlation * a * b + b * b) / (scale**2 * (1 - correlation**2))
    one = -0.5 * square - 0.5 * math.log(scale**4 * (1 - correlation**2)) - math.log(2 * math.pi)
    value = torch.tensor([a, b], dtype=torch.float64).expand(5, 2, 2)
    assert priors.CorrelatedFilters(3.0, 2.0, fan_in=True).log_prob(value).item() == pytest.approx(10 * one, rel=1e-12)
