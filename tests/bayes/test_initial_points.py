"""Where chains begin."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import HalfNormal

import ggmc
from ggmc.bayes import initial_points, likelihoods, predict, priors
from ggmc.errors import BadInput
from tests.support.posteriors import (
    NORMAL,
    X,
    inputs,
    line,
    outcomes,
    posterior,
    rows_of,
)

F64 = torch.float64


def test_starts() -> None:
    def begin(start: str, chains: int = 3) -> tuple[ggmc.Posterior, Tensor]:
        target = posterior(start=start)
        return target, target.starts(chains, torch.Generator().manual_seed(0))

    target, rows = begin("module")
    assert torch.equal(rows, target.start.expand(3, -1))
    prior, rows = begin("prior", 400)
    assert abs(rows.mean().item()) < 6 / math.sqrt(rows.numel())
    assert abs(rows.var().item() - 1) < 6 * math.sqrt(2 / rows.numel())
    assert torch.equal(rows, prior.starts(400, torch.Generator().manual_seed(0)))
    optimised, rows = begin("map")
    potentials = optimised.potential(rows)
    assert (potentials < target.potential(target.start[None]) - 10).all()
    assert torch.pdist(rows).min() > 0.1  # every chain its own
    again = torch.Generator().manual_seed(0)
    assert torch.allclose(rows, optimised.starts(3, again))
    with pytest.raises(BadInput, match="start must be one of apart, module, prior, map, got 'mle'"):
        posterior(start="mle")


def test_chains_start_apart_unless_said_otherwise() -> None:
    target = posterior(prior={"*.bias": NORMAL, "*": priors.Horseshoe(0.1)})
    rows = target.starts(4, torch.Generator().manual_seed(0))
    assert torch.equal(rows[0], target.start)  # the module's own values
    assert torch.equal(rows, target.starts(4, torch.Generator().manual_seed(0)))
    weights = target.constrain(rows)["layers.0.weight"].flatten(1)
    assert torch.pdist(weights).min() > 0.1
    assert weights.abs().max() <= 1  # what nn.Linear draws for one input
    assert target.potential(rows).isfinite().all()
    assert target.starts(1, torch.Generator()).shape == (1, target.layout.size)
    spread = posterior(jitter=0.5).starts(4, torch.Generator().manual_seed(0))
    assert 0 < (spread[0] - posterior().start).abs().max() <= 0.5


class Constant(nn.Module):
    """Nothing here is drawn anew by a layer, and shuffling does not change it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, dtype=F64))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def test_chains_whose_initialisation_is_constant_start_apart_too() -> None:
    target = ggmc.Posterior(Constant(), "gaussian", NORMAL, inputs(), outcomes())
    rows = target.starts(5, torch.Generator().manual_seed(0))
    assert torch.equal(rows[0], target.start)
    assert torch.pdist(rows).min() > 0
    assert rows.abs().max() <= 1


def test_an_initialisation_outside_the_support_is_not_a_start() -> None:
    def terms(output: Tensor, y: Tensor) -> Tensor:  # impossible but for the module's own weight of zero, or nearly so
        return torch.where(output.abs() < 1e-3, -((output - y) ** 2), -torch.inf)

    class Narrow(Constant):
        def reset_parameters(self) -> None:
            with torch.no_grad():
                self.weight.fill_(100.0)

    for start in ("apart", "map"):
        target = ggmc.Posterior(Narrow(), terms, NORMAL, inputs(), outcomes(), start=start)
        rows = target.starts(4, torch.Generator().manual_seed(0))
        assert target.is_finite(rows).all()
    never = ggmc.Posterior(Narrow(), terms, NORMAL, inputs(), outcomes(), start="prior")
    with pytest.raises(BadInput, match=r'30 draws of the prior.*start="apart"'):
        never.starts(2, torch.Generator().manual_seed(0))


