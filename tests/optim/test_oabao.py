"""Schemes whose parameters wait at midpoints: work, and the way back."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from ggmc.optim.chain import PART, product
from tests.support.training import F64, compute_gradient, ggmc, halves, net, steps, total, values


def test_work_is_the_kinetic_energy_that_the_kicks_added() -> None:
    module = net(dtype=torch.float32)
    optimiser = ggmc(module, lr=0.003, weight_decay=0.1, scheme="OABAO")
    optimiser.begin_trajectory()
    added = 0.0
    for k in range(10):
        before = optimiser.momenta.double().square().sum() / 2
        steps(module, optimiser, 1, k)
        kicked = optimiser._chain.momentum_before_friction
        added += (kicked.double().square().sum() / 2 - before).item()
    info = optimiser.end_trajectory()
    assert info.work.dtype == F64
    assert info.work.item() == pytest.approx(added, rel=1e-5)
    assert math.isnan(info.log_accept)


def _travel(module: nn.Module, optimiser: Any, rates: list[float], tape: list[int]) -> float:
    """One trajectory; the first rate is that at the start."""
    group = optimiser.param_groups[0]
    group["lr"] = rates[0]
    optimiser.begin_trajectory()
    for rate, k in zip(rates[1:], tape[: len(rates) - 1], strict=True):
        group["lr"] = rate
        steps(module, optimiser, 1, k)
    if len(tape) == len(rates):  # the last gradient of OBABO
        compute_gradient(module, optimiser, tape[-1])
    return optimiser.end_trajectory(total(module)).energy_error.item()


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O"])
@pytest.mark.parametrize("rates", [[0.02] * 5, [0.01, 0.02, 0.03, 0.02, 0.01]])
def test_the_way_back_retraces_the_way_there(rates: list[float], scheme: str) -> None:
    module = net()
    optimiser = ggmc(module, momentum=1.0, weight_decay=0.1, scheme=scheme)
    there = _travel(module, optimiser, rates, [0, 1, 2, 3])
    optimiser.momenta.neg_()
    back = _travel(module, optimiser, rates, [3, 2, 1, 0])
    assert torch.allclose(values(module), values(net()), rtol=0, atol=1e-12)
    assert back == pytest.approx(-there, abs=1e-10)


def test_rates_that_differ_backwards_do_not_retrace() -> None:
    module = net()
    optimiser = ggmc(module, momentum=1.0)
    for tape in ([0, 1, 2], [2, 1, 0]):
        _travel(module, optimiser, [0.01, 0.01, 0.02, 0.01], tape)
        optimiser.momenta.neg_()
    assert (values(module) - values(net())).abs().max() > 1e-4


@pytest.mark.parametrize("rates", [[9.0] + [0.02] * 4, [9.0, 0.01, 0.03, 0.03, 0.01]])
def test_obabo_retraces_too_whatever_the_rate_at_the_start(rates: list[float]) -> None:
    module = net()
    optimiser = ggmc(module, momentum=1.0, weight_decay=0.1, scheme="OBABO")
    there = _travel(module, optimiser, rates, [0, 1, 2, 3, 4])
    assert (values(module) - values(net())).abs().max() > 1e-3
    optimiser.momenta.neg_()
    back = _travel(module, optimiser, rates, [4, 3, 2, 1, 0])
    assert torch.allclose(values(module), values(net()), rtol=0, atol=1e-12)
    assert back == pytest.approx(-there, abs=1e-10)


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_groups_whose_ratio_changes_there_and_back_retrace(scheme: str) -> None:
    """Each group's rates read the same backwards, though not in proportion to the other's."""
    module = net()
    optimiser = ggmc(halves(module, {}, {}), momentum=1.0, weight_decay=0.1, scheme=scheme)
    one, other = (0.01, 0.04), (0.02, 0.01)
    path = [one, other, one] if scheme == "OBABO" else [other, one, one, other]
    errors = []
    for tape in ([0, 1, 2, 3], [3, 2, 1, 0]):
        batches = iter(tape if scheme == "OBABO" else tape[:3] if tape[0] == 0 else tape[1:])
        _set_rates(optimiser, path[0])
        optimiser.begin_trajectory()
        for rates in path if scheme == "OBABO" else path[1:]:
            _set_rates(optimiser, rates)
            steps(module, optimiser, 1, next(batches))
        compute_gradient(module, optimiser, next(batches, 0))  # used by OBABO
        errors.append(optimiser.end_trajectory(total(module)).energy_error.item())
        assert optimiser.not_testable is None
        optimiser.momenta.neg_()
    assert torch.allclose(values(module), values(net()), rtol=0, atol=1e-12)
    assert errors[1] == pytest.approx(-errors[0], abs=1e-10)


def _set_rates(optimiser: Any, rates: tuple[float, float]) -> None:
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        group["lr"] = rate


def test_work_from_the_ends_and_kick_by_kick_agree_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kicks alone change the momentum, so their work is the difference of two kinetic energies, up to rounding.

    Rounding the momentum at each kick adds an error of at most eps/2 · |m| per coordinate, of either sign: over all
    coordinates and steps a standard deviation of at most eps/√12 · √(steps · Σm⁴). Six of them are allowed.
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(100, 300), nn.Tanh(), nn.Linear(300, 100), nn.Tanh(), nn.Linear(100, 1))
    x = torch.randn(50, 100)
    optimiser = ggmc(module, lr=1e-3, num_data=1000, scheme="O(ABA)O")
    optimiser.begin_trajectory()
    work, kick = torch.zeros((), dtype=F64), optimiser._chain.kick
    monkeypatch.setattr(optimiser._chain, "kick", lambda force, time, ratios, _: kick(force, time, ratios, work))
    number = 50
    for _ in range(number):
        optimiser.zero_grad()
        module(x).square().mean().backward()
        optimiser.step()
    info = optimiser.end_trajectory()
    assert abs(work.item()) > 1
    eps = torch.finfo(torch.float32).eps
    rounding = eps / math.sqrt(12) * math.sqrt(number * optimiser.momenta.double().pow(4).sum().item())
    # The kick is made in two halves here, so that there are twice as many roundings.
    assert info.work.item() == pytest.approx(work.item(), abs=6 * math.sqrt(2) * rounding)


@pytest.mark.parametrize(
    ("options", "steps_of_friction"), [({}, 1), ({"friction_every": 2}, 2), ({"scheme": "O(ABA)O"}, 4)]
)
def test_friction_at_the_ends_acts_before_the_next_trajectory(options: Any, steps_of_friction: int) -> None:
    module = net()
    optimiser = ggmc(module, temperature=0.0, **options)
    optimiser.begin_trajectory()
    steps(module, optimiser, 4)
    optimiser.end_trajectory()
    momentum = optimiser.momenta.clone()
    assert momentum.abs().max() > 0
    optimiser.begin_trajectory()
    torch.testing.assert_close(optimiser.momenta, 0.9**steps_of_friction * momentum)


def test_the_parts_of_a_long_product_are_summed_in_float64() -> None:
    """2²⁴ + 1 is not a number of float32."""
    a, b = torch.zeros(2, 2 * PART + 7)
    a[0], a[PART], a[-1] = 2.0**12, 1.0, 3.0
    b[0], b[PART], b[-1] = 2.0**12, -1.0, 4.0
    assert product(a, a).item() == 2.0**24 + 10
    assert product(a, b).item() == 2.0**24 + 11
    assert product(a[: PART + 1], a[: PART + 1]).item() == 2.0**24 + 1
    assert product(a[-3:], b[-3:]).item() == 12
