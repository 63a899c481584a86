"""Targets with data: what is described, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, constraints

import ggmc
from ggmc.errors import BadInput, NotExact
from tests.support.logistic import direct, examples, log_likelihood, log_prior, logistic, rows

F64 = torch.float64


def test_constrained_parameters_carry_their_jacobian() -> None:
    y = torch.randn(40, dtype=F64, generator=torch.Generator().manual_seed(0))
    start = {"mu": torch.zeros((), dtype=F64), "sigma": torch.ones((), dtype=F64)}

    def prior(p: Any) -> Tensor:
        return Normal(0, 2).log_prob(p["mu"]) - p["sigma"]

    def likelihood(p: Any, batch: Tensor) -> Tensor:
        return Normal(p["mu"], p["sigma"]).log_prob(batch)

    bounds = {"sigma": constraints.positive}
    with_data = ggmc.DataDensity(prior, likelihood, y, start, bounds)
    whole = ggmc.Density(lambda p: prior(p) + likelihood(p, y).sum(), start, bounds)
    position = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(2))
    for ours, theirs in zip(
        with_data.potential_and_gradient(position), whole.potential_and_gradient(position), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


def test_one_example_is_enough() -> None:
    target = logistic(1)
    trace = ggmc.sample(target, ggmc.GGMC(0.3, guide=ggmc.Minibatch(5)), draws=5, warmup=0, progress=False)
    assert trace.num_draws == 5


@pytest.mark.parametrize(
    ("likelihood", "why"),
    [
        (lambda w, b: log_likelihood(w, b).sum(), r"one term per example, shape \(4,\) for a batch of 4, got \(\)"),
        (lambda w, b: log_likelihood(w, b)[:, None], r"got \(4, 1\)"),
        (lambda w, b: 1.0, "must return a torch tensor, got float"),
        (lambda w, b: log_likelihood(w, b) - torch.inf, "is -inf at the start"),
    ],
)
def test_a_likelihood_of_the_wrong_form(likelihood: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64))


def test_a_parameter_in_neither_prior_nor_likelihood() -> None:
    start = {"w": torch.zeros(3, dtype=F64), "idle": torch.zeros((), dtype=F64)}
    with pytest.raises(BadInput, match="does not depend on idle"):
        ggmc.DataDensity(lambda p: log_prior(p["w"]), lambda p, b: log_likelihood(p["w"], b), examples(), start)


def network(*layers: nn.Module) -> tuple[nn.Module, Any]:
    module = nn.Sequential(nn.Linear(3, 8), *layers, nn.Linear(8, 1)).double()

    def likelihood(p: Any, batch: Any) -> Tensor:
        x, s = batch
        return nn.functional.logsigmoid(s * torch.func.functional_call(module, p, (x,))[:, 0])

    return module, likelihood


def posterior(module: nn.Module, likelihood: Any, data: Any = None) -> ggmc.DataDensity:
    start = {name: value.detach() for name, value in module.named_parameters()}

    def prior(p: dict[str, Tensor]) -> Tensor:
        return -torch.cat([v.flatten() for v in p.values()]).square().sum() / 2

    return ggmc.DataDensity(prior, likelihood, data or examples(), start)


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.Dropout, "another value at each call"),
        (lambda: nn.BatchNorm1d(8), "which other examples share its batch"),
    ],
)
def test_training_mode_is_refused_with_the_test_and_runs_without(
    layer: Callable[[], nn.Module], why: str, caplog: Any
) -> None:
    torch.manual_seed(0)
    module, likelihood = network(layer())
    caplog.set_level(logging.CRITICAL)
    target = posterior(module, likelihood)
    kernel = ggmc.GGMC(0.01, guide=ggmc.Minibatch(26))
    with pytest.raises(NotExact, match=why):
        kernel.bind(target)
    with pytest.raises(NotExact, match=r"module\.eval\(\)"):
        ggmc.sample(target, kernel, draws=2, warmup=0, progress=False)
    trace = ggmc.sample(target, replace(kernel, adjust=False), draws=2, warmup=0, chains=1, progress=False)
    assert trace.num_draws == 2
    module.eval()
    kernel.bind(posterior(module, likelihood))


def test_a_likelihood_may_know_its_own_bound() -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        return log_likelihood(w, batch)

    likelihood.bound = 0.0  # pyright: ignore[reportFunctionMemberAccess]
    assert ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64)).bound == 0.0


def test_a_likelihood_that_cannot_be_vectorised(caplog: pytest.LogCaptureFixture) -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        if w[0].item() > 1e9:
            raise ValueError
        return log_likelihood(w, batch)

    target = ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64))
    assert caplog.text.count("cannot be vectorised") == 1
    torch.testing.assert_close(target.potential(rows()), direct(rows()))
    fast = logistic()
    entry = torch.tensor([0, 3, 1, 0])
    for guide in (ggmc.Minibatch(20), ggmc.ControlVariate(20, curvature="dense", anchor=torch.ones(3, dtype=F64))):
        torch.testing.assert_close(guide.bind(target)(rows(), entry)[0], guide.bind(fast)(rows(), entry)[0])


@pytest.mark.parametrize("start", [torch.zeros(3, dtype=F64), torch.ones(3, dtype=F64)])
def test_dropout_shows_at_weights_of_zero_too(start: Tensor) -> None:
    def dropped(w: Tensor, batch: Any) -> Tensor:
        x, s = batch
        return nn.functional.logsigmoid(s * (nn.functional.dropout(x, 0.5, True) @ w))

    torch.manual_seed(0)
    with pytest.raises(NotExact, match="another value at each call"):
        ggmc.HMC(0.1, 2).bind(ggmc.DataDensity(log_prior, dropped, examples(), start))
    with pytest.raises(NotExact, match="gave two values at the same point"):
        ggmc.Density(lambda w: log_prior(w) + dropped(w, examples()).sum(), start)


def test_a_flat_prior() -> None:
    target = ggmc.DataDensity(lambda w: torch.zeros(()), log_likelihood, examples(), torch.zeros(3, dtype=F64))
    trace = ggmc.sample(target, ggmc.HMC(0.1, 3), draws=5, warmup=0, progress=False)
    assert trace.stats["is_accepted"].any()


@pytest.mark.parametrize("bound", [None, 10.0])
def test_where_linear_algebra_fails_the_density_is_zero(bound: Any) -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        matrix = torch.diag(torch.stack([1.5 - w[0], torch.ones_like(w[0])]))
        return log_likelihood(w, batch) + torch.linalg.cholesky(matrix)[0, 0]

    target = ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64), bound=bound)
    position = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=F64)
    assert target.potential(position).isfinite().tolist() == [False, True]
    gradient, _ = ggmc.Minibatch(20).bind(target)(position, torch.tensor([0, 1]))
    assert gradient.isfinite().all(1).tolist() == [False, True]


def test_beside_a_singular_chain_the_others_read_their_own_batches() -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        return log_likelihood(w, batch) + torch.linalg.cholesky((1.5 - w[0]).view(1, 1))[0, 0]

    target = ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64))
    field = ggmc.Minibatch(20).bind(target)
    position = torch.tensor([[3.0, 0.0, 0.0], [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], dtype=F64)
    entry = torch.tensor([0, 1, 2])
    gradient, _ = field(position, entry)
    assert not gradient[0].isfinite().any()
    torch.testing.assert_close(gradient[1:], field(position[1:], entry[1:])[0])


def test_a_bound_that_is_given_comes_before_the_likelihoods_own() -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        return log_likelihood(w, batch)

    likelihood.bound = 0.0  # pyright: ignore[reportFunctionMemberAccess]
    for given, bound in ((2.0, 2.0), (0, 0.0), (None, 0.0)):
        target = ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64), bound=given)
        assert (target.bound, target.data_sum.bound, target.stops_early) == (bound, bound, True)
    plain = logistic()
    assert (plain.bound, plain.data_sum.bound, plain.stops_early) == (None, None, False)


@pytest.mark.parametrize("bad", [0, 3, 6, 9])
def test_an_impossible_example_is_named_by_its_number(bad: int) -> None:
    data = torch.zeros(10, dtype=F64)
    data[bad] = torch.inf
    with pytest.raises(BadInput, match=f"the log likelihood of example {bad} is -inf at the start"):
        ggmc.DataDensity(log_prior, lambda w, x: w.sum() - x, data, torch.zeros(3, dtype=F64))
