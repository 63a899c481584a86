"""Trajectories begun, ended, tested and refused."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import torch
from torch import nn

from ggmc import optim
from ggmc.errors import BadInput, NotExact
from tests.support.training import N, compute_gradient, ggmc, halves, loss, net, steps, total, values


def test_a_rejection_restores_the_start_and_flips() -> None:
    module = net()
    optimiser = ggmc(module, lr=1.0, weight_decay=0.1)
    potential = total(module)
    optimiser.begin_trajectory(potential)
    start, momentum = optimiser._trajectory.position.clone(), optimiser._trajectory.momentum.clone()  # pyright: ignore
    steps(module, optimiser, 5)
    info = optimiser.end_trajectory(potential, reject=True)
    assert not info.accepted
    assert torch.equal(values(module), start)
    assert torch.equal(optimiser.momenta, -momentum)
    expected = potential().item() + N * 0.05 * start.square().sum().item()
    optimiser.begin_trajectory()
    assert optimiser._trajectory.potential.item() == pytest.approx(expected)  # pyright: ignore


def test_the_cached_potential_follows_the_weight_decay() -> None:
    module = net()
    optimiser = ggmc(module, weight_decay=0.1)
    potential = total(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.end_trajectory(potential)
    optimiser.param_groups[0]["weight_decay"] = 0.3
    expected = potential().item() + N * 0.15 * values(module).square().sum().item()
    optimiser.begin_trajectory()
    assert optimiser._trajectory.potential.item() == pytest.approx(expected)  # pyright: ignore


def test_a_divergence_is_put_back() -> None:
    module = net()
    optimiser = ggmc(module)
    for reject in (False, True):
        optimiser.begin_trajectory(total(module))
        steps(module, optimiser, 2)
        info = optimiser.end_trajectory(lambda: math.inf, reject=reject)
        assert (info.accepted.item(), info.diverging.item(), info.log_accept.item()) == (False, True, -math.inf)
        assert torch.equal(values(module), values(net()))


def _refused(optimiser: Any, error: Any, reason: str, *given: Any) -> None:
    before = optimiser._chain.position.clone()
    with pytest.raises(error, match=reason):
        optimiser.end_trajectory(*given, reject=True)
    assert torch.equal(optimiser._chain.position, before)
    optimiser.end_trajectory()  # and nothing is lost


@pytest.mark.parametrize("name", ["lr", "momentum", "temperature", "weight_decay", "num_data"])
def test_settings_that_change_along_a_trajectory_are_refused(name: str) -> None:
    module = net()
    optimiser = ggmc(module, weight_decay=0.1)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.param_groups[0][name] /= 2 if name != "num_data" else 1
    optimiser.param_groups[0]["num_data"] = N + (name == "num_data")
    steps(module, optimiser, 1)
    reason = "number 1 of 4 is 0.01, but number 1 from the end is 0.005" if name == "lr" else f"{name} changed along"
    _refused(optimiser, NotExact, reason, total(module))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(3), nn.Dropout(0.1)])
def test_layers_in_training_mode_are_refused(layer: nn.Module) -> None:
    module = nn.Sequential(layer, nn.Linear(3, 1)).double()
    optimiser = ggmc(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    module.eval()  # too late
    _refused(optimiser, NotExact, f"{type(layer).__name__} '0' was in training mode", total(module))
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.end_trajectory(total(module), reject=True)


def test_batchnorm_without_memory_may_be_tested_in_eval_mode() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3, track_running_stats=False), nn.Linear(3, 1)).double().eval()
    optimiser = ggmc(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)  # a batch's loss is a function of the parameters and of that batch
    assert math.isfinite(optimiser.end_trajectory(total(module), reject=True).log_accept)


def test_an_unknown_start_and_numbers() -> None:
    module = net()
    optimiser = ggmc(module, lr=1e-5)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    with pytest.raises(BadInput, match=r"half a step further, so 3\.0 is not the potential"):
        optimiser.end_trajectory(3.0)
    _refused(optimiser, BadInput, "needs the potential at the end")
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.rest()
    number = total(module)().item()
    with pytest.raises(BadInput, match="needs the potential at the start too"):
        optimiser.end_trajectory(number, reject=True)
    with pytest.raises(BadInput, match="call end_trajectory"):
        steps(module, optimiser, 1)
    assert math.isnan(optimiser.end_trajectory(number).log_accept)
    optimiser.begin_trajectory()  # now the start is known
    steps(module, optimiser, 2)
    optimiser.rest()
    assert abs(optimiser.end_trajectory(total(module)().item(), reject=True).log_accept) < 0.1
    steps(module, optimiser, 1)
    with pytest.raises(BadInput, match="half a step further"):
        optimiser.begin_trajectory(3.0)
    with pytest.raises(BadInput, match="begin at a potential of inf"):
        optimiser.begin_trajectory(lambda: math.inf)
    with pytest.raises(BadInput, match=r"must be one number.*got shape \(2,\)"):
        optimiser.begin_trajectory(torch.zeros(2))


def test_trajectories_out_of_order_are_refused() -> None:
    module = net()
    optimiser = ggmc(module)
    with pytest.raises(BadInput, match="no trajectory is under way"):
        optimiser.end_trajectory()
    optimiser.begin_trajectory()
    with pytest.raises(BadInput, match="a trajectory is under way"):
        optimiser.begin_trajectory()
    for act in (optimiser.end_trajectory, optimiser.rest):
        with pytest.raises(BadInput, match="no steps yet"):
            act()
    cold_module = net()
    cold = ggmc(cold_module, temperature=0.0)
    cold.begin_trajectory()
    steps(module, optimiser, 1)
    steps(cold_module, cold, 1)
    with pytest.raises(BadInput, match="temperature 0 is optimisation"):
        cold.end_trajectory(total(cold_module), reject=True)
    loss(module, 0).backward()
    with pytest.raises(BadInput, match="begin_trajectory"):
        optim.HMC(module, lr=0.1, num_data=N).step()
    sghmc = optim.SGHMC(module, lr=0.1, num_data=N)
    with pytest.raises(NotExact, match=r"Theorem 1.*Use ggmc.optim.GGMC"):
        sghmc.end_trajectory(reject=True)
    for act in (
        optim.SGLD(module, lr=0.1, num_data=N).begin_trajectory,
        optim.SGLD([*module.parameters()], 1, num_data=1).end_trajectory,
    ):
        with pytest.raises(NotExact, match="MALA"):
            act()


def test_an_interruption_while_ending_loses_nothing() -> None:
    module, other = net(), net()
    first, second = ggmc(module), ggmc(other)

    def interrupted() -> float:
        raise KeyboardInterrupt

    for one, optimiser in ((module, first), (other, second)):
        optimiser.begin_trajectory()
        steps(one, optimiser, 3)
    with pytest.raises(KeyboardInterrupt):
        first.end_trajectory(interrupted, reject=True)
    infos = [one.end_trajectory(total(m), reject=True) for one, m in ((first, module), (second, other))]
    assert infos[0] == infos[1]
    assert torch.equal(values(module), values(other))


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_rates_that_differ_backwards_have_no_valid_log_alpha(scheme: str, caplog: pytest.LogCaptureFixture) -> None:
    """A number that belongs to no valid test is not reported: −∞, with the reason."""
    module = net()
    optimiser = ggmc(module, scheme=scheme)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 10)
    for potential in (total(module), None, total(module)):
        optimiser.begin_trajectory()
        for k in range(3):
            steps(module, optimiser, 1, k)
            schedule.step()
        assert optimiser.not_testable is None  # the rate might still return
        compute_gradient(module, optimiser, 3)
        info = optimiser.end_trajectory(potential)
        assert (info.log_accept.item(), info.energy_error.item()) == (-math.inf, math.inf)
        assert info.accepted
        assert not info.diverging
        assert "must read the same backwards" in str(optimiser.not_testable)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1  # once for all in a row
    assert "no valid test, so log α is −∞: learning rates along a trajectory" in warnings[0].getMessage()
    optimiser.begin_trajectory()
    steps(module, optimiser, 3)
    compute_gradient(module, optimiser, 3)
    assert math.isfinite(optimiser.end_trajectory(total(module)).log_accept)
    assert optimiser.not_testable is None


def test_a_changed_ratio_between_groups_has_no_valid_test() -> None:
    module = net()
    optimiser = ggmc(halves(module, {"lr": 0.01}, {"lr": 0.02}))
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.param_groups[1]["lr"] = 0.01
    steps(module, optimiser, 1)
    reason = "number 1 of 4 of group 1 is 0.02, but number 1 from the end is 0.01"
    with pytest.raises(NotExact, match=reason):
        optimiser.end_trajectory(total(module), reject=True)
    assert optimiser.end_trajectory(total(module)).log_accept == -math.inf
    assert reason in str(optimiser.not_testable)


@pytest.mark.parametrize("scheme", ["OABAO", "OBABO"])
@pytest.mark.parametrize(("number", "testable"), [(2, True), (3, True), (4, False), (6, True), (7, False)])
def test_friction_every_three_steps_must_read_the_same_backwards(scheme: str, number: int, testable: bool) -> None:
    module = net()
    optimiser = ggmc(module, lr=1e-4, scheme=scheme, friction_every=3)
    optimiser.begin_trajectory()
    steps(module, optimiser, number)
    compute_gradient(module, optimiser, number)
    if testable:
        assert math.isfinite(optimiser.end_trajectory(total(module), reject=True).log_accept)
        return
    with pytest.raises(NotExact, match=f"the trajectory has {number} steps, with friction after each 3"):
        optimiser.end_trajectory(total(module), reject=True)
    assert optimiser.end_trajectory(total(module)).log_accept == -math.inf


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_a_step_between_trajectories_makes_the_cached_potential_unknown(scheme: str) -> None:
    module = net()
    optimiser = ggmc(module, scheme=scheme, weight_decay=0.1)
    potential = total(module)

    def trajectory() -> Any:
        optimiser.begin_trajectory()
        steps(module, optimiser, 2)
        compute_gradient(module, optimiser, 2)
        return optimiser.end_trajectory(potential)

    def energy() -> float:
        return potential().item() + N * 0.05 * values(module).square().sum().item()

    trajectory()
    steps(module, optimiser, 3)
    optimiser.rest()
    start = energy()
    info = trajectory()
    assert info.energy_error.item() == pytest.approx(energy() - start + info.work.item(), abs=1e-10)


def test_parameters_put_elsewhere_make_the_cached_potential_unknown() -> None:
    module = net()
    optimiser = ggmc(module)
    potential = total(module)
    for _ in range(2):
        start = potential().item()
        optimiser.begin_trajectory()
        steps(module, optimiser, 2)
        info = optimiser.end_trajectory(potential)
        assert info.energy_error.item() == pytest.approx(potential().item() - start + info.work.item(), abs=1e-10)
        with torch.no_grad():
            next(module.parameters()).mul_(2.0)


def test_the_end_of_obabo_needs_a_gradient_of_its_own() -> None:
    module = net()
    optimiser = ggmc(module, lr=1e-4, scheme="OBABO")
    optimiser.begin_trajectory(total(module)().item())  # the parameters are at θ: a number will do
    steps(module, optimiser, 3)
    before, momentum = values(module), optimiser.momenta.clone()
    with pytest.raises(BadInput, match=r"no gradient was computed since the last step: call zero_grad\(\) and"):
        optimiser.end_trajectory(total(module), reject=True)
    optimiser.zero_grad()
    with pytest.raises(BadInput, match="no gradient was computed since the last step"):
        optimiser.end_trajectory(total(module))
    optimiser.rest()  # nothing to do
    assert torch.equal(values(module), before)
    assert torch.equal(optimiser.momenta, momentum)  # and nothing is lost
    compute_gradient(module, optimiser, 3)
    kick = -math.sqrt(1e-4 / N) / 2 * N * torch.cat([p.grad.flatten() for p in module.parameters()])  # pyright: ignore
    info = optimiser.end_trajectory(total(module)().item(), reject=True)
    assert abs(info.log_accept) < 0.1
    assert info.accepted
    assert torch.equal(values(module), before)
    assert torch.allclose(optimiser.momenta, momentum + kick, rtol=0, atol=1e-14)


def test_the_end_of_obabo_knows_gradients_added_in_place() -> None:
    module = net()
    optimiser = ggmc(module, scheme="OBABO")
    optimiser.begin_trajectory()
    for k in range(3):
        optimiser.zero_grad(set_to_none=False)
        loss(module, k).backward()
        optimiser.step()
    with pytest.raises(BadInput, match="no gradient was computed"):
        optimiser.end_trajectory()
    optimiser.zero_grad(set_to_none=False)
    loss(module, 3).backward()
    optimiser.end_trajectory()


def test_obabo_interrupted_while_ending_makes_its_last_half_kick_once() -> None:
    module, other = net(), net()
    first, second = ggmc(module, scheme="OBABO"), ggmc(other, scheme="OBABO")

    def interrupted() -> float:
        raise KeyboardInterrupt

    for one, optimiser in ((module, first), (other, second)):
        optimiser.begin_trajectory()
        steps(one, optimiser, 3)
        compute_gradient(one, optimiser, 3)
    with pytest.raises(KeyboardInterrupt):
        first.end_trajectory(interrupted, reject=True)
    with pytest.raises(BadInput, match=r"brought to its end already: call end_trajectory\(\)"):
        first.step()
    infos = [one.end_trajectory(total(m), reject=True) for one, m in ((first, module), (second, other))]
    assert infos[0] == infos[1]
    assert torch.equal(first.momenta, second.momenta)


def test_a_refusal_names_what_changed_from_and_to() -> None:
    for name, groups, change in (
        ("weight_decay", ({}, {}), r"from \(0\.1, 0\.1\) to \(0\.1, 0\.05\)"),
        ("momentum", ({}, {}), r"from 0\.9 to 0\.45"),
    ):
        module = net()
        optimiser = ggmc(halves(module, *groups), weight_decay=0.1)
        optimiser.begin_trajectory()
        steps(module, optimiser, 1)
        for group in optimiser.param_groups[1 if name == "weight_decay" else 0 :]:
            group[name] /= 2
        steps(module, optimiser, 1)
        with pytest.raises(NotExact, match=f"{name} changed along the trajectory, {change}: change it between"):
            optimiser.end_trajectory(total(module), reject=True)
