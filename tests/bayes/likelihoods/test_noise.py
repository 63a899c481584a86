"""Noise: known, sampled, or to be learnt, and the bounds that follow from it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import HalfNormal, LogNormal, Normal

from ggmc.bayes import likelihoods
from ggmc.errors import BadInput

F64 = torch.float64
REAL = torch.tensor([0.3, -1.2, 2.0], dtype=F64)
OUT = torch.tensor([[0.1], [-1.0], [1.0]], dtype=F64)
NOISY = [likelihoods.Gaussian, likelihoods.StudentT]


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
    with pytest.raises(BadInput, match="the noise is unknown, HalfNormal"):
        sampled.log_prob(OUT, REAL, {})


@pytest.mark.parametrize("family", NOISY)
def test_noise_to_learn(family: Any) -> None:
    learnt = family("learnt")
    prior = learnt.noise_to_learn()
    assert isinstance(prior, LogNormal)
    assert (prior.loc.item(), prior.scale.item()) == (0.0, 3.0)
    assert list(learnt.latents()) == ["noise"]
    assert learnt.bound(REAL) is None
    for known in (family(0.5), family(HalfNormal(1.0)), likelihoods.Poisson(), likelihoods.Categorical()):
        assert known.noise_to_learn() is None


def test_another_noise_leaves_the_rest() -> None:
    found = likelihoods.StudentT("learnt", df=3.0).with_noise(0.5)
    assert found == likelihoods.StudentT(0.5, df=3.0)
    assert found.latents() == {}
    prior = HalfNormal(1.0)
    assert likelihoods.Gaussian("learnt").with_noise(prior).latents() == {"noise": prior}
    with pytest.raises(BadInput, match="Poisson has no noise to set"):
        likelihoods.Poisson().with_noise(0.5)


@pytest.mark.parametrize("noise", [0.5, np.float32(0.5), torch.tensor(0.5)])
def test_known_noise_of_any_kind(noise: Any) -> None:
    found = likelihoods.Gaussian(noise)
    torch.testing.assert_close(found.log_prob(OUT, REAL, {}), likelihoods.Gaussian(0.5).log_prob(OUT, REAL, {}))
    assert found.bound(REAL) == pytest.approx(-math.log(0.5) - 0.5 * math.log(2 * math.pi), abs=1e-4)
    assert found.latents() == {}


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, "sampled", HalfNormal(torch.ones(2)), Normal(0.0, 1.0), None])
@pytest.mark.parametrize("family", NOISY)
def test_noise_that_is_none(family: Any, noise: Any) -> None:
    with pytest.raises(BadInput, match="noise"):
        family(noise)
    with pytest.raises(BadInput, match="df must be a positive number, got 0"):
        likelihoods.StudentT(1.0, df=0)
