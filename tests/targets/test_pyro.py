from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import constraints

import ggmc
from ggmc.errors import BadInput

pyro = pytest.importorskip("pyro")
dist = pyro.distributions
F64 = torch.float64


def eight_schools(y: torch.Tensor, sigma: torch.Tensor) -> None:
    zero, one = torch.zeros((), dtype=F64), torch.ones((), dtype=F64)
    mu = pyro.sample("mu", dist.Normal(zero, 5 * one))
    tau = pyro.sample("tau", dist.HalfCauchy(5 * one))
    with pyro.plate("schools", len(y)):
        z = pyro.sample("z", dist.Normal(zero, one))
        pyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)


Y = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], dtype=F64)
SIGMA = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], dtype=F64)


def test_a_model_becomes_the_same_density() -> None:
    target = ggmc.from_pyro(eight_schools, Y, SIGMA)
    assert repr(target) == "Density(mu: (), tau: (), z: (8,); d = 10)"

    def by_hand(p: dict[str, torch.Tensor]) -> torch.Tensor:
        prior = dist.Normal(0.0, 5.0).log_prob(p["mu"]) + dist.HalfCauchy(5.0).log_prob(p["tau"])
        prior = prior + dist.Normal(0.0, 1.0).log_prob(p["z"]).sum()
        return prior + dist.Normal(p["mu"] + p["tau"] * p["z"], SIGMA).log_prob(Y).sum()

    start = {"mu": torch.zeros((), dtype=F64), "tau": torch.ones((), dtype=F64), "z": torch.zeros(8, dtype=F64)}
    same = ggmc.Density(by_hand, start, {"tau": constraints.positive})
    position = torch.randn(4, 10, dtype=F64)
    torch.testing.assert_close(target.potential(position), same.potential(position))
    for ours, theirs in zip(
        target.potential_and_gradient(position), same.potential_and_gradient(position), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_it_samples() -> None:
    trace = ggmc.sample(ggmc.from_pyro(eight_schools, Y, SIGMA), draws=300, warmup=300, progress=False)
    assert trace["mu"].mean() == pytest.approx(4.4, abs=1.0)
    assert np.isfinite(trace["z"]).all()


def test_the_start_is_a_draw_from_the_prior_that_the_data_allow() -> None:
    def model() -> None:
        x = pyro.sample("x", dist.Normal(torch.zeros((), dtype=F64), 1.0))
        pyro.factor("wall", torch.where(x > 1.5, 0.0, -torch.inf))

    target = ggmc.from_pyro(model)
    assert (target.starts(5, torch.Generator()) > 1.5).all()


def test_building_it_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    ggmc.from_pyro(eight_schools, Y, SIGMA)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_cannot_be_sampled_is_refused() -> None:
    def discrete() -> None:
        pyro.sample("k", dist.Bernoulli(0.5))

    def nothing() -> None:
        pyro.sample("y", dist.Normal(0.0, 1.0), obs=torch.ones(()))

    def subsampled(y: torch.Tensor) -> None:
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(y), subsample_size=2) as rows:
            pyro.sample("y", dist.Normal(mu, 1.0), obs=y[rows])

    def moving() -> None:
        x = pyro.sample("x", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Uniform(x - 1, x + 1))

    with pytest.raises(BadInput, match="latent y has a support or shape that depends on other draws"):
        ggmc.from_pyro(moving)
    with pytest.raises(BadInput, match="latent k is discrete"):
        ggmc.from_pyro(discrete)
    with pytest.raises(BadInput, match="no latent variables"):
        ggmc.from_pyro(nothing)
    with pytest.raises(BadInput, match="plate data subsamples"):
        ggmc.from_pyro(subsampled, Y)
