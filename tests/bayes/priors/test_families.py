"""Families with independent elements: densities against SciPy and quadrature, draws against their densities.

Statistical tests have fixed seeds and thresholds of a false-failure rate below 1e-6 each.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch
from scipy.integrate import quad
from torch.distributions import Gumbel, Normal
from torch.func import grad

from ggmc.bayes import priors
from ggmc.errors import BadInput
from tests.support.priors import ELEMENTWISE, MIXTURE, NAMES, SCALED, kernel


@pytest.mark.parametrize(("prior", "distribution"), ELEMENTWISE, ids=NAMES)
def test_density_is_scipys(prior, distribution) -> None:
    value = 2 * kernel(4, 5)
    expected = torch.from_numpy(distribution.logpdf(value.numpy()))
    torch.testing.assert_close(prior.log_densities(value), expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(prior.log_prob(value), expected.sum(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("prior", [*(prior for prior, _ in ELEMENTWISE), *SCALED, MIXTURE], ids=str)
def test_density_integrates_to_one(prior) -> None:
    def density(x: float) -> float:
        # All elements the same: the density of one is the n-th root of the density of all.
        value = torch.full((2, 9), x, dtype=torch.float64)
        return math.exp(float(prior.log_prob(value)) / value.numel())

    pieces = [-math.inf, -10, -1, -0.1, -1e-3, 0, 1e-3, 0.1, 1, 10, math.inf]
    total = sum(quad(density, a, b, limit=200)[0] for a, b in itertools.pairwise(pieces))
    assert total == pytest.approx(1, abs=1e-6)


def test_fan_in_scales_weights_and_leaves_biases_alone() -> None:
    for prior in SCALED[:5]:
        plain = replace(prior, fan_in=False)
        value = kernel(8, 3, 2, 2)
        expected = plain.log_prob(value * math.sqrt(12)) + value.numel() * math.log(math.sqrt(12))
        torch.testing.assert_close(prior.log_prob(value), expected)
        assert torch.equal(prior.log_prob(value.flatten()), plain.log_prob(value.flatten()))
    value = kernel(8, 3, 2, 2)
    narrow = Normal(1.5, 0.7 / math.sqrt(12)).log_prob(value).sum()  # a mean is not divided
    torch.testing.assert_close(priors.Gaussian(0.7, fan_in=True, loc=1.5).log_prob(value), narrow)


def test_improper_is_flat_and_has_nothing_to_draw() -> None:
    value = kernel(3).requires_grad_()
    priors.Improper().log_prob(value).backward()
    assert value.grad is not None
    assert value.grad.eq(0).all()
    with pytest.raises(BadInput, match="proper prior such as"):
        priors.Improper().sample(torch.Size([3]))


@pytest.mark.parametrize(("prior", "distribution"), ELEMENTWISE, ids=NAMES)
def test_draws_follow_the_distribution(prior, distribution) -> None:
    torch.manual_seed(0)
    draws = prior.sample(torch.Size([100, 100]))
    assert (draws.shape, draws.dtype) == ((100, 100), torch.float64)
    assert scipy.stats.kstest(draws.flatten().numpy(), distribution.cdf).pvalue > 1e-7


@pytest.mark.parametrize("prior", [*SCALED, MIXTURE], ids=str)
def test_draws_follow_the_density_with_fan_in(prior) -> None:
    torch.manual_seed(1)
    shape = torch.Size([1000, 9])
    grid = torch.cat([torch.linspace(a, b, 20001, dtype=torch.float64)[1:] for a, b in ((-60, -2), (-2, 2), (2, 60))])
    density = prior.log_densities(grid[:, None].expand(-1, 9))[:, 0].exp()
    below = float(scipy.stats.cauchy.cdf(-60, 0, 0.2 / 3)) if isinstance(prior, priors.Cauchy) else 0.0
    cdf = below + torch.cat([torch.zeros(1), torch.cumulative_trapezoid(density, grid)])
    draws = prior.sample(shape).flatten().numpy()
    assert scipy.stats.kstest(draws, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-7


@pytest.mark.parametrize("power", [0.3, 0.5, 1.0, 1.5, 2.0])
def test_a_zero_weight_has_a_slope(power: float) -> None:
    slope = grad(priors.GeneralisedNormal(power).log_prob)(torch.zeros(3))
    assert slope.eq(0).all()


def test_large_float32_tensors_are_added_up_in_float64() -> None:
    value = kernel(1000, 1000, dtype=torch.float32)
    for prior in (priors.Gaussian(1.0), priors.Laplace(1.0), priors.Mixture([1.0], [priors.Gaussian(1.0)])):
        assert abs(prior.log_prob(value).item() - prior.log_prob(value.double()).item()) < 0.02


def test_fan_in_is_the_number_of_inputs_of_one_output() -> None:
    shapes = [(5, 20), (8, 3, 2, 7), (7,), (), (4, 1), (0, 3), (3, 0)]
    assert [priors.fan_in_of(torch.Size(shape)) for shape in shapes] == [20, 42, 1, 1, 1, 3, 1]


# A weight of 0.5 in a tensor [3, 4], whose fan-in is 4, so that scales are halved.
BY_HAND = [
    (priors.Gaussian(3.0, fan_in=True), -0.5 * (0.5 / 1.5) ** 2 - math.log(1.5) - 0.5 * math.log(2 * math.pi)),
    (priors.Gaussian(3.0, True, loc=2.0), -0.5 * (1.5 / 1.5) ** 2 - math.log(1.5) - 0.5 * math.log(2 * math.pi)),
    (priors.Laplace(3.0, fan_in=True), -0.5 / 1.5 - math.log(2 * 1.5)),
    (priors.Cauchy(3.0, fan_in=True), -math.log(math.pi * 1.5 * (1 + (0.5 / 1.5) ** 2))),
    (priors.StudentT(1.0, 3.0, fan_in=True), -math.log(math.pi * 1.5 * (1 + (0.5 / 1.5) ** 2))),
    (priors.GeneralisedNormal(1.0, 3.0, fan_in=True), -0.5 / 1.5 - math.log(2 * 1.5)),
    # A standard Gumbel variable is twice the weight, 1; the density of the weight has a factor of two.
    (priors.Of(Gumbel(0.0, 1.0), fan_in=True), -1.0 - math.exp(-1.0) + math.log(2)),
]


@pytest.mark.parametrize(("prior", "expected"), BY_HAND, ids=[str(prior) for prior, _ in BY_HAND])
def test_fan_in_by_hand(prior: priors.Elementwise, expected: float) -> None:
    value = torch.full((3, 4), 0.5, dtype=torch.float64)
    torch.testing.assert_close(prior.log_densities(value), torch.full_like(value, expected))
    assert prior.log_prob(value).item() == pytest.approx(12 * expected, rel=1e-12)


def test_fan_in_narrows_draws_by_its_root() -> None:
    for prior in [case for case, _ in BY_HAND if case != priors.Gaussian(3.0, True, loc=2.0)]:
        torch.manual_seed(0)
        plain = replace(prior, fan_in=False).sample(torch.Size([3, 4]))
        torch.manual_seed(0)
        torch.testing.assert_close(prior.sample(torch.Size([3, 4])), plain / 2)
    torch.manual_seed(0)
    narrow = priors.Gaussian(3.0, True, loc=2.0).sample(torch.Size([3, 4]))
    torch.manual_seed(0)
    torch.testing.assert_close(narrow, 2.0 + 1.5 * torch.randn(3, 4, dtype=torch.float64))  # the mean stays
