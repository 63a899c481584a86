"""The early stop of the sum over the data: it changes no decision, whatever the bound and the temperature."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, constraints

import ggmc
from ggmc.errors import BadInput
from tests.support.logistic import examples, log_likelihood, log_prior, logistic, rows

F64 = torch.float64


def shifted(bound: float, shift: float) -> ggmc.DataDensity:
    """Logistic regression with a constant added to every term."""
    return ggmc.DataDensity(
        log_prior, lambda w, b: log_likelihood(w, b) + shift, examples(400), torch.zeros(3, dtype=F64), bound=bound
    )


def decisions(bound: float, shift: float, temperature: float, stop: bool) -> Tensor:
    target = shifted(bound, shift)
    kernel = ggmc.GGMC(0.1, 0.5, 4, guide=ggmc.Minibatch(100, "iid"), mass=[2.0, 1.0, 3.0], temperature=temperature)
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.early_stop = stop
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(2, 3, dtype=F64), generator)
    seen = []
    for _ in range(80):
        state, info = sampler.step(state, sampler.parameters, generator)
        assert state.potential is not None
        seen.append(torch.cat([state.position.flatten(), state.potential, info.accepted.double()]))
    return torch.stack(seen)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize(("bound", "shift"), [(0.0, 0.0), (2.0, 2.0)])
def test_the_early_stop_changes_nothing_whatever_bound_and_temperature(
    bound: float, shift: float, temperature: float
) -> None:
    one, other = (decisions(bound, shift, temperature, stop) for stop in (True, False))
    assert torch.equal(one, other)
    assert 0.02 < other[:, -2:].mean() < 0.98


@pytest.mark.parametrize("bound", [-1.0, 0.0, 2.0])
def test_a_stopped_sum_lies_between_limit_and_potential(bound: float) -> None:
    target = shifted(bound, bound)
    position = rows(40)
    exact = target.potential(position)
    for below in (-50.0, -1.0, -1e-3, 1e-3, 1.0, 50.0):
        found = target.potential(position, exact + below)
        if below > 0:
            assert torch.equal(found, exact)
        else:
            assert (found > exact + below).all()
            assert (found <= exact + 1e-9 * exact.abs()).all()


def test_a_sum_stops_only_by_more_than_rounding() -> None:
    """Terms that are all exactly at the bound but the first: the least that the sum can be is the sum itself."""
    data = torch.zeros(400, dtype=F64)
    data[0] = 1.0
    read = 0

    def log_likelihood(w: Tensor, batch: Tensor) -> Tensor:
        nonlocal read
        read += len(batch)
        return -batch * 1000 - 0 * w.sum()

    target = ggmc.DataDensity(
        lambda w: -(w**2).sum(), log_likelihood, data, torch.zeros(1, dtype=F64), bound=0.0, vectorise=False
    )
    position = torch.ones(1, 1, dtype=F64)
    for below, expected in ((1e-10, 400), (1.0, 20)):
        read = 0
        target.potential(position, torch.tensor([1001.0 - below], dtype=F64))
        assert read == expected


def test_a_term_above_its_bound_is_found_wherever_it_is() -> None:
    for place in (0, 50, 102):
        data = torch.zeros(103, dtype=F64)
        data[place] = 1.0
        target = ggmc.DataDensity(
            lambda w: -(w**2).sum(), lambda w, b: b * w.sum(), data, torch.zeros(1, dtype=F64), bound=0.0
        )
        with pytest.raises(BadInput, match="above its declared bound"):
            target.potential(torch.ones(1, 1, dtype=F64))


# Every way to the same sum


def test_every_path_to_the_potential_carries_the_jacobian() -> None:
    y = torch.randn(40, dtype=F64, generator=torch.Generator().manual_seed(0))
    start = {"mu": torch.zeros((), dtype=F64), "sigma": torch.ones((), dtype=F64)}

    def prior(p: Any) -> Tensor:
        return Normal(0, 2).log_prob(p["mu"]) - p["sigma"]

    def likelihood(p: Any, batch: Tensor) -> Tensor:
        return Normal(p["mu"], p["sigma"]).log_prob(batch)

    bounds = {"sigma": constraints.positive}
    whole = ggmc.Density(lambda p: prior(p) + likelihood(p, y).sum(), start, bounds)
    position = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(2)) / 2
    potential, gradient = whole.potential_and_gradient(position)
    for bound in (None, 10.0):
        target = ggmc.DataDensity(prior, likelihood, y, start, bounds, bound=bound)
        torch.testing.assert_close(target.potential(position), potential)
        torch.testing.assert_close(target.potential_and_gradient(position)[0], potential)
        torch.testing.assert_close(target.potential_and_gradient(position)[1], gradient)
        for size in (7, 40):
            field: Any = ggmc.Minibatch(size).bind(target)
            each = [field(position, torch.full((5,), j))[0] for j in range(field.epoch)]
            torch.testing.assert_close(torch.stack(each).mean(0), gradient)


def test_sums_of_float32_terms_are_float64() -> None:
    x, s = examples(20_003, torch.float32)
    target = logistic(20_003, torch.float32)
    for w, found in zip(rows(dtype=torch.float32), target.potential(rows(dtype=torch.float32)), strict=True):
        terms = log_likelihood(w, (x, s))
        exact = math.fsum([-log_prior(w).item(), *(-terms.double()).tolist()])
        assert abs(found.item() - exact) < 1e-4
