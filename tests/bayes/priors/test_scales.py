"""Priors with unknown scales: what a weight is made of, by value."""

from __future__ import annotations

import math

import pytest
import scipy.stats
import torch
from torch.distributions import HalfCauchy, Normal

from ggmc.bayes import priors
from tests.support.priors import kernel, latents_for


def test_scales_are_added_by_the_posterior_and_not_by_the_prior() -> None:
    value = kernel(4, 3)
    latents = {"scale": torch.tensor(2.0), "local": torch.rand(4, 3), "global": torch.tensor(0.2)}
    torch.testing.assert_close(priors.Horseshoe(0.1).log_prob(value, latents), Normal(0, 1).log_prob(value).sum())
    wide = priors.Hierarchical(priors.Laplace(), fan_in=True)
    torch.testing.assert_close(wide.log_prob(value, latents), priors.Laplace().log_prob(value))


def test_draws_of_non_centred_values_are_of_unit_scale() -> None:
    torch.manual_seed(3)
    shape = torch.Size([100, 100])
    latents = {"scale": torch.tensor(9.0), "local": torch.full(shape, 9.0), "global": torch.tensor(9.0)}
    unit = priors.Horseshoe(0.1).sample(shape, latents).flatten().numpy()
    assert scipy.stats.kstest(unit, scipy.stats.norm.cdf).pvalue > 1e-7
    laplace = priors.Hierarchical(priors.Laplace(), fan_in=True).sample(shape, latents).flatten().numpy()
    assert scipy.stats.kstest(laplace, scipy.stats.laplace.cdf).pvalue > 1e-7


@pytest.mark.parametrize(
    "prior", [priors.Hierarchical(), priors.Hierarchical(fan_in=True), priors.Horseshoe(0.1), priors.Laplace()], ids=str
)
def test_encode_undoes_decode(prior) -> None:
    weight = kernel(6, 4)
    latents = latents_for(prior, weight.shape, weight.dtype)
    torch.testing.assert_close(prior.decode(prior.encode(weight, latents), latents), weight)
    torch.testing.assert_close(prior.encode(prior.decode(weight, latents), latents), weight)


def test_decoded_weights_are_scale_times_value() -> None:
    value, two = kernel(6, 4), torch.tensor(2.0, dtype=torch.float64)
    torch.testing.assert_close(priors.Hierarchical().decode(value, {"scale": two}), 2 * value)
    torch.testing.assert_close(priors.Hierarchical(fan_in=True).decode(value, {"scale": two}), value)  # 2 / √4
    torch.testing.assert_close(priors.Hierarchical(fan_in=True).decode(value[0], {"scale": two}), 2 * value[0])
    local = torch.rand(6, 4)
    torch.testing.assert_close(priors.Horseshoe().decode(value, {"local": local, "global": two}), 2 * local * value)


def test_latents_have_their_distributions_and_shapes() -> None:
    distributions = priors.Horseshoe(0.1).latents(torch.Size([6, 4]))
    assert {name: own.batch_shape for name, own in distributions.items()} == {"local": (6, 4), "global": ()}
    one = torch.ones((), dtype=torch.float64)
    assert distributions["global"].log_prob(one).item() == pytest.approx(scipy.stats.halfcauchy.logpdf(1.0, 0, 0.1))
    assert distributions["local"].log_prob(one)[0, 0].item() == pytest.approx(scipy.stats.halfcauchy.logpdf(1.0, 0, 1))
    scale = HalfCauchy(3.0)
    assert priors.Hierarchical(scale=scale).latents(torch.Size([6, 4])) == {"scale": scale}
    assert priors.Hierarchical().latents(torch.Size([3]))["scale"].log_prob(one).item() == pytest.approx(
        scipy.stats.halfnorm.logpdf(1.0)
    )
    for distribution in (*distributions.values(), scale):
        assert str(distribution.support).startswith("GreaterThan")  # nonnegative: goes through a bijection


def test_a_family_that_transforms_its_value_is_asked_to() -> None:
    class Doubled(priors.Gaussian):
        def decode(self, value, latents=None):
            return 2 * value

        def encode(self, weight, latents=None):
            return weight / 2

    prior, value, latents = priors.Hierarchical(Doubled()), kernel(3), {"scale": torch.tensor(5.0)}
    torch.testing.assert_close(prior.decode(value, latents), 10 * value)
    torch.testing.assert_close(prior.encode(10 * value, latents), value)


def test_hierarchical_by_hand() -> None:
    # Fan-in 4 halves the weight: 3 · 0.5 / 2.
    prior, latents = priors.Hierarchical(fan_in=True), {"scale": torch.tensor(0.5)}
    value, weight = torch.full((3, 4), 3.0), torch.full((3, 4), 0.75)
    assert torch.equal(prior.decode(value, latents), weight)
    assert torch.equal(prior.encode(weight, latents), value)
    bias = torch.full((3,), 1.5)
    assert torch.equal(prior.encode(bias, latents), value[:, 0])
    assert torch.equal(prior.decode(value[:, 0], latents), bias)


def test_horseshoe_by_hand() -> None:
    prior = priors.Horseshoe(0.1)
    latents = {"local": torch.tensor([[2.0, 5.0]]), "global": torch.tensor(0.5)}
    assert torch.equal(prior.decode(torch.tensor([[3.0, -1.0]]), latents), torch.tensor([[3.0, -2.5]]))
    assert torch.equal(prior.encode(torch.tensor([[3.0, -2.5]]), latents), torch.tensor([[3.0, -1.0]]))
    # HalfCauchy(s) at x has the density 2 / (π s (1 + x²/s²)): local scales are around 1, the global one around 0.1.
    own = prior.latents(torch.Size([1, 2]))
    found = {name: priors.total_log_prob(own[name], latents[name]) for name in own}
    local = sum(math.log(2 / (math.pi * (1 + x**2))) for x in (2.0, 5.0))
    assert found["local"].item() == pytest.approx(local)
    assert found["global"].item() == pytest.approx(math.log(2 / (math.pi * 0.1 * (1 + 25))))


def test_a_prior_of_ones_own_may_be_the_family() -> None:
    class Logistic(priors.Prior):
        def latents(self, shape):
            return {}  # written out, and still of fixed scale

        def log_prob(self, value, latents=None):
            return -(value + 2 * torch.nn.functional.softplus(-value)).sum(dtype=torch.float64)

        def sample(self, shape, latents=None):
            return torch.rand(shape, dtype=torch.float64, device="cpu").logit()

    prior = priors.Hierarchical(Logistic())
    assert prior.log_prob(torch.zeros(3)).item() == pytest.approx(3 * math.log(1 / 4))
    assert prior.sample(torch.Size([2, 3])).shape == (2, 3)
