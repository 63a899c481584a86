"""What every prior must do: vectorised, differentiated, in any precision, on any device."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Gamma, HalfCauchy, HalfNormal, LogNormal, Normal, Poisson, Uniform
from torch.func import grad, vmap

from ggmc.bayes import priors
from ggmc.errors import BadInput
from tests.support.priors import EVERY, MIXTURE, kernel, latents_for

WRONG: Any = "wide"
TWO: Any = 2.0
CLASS: Any = priors.Gaussian


@pytest.mark.parametrize("distribution", [HalfCauchy(0.5), Gamma(2.0, 3.0), LogNormal(0.0, 1.0), HalfNormal(2.0)])
def test_a_float32_distribution_does_not_round_float64_values(distribution) -> None:
    value = kernel(5).abs()
    precise = copy.deepcopy(distribution)
    shift = 1e-12
    slope = grad(lambda v: priors.total_log_prob(precise, v))(value).sum()
    difference = priors.total_log_prob(distribution, value + shift) - priors.total_log_prob(distribution, value)
    assert float(difference) == pytest.approx(float(slope) * shift, rel=0.02)
    torch.testing.assert_close(
        priors.total_log_prob(distribution, value), distribution.log_prob(value).double().sum(), rtol=1e-5, atol=0
    )


def test_a_draw_is_a_function_of_the_seed() -> None:
    for prior in EVERY:
        if not isinstance(prior, priors.Improper):
            shape = torch.Size([4, 3, 3, 3])
            first, again = ((torch.manual_seed(5), prior.sample(shape))[1] for _ in range(2))
            assert torch.equal(first, again)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("prior", EVERY, ids=str)
def test_vmap_and_grad(prior, dtype) -> None:
    values = kernel(5, 4, 3, 3, 3, dtype=dtype)
    latents = latents_for(prior, values.shape[1:], dtype)

    def of_weight(value: torch.Tensor) -> torch.Tensor:
        return prior.log_prob(value, latents) + prior.decode(value, latents).double().square().sum()

    together, slopes = vmap(of_weight)(values), vmap(grad(of_weight))(values)
    assert (together.dtype, slopes.dtype) == (torch.float64, dtype)
    rtol = 1e-5 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(together, torch.stack([of_weight(v) for v in values]), rtol=rtol, atol=0)
    value = values[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(of_weight(value), value)
    torch.testing.assert_close(slopes[0], slope, rtol=rtol, atol=rtol)
    step = 1e-6 * kernel(4, 3, 3, 3)
    if dtype == torch.float64:
        rise = of_weight(values[0] + step) - of_weight(values[0] - step)
        torch.testing.assert_close(rise, 2 * (slope * step).sum(), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("prior", EVERY, ids=str)
def test_nothing_stays_on_another_device(prior) -> None:
    value = torch.empty(4, 3, 3, 3, device="meta")  # refuses to meet tensors of other devices, 0-dimensional ones apart
    latents = {
        name: torch.empty(distribution.batch_shape, device="meta")
        for name, distribution in prior.latents(value.shape).items()
    }
    assert prior.log_prob(value, latents).device.type == "meta"
    assert prior.decode(value, latents).device.type == "meta"
    for name, distribution in prior.latents(value.shape).items():
        assert priors.total_log_prob(distribution, latents[name]).device.type == "meta"


def test_priors_are_plain_values() -> None:
    assert repr(priors.Gaussian(1, True)) == "Gaussian(scale=1.0, fan_in=True, loc=0.0)"
    assert priors.Laplace(2) == priors.Laplace(2.0) != priors.Laplace(2.0, fan_in=True)
    assert repr(MIXTURE).startswith("Mixture(weights=(0.3, 0.7), components=(Gaussian(scale=0.1")
    with pytest.raises(AttributeError):
        priors.Gaussian().scale = 3.0  # pyright: ignore[reportAttributeAccessIssue]
    for prior in EVERY:
        value = kernel(4, 3, 3, 3)
        latents = latents_for(prior, value.shape, value.dtype)
        again = pickle.loads(pickle.dumps(prior))
        assert repr(again) == repr(prior)
        assert torch.equal(again.log_prob(value, latents), prior.log_prob(value, latents))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: priors.Gaussian(-1.0), "scale must be a positive number, got -1.0"),
        (lambda: priors.Gaussian(1.0, WRONG), "fan_in must be True or False, got 'wide'"),
        (lambda: priors.Gaussian(loc=math.inf), "loc must be a finite number, got inf"),
        (lambda: priors.StudentT(0), "df must be a positive number, got 0"),
        (lambda: priors.GeneralisedNormal(power=-2), "power must be a positive number, got -2"),
        (lambda: priors.CorrelatedFilters(length_scale=0), "length_scale must be a positive number, got 0"),
        (lambda: priors.Horseshoe(WRONG), "scale must be a number, got 'wide'"),
        (lambda: priors.Of(HalfNormal(1.0)), "must cover all real numbers, got HalfNormal"),
        (lambda: priors.Of(Uniform(-1.0, 1.0)), "must cover all real numbers"),
        (lambda: priors.Of(Poisson(1.0)), "must be continuous, got Poisson"),
        (lambda: priors.Of(Normal(torch.zeros(3), 1.0)), r"that of a single number, got batch shape \(3,\)"),
        (lambda: priors.Mixture([0.5], [priors.Gaussian(), priors.Laplace()]), "one weight per component, got 1 and 2"),
        (lambda: priors.Mixture([], []), "one weight per component, got 0 and 0"),
        (lambda: priors.Mixture([0.5, 0.4], [priors.Gaussian(), priors.Laplace()]), "sum to one, got .* 0.9"),
        (
            lambda: priors.Mixture([1.5, -0.5], [priors.Gaussian(), priors.Laplace()]),
            r"weights\[1\] must be a positive",
        ),
        (lambda: priors.Mixture([1.0], [priors.Horseshoe()]), "independent elements and no latents, got Horseshoe"),
        (lambda: priors.Hierarchical(priors.Horseshoe()), "must be of fixed scale, got Horseshoe"),
        (lambda: priors.Hierarchical(priors.Improper()), "must be of fixed scale, got Improper"),
        (lambda: priors.Hierarchical(scale=Normal(0.0, 1.0)), "one of positive numbers, got Normal"),
        (
            lambda: priors.Hierarchical(scale=HalfNormal(torch.ones(3))),
            "the distribution of a scale must be that of a single",
        ),
        (lambda: priors.Hierarchical(scale=TWO), "must be a torch.distributions.Distribution, got 2.0"),
        (lambda: priors.as_prior(TWO), "a prior must be one of ggmc.priors .* got 2.0"),
        (lambda: priors.as_prior(CLASS), "got the class Gaussian: make one"),
        (lambda: priors.as_prior(Normal(torch.zeros(3), 1.0)), "that of a single number"),
    ],
)
def test_refusals(make, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        make()


@pytest.mark.parametrize("prior", EVERY, ids=str)
def test_a_first_use_within_a_transform_leaves_nothing_of_it_behind(prior) -> None:
    values = kernel(5, 4, 3, 3, 3)
    latents = latents_for(prior, values.shape[1:], values.dtype)
    for fresh in (replace(prior), pickle.loads(pickle.dumps(prior)), copy.deepcopy(prior)):
        vmap(grad(lambda value, own=fresh: own.log_prob(value, latents)))(values)
        assert torch.equal(fresh.log_prob(values[0], latents), prior.log_prob(values[0], latents))
        stored = pickle.loads(pickle.dumps(fresh))  # a tensor of the transform cannot be stored
        assert torch.equal(stored.log_prob(values[0], latents), prior.log_prob(values[0], latents))
    if not isinstance(prior, priors.Improper):
        assert replace(prior).sample(values.shape[1:]).isfinite().all()


@pytest.mark.parametrize("prior", [*EVERY, priors.Hierarchical()], ids=str)
def test_the_default_device_does_not_matter(prior) -> None:
    value = kernel(4, 3, 3, 3)
    latents = latents_for(prior, value.shape, value.dtype)
    expected = prior.log_prob(value, latents), prior.decode(value, latents), prior.encode(value, latents)
    torch.manual_seed(5)
    draw = None if isinstance(prior, priors.Improper) else prior.sample(value.shape, latents)
    totals = {name: priors.total_log_prob(own, latents[name]) for name, own in prior.latents(value.shape).items()}
    with torch.device("meta"):  # as with a GPU: a tensor made here without a device does not fit those on the CPU
        for same in (prior, replace(prior)):
            found = same.log_prob(value, latents), same.decode(value, latents), same.encode(value, latents)
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
            for name, own in same.latents(value.shape).items():
                assert torch.equal(priors.total_log_prob(own, latents[name]), totals[name])
                assert own.sample().device.type == "cpu"
            if draw is not None:
                torch.manual_seed(5)
                drawn = same.sample(value.shape, latents)
                assert (drawn.device.type, drawn.dtype) == ("cpu", torch.float64)
                assert torch.equal(drawn, draw)


def test_the_default_device_does_not_matter_to_given_distributions() -> None:
    one, positive = Normal(0.0, 2.0), HalfNormal(1.0)
    with torch.device("meta"):
        assert priors.as_prior(one) == priors.Gaussian(2.0)
        assert priors.Of(one).sample(torch.Size([3])).device.type == "cpu"
        assert priors.Hierarchical(one, positive).latents(torch.Size([3])) == {"scale": positive}
        with pytest.raises(BadInput, match="must cover all real numbers"):
            priors.Of(positive)


def test_numbers_of_any_kind_are_kept_as_floats() -> None:
    for given in (2, np.float32(2.0), torch.tensor(2.0), True + True):
        prior = priors.StudentT(given, scale=given)  # pyright: ignore[reportArgumentType]
        assert (type(prior.df), type(prior.scale)) == (float, float)
        assert (prior, hash(prior)) == (priors.StudentT(2.0, 2.0), hash(priors.StudentT(2.0, 2.0)))
    assert replace(priors.StudentT(3), scale=2) == priors.StudentT(3.0, 2.0)
    with pytest.raises(TypeError, match="df"):
        priors.StudentT()


def test_the_interface_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        priors.Prior()  # pyright: ignore[reportAbstractUsage]
    with pytest.raises(TypeError, match="abstract"):
        priors.Elementwise()  # pyright: ignore[reportAbstractUsage]
