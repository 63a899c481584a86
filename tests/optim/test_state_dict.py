"""Saved state, restored bit for bit."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ggmc import optim
from ggmc.errors import NotExact
from ggmc.sampling.checkpoint import from_bytes, to_bytes
from tests.support.training import N, compute_gradient, ggmc, halves, net, steps, total, values


def _through_a_file(state: Any, checkpoint: bool) -> Any:
    if checkpoint:
        return from_bytes(to_bytes({"state": state}))["state"]
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


def _go_on(module: nn.Module, optimiser: Any, scheduler: Any, reject: bool) -> list[Tensor]:
    steps(module, optimiser, 2, first=3)
    infos = []
    if not isinstance(optimiser, optim.SGLD):
        compute_gradient(module, optimiser, 5)  # used by OBABO
        infos = [optimiser.end_trajectory(total(module), reject=reject)]
        optimiser.begin_trajectory()
        steps(module, optimiser, 4)
        compute_gradient(module, optimiser, 4)
        scheduler.step()
        infos.append(optimiser.end_trajectory(total(module), reject=reject))
    return [values(module), optimiser.momenta.clone(), *(x.log_accept for x in infos)]


@pytest.mark.parametrize("grouped", [False, True], ids=["one group", "two groups"])
@pytest.mark.parametrize("order", ["module first", "optimiser first", "assign"])
@pytest.mark.parametrize("kind", [optim.GGMC, "O(ABA)O", "OBABO", optim.HMC, optim.SGHMC, optim.SGLD])
@pytest.mark.parametrize("checkpoint", [False, True], ids=["torch.save", "checkpoint"])
def test_state_survives_bit_for_bit_in_mid_trajectory(kind: Any, order: str, grouped: bool, checkpoint: bool) -> None:
    def groups(module: nn.Sequential) -> Any:
        return halves(module, {"lr": 0.02}, {"weight_decay": 0.2}) if grouped else module

    def make(seed: int) -> tuple[nn.Module, Any, Any]:
        module = net(seed).to(torch.float32)
        if isinstance(kind, str):
            optimiser: Any = ggmc(groups(module), scheme=kind, weight_decay=0.1, seed=seed)
        else:
            optimiser = kind(groups(module), lr=0.01, num_data=N, weight_decay=0.1, seed=seed)
        return module, optimiser, torch.optim.lr_scheduler.StepLR(optimiser, 1)

    module, optimiser, scheduler = make(0)
    if kind is not optim.SGLD:
        optimiser.begin_trajectory(total(module))
    steps(module, optimiser, 3)
    saved = _through_a_file([part.state_dict() for part in (module, optimiser, scheduler)], checkpoint)
    reject = kind not in (optim.SGHMC, optim.SGLD)
    expected = _go_on(module, optimiser, scheduler, reject)

    again, other, timer = make(1)
    if order == "optimiser first":
        other.load_state_dict(saved[1])
    again.load_state_dict(saved[0], assign=order == "assign")
    if order != "optimiser first":
        if order == "assign":  # the optimiser was made of the parameters before
            again, other, timer = make(1)
            for p, value in zip(again.parameters(), saved[0].values(), strict=True):
                p.data = value
        other.load_state_dict(saved[1])
    timer.load_state_dict(saved[2])
    torch.manual_seed(123)
    for a, b in zip(_go_on(again, other, timer, reject), expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("scheme", ["OABAO", "OBABO"])
def test_a_trajectory_saved_after_its_last_step_ends_as_it_would_have(scheme: str, every: int) -> None:
    module, again = net(0), net(1)
    optimiser, other = (ggmc(m, scheme=scheme, friction_every=every, seed=i) for i, m in enumerate((module, again)))
    optimiser.begin_trajectory(total(module))
    steps(module, optimiser, 4)
    saved = _through_a_file([part.state_dict() for part in (module, optimiser)], checkpoint=False)
    again.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    ends: list[list[Tensor]] = []
    for m, o in ((module, optimiser), (again, other)):
        compute_gradient(m, o, 4)  # used by OBABO
        info = o.end_trajectory(total(m), reject=True)
        ends.append([info.log_accept, values(m), o.momenta.clone()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_rates_from_before_it_was_saved_still_count() -> None:
    module, again = net(0), net(1)
    optimiser, other = ggmc(module), ggmc(again)
    optimiser.begin_trajectory(total(module))
    steps(module, optimiser, 2)
    again.load_state_dict(module.state_dict())
    other.load_state_dict(_through_a_file(optimiser.state_dict(), checkpoint=True))
    other.param_groups[0]["lr"] = 0.005
    steps(again, other, 2, first=2)
    with pytest.raises(NotExact, match=r"number 1 of 5 is 0\.01, but number 1 from the end is 0\.005"):
        other.end_trajectory(total(again), reject=True)


def test_saved_state_does_not_change_with_the_run() -> None:
    module = net()
    optimiser = ggmc(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    saved = optimiser.state_dict()
    before = _through_a_file(saved, checkpoint=False)
    steps(module, optimiser, 2)
    assert torch.equal(saved["sampler"]["momentum"][0], before["sampler"]["momentum"][0])
    assert torch.equal(saved["sampler"]["trajectory"]["work"], before["sampler"]["trajectory"]["work"])


def test_torch_s_seed_is_enough_to_repeat_a_run() -> None:
    found = []
    for _ in range(2):
        module = net(3)
        optimiser = ggmc(module, seed=None)
        steps(module, optimiser, 3)
        found.append(values(module))
    assert torch.equal(*found)