def test_learnt_noise_is_found_and_fixed() -> None:
    target = posterior(likelihood=likelihoods.Gaussian("learnt"))
    noise: Any = target.likelihood
    assert isinstance(noise, likelihoods.Gaussian)
    assert isinstance(noise.noise, float)
    assert 0.03 < noise.noise < 0.4
    assert "noise" not in target.layout.shapes


def test_the_mass_is_the_priors_precision() -> None:
    target = posterior(prior={"*.bias": priors.Gaussian(3.0), "*": priors.Gaussian(2.0, fan_in=True)})
    assert target.advice.mass is not None
    mass = target.advice.mass()
    assert mass is not None
    assert mass.shape == (target.layout.size,)
    assert mass.dtype == F64
    variance = 1 / mass
    expected = {"layers.0.weight": 4.0, "layers.0.bias": 9.0, "layers.1.weight": 4.0 / 5, "layers.1.bias": 9.0}
    for name, value in expected.items():
        share = variance[target.layout.columns[name]] / value
        assert (share == share[0]).all()
        assert 0.4 < share[0] < 2.5


def test_torchs_own_generator_is_not_touched() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes(), start="prior")
    module, rows = line(), rows_of(target)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    target.starts(2, torch.Generator().manual_seed(0))
    initial_points.initialised(target, 2, torch.Generator().manual_seed(0))
    target.prior_predictive(inputs(), draws=3)
    predict.predict(target, rows, inputs())
    assert target.advice.mass is not None
    target.advice.mass()
    ggmc.Posterior(module, likelihoods.Gaussian(HalfNormal(1.0)), NORMAL, inputs(), outcomes())
    ggmc.Posterior(module, "gaussian", NORMAL, inputs(), outcomes())
    assert torch.equal(before, torch.get_rng_state())


def test_new_initialisations_are_those_of_the_weights_where_scales_are_unknown() -> None:
    prior = {"bias": NORMAL, "*": priors.Horseshoe(0.1)}
    target = ggmc.Posterior(line(), "gaussian", prior, inputs(), outcomes())
    rows = initial_points.initialised(target, 5, torch.Generator().manual_seed(0))
    assert torch.equal(rows[0], target.start)
    values = target.constrain(rows)
    largest = 1 / math.sqrt(2)  # of nn.Linear, which draws uniformly from ± 1/√fan_in
    assert values["weight"].abs().max() <= largest
    assert values["weight"][1:].abs().max() > largest / 4
    assert torch.pdist(values["weight"].flatten(1)).min() > 0
    assert torch.allclose(values["weight.global"], torch.full((5,), 0.1, dtype=F64))


def test_weights_that_no_layer_draws_anew_are_shuffled() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([[0.1, -0.7, 0.3, 0.5], [1.1, 0.2, -0.4, 0.9]]))
            self.gain = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight * self.gain).sum(-1)

    target = ggmc.Posterior(Own(), "gaussian", NORMAL, inputs(), outcomes())
    values = target.constrain(initial_points.initialised(target, 4, torch.Generator().manual_seed(0)))
    weights = values["weight"].flatten(1)
    assert torch.pdist(weights).min() > 0
    assert torch.equal(weights.sort().values, weights[:1].sort().values.expand(4, -1))
    assert torch.equal(values["gain"], torch.ones(4, 4))


def test_an_optimisation_that_fails_leaves_the_start_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initial_points, "RATE", 1e6)
    monkeypatch.setattr(initial_points, "STEPS", 3)
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    rows = rows_of(target)
    found = initial_points.optimised(target, rows, torch.Generator().manual_seed(0))
    assert torch.equal(found, rows)


def test_prior_starts_are_finite() -> None:
    torch.manual_seed(0)
    net = ggmc.nets.MLP([2, 50, 50, 1])
    target = ggmc.Posterior(net, "poisson", priors.Gaussian(3.0), X, torch.ones(12), start="prior")
    rows = target.starts(4, torch.Generator().manual_seed(0))
    assert target.potential(rows).isfinite().all()
    assert target.potential_and_gradient(rows)[1].isfinite().all()
