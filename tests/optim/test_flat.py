"""Parameters as one vector: gradients, memory formats, and what other code writes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ggmc.errors import BadInput, NotExact
from tests.support.training import F64, ggmc, loss, net, steps, total, values


def _none(module: nn.Module, optimiser: Any) -> None:
    module.zero_grad()


def _kept(module: nn.Module, optimiser: Any) -> None:
    optimiser.zero_grad(set_to_none=False)


def _replaced(module: nn.Module, optimiser: Any) -> None:
    for p in module.parameters():
        p.grad = torch.zeros_like(p)


@pytest.mark.parametrize("clear", [_none, _kept, _replaced])
def test_whoever_clears_the_gradients_the_steps_are_the_same(clear: Any) -> None:
    module = net()
    optimiser = ggmc(module)
    for k in range(5):
        clear(module, optimiser)
        loss(module, k).backward()
        optimiser.step()
    expected = net()
    steps(expected, ggmc(expected), 5)
    assert torch.equal(values(module), values(expected))


def test_closure_scaler_and_clipping() -> None:
    module, expected = net(), net()
    optimiser, other = ggmc(module), ggmc(expected)

    def closure() -> Tensor:
        optimiser.zero_grad()
        found = loss(module, 0)
        found.backward()
        return found

    assert optimiser.step(closure) == loss(expected, 0)
    scaler: Any = torch.amp.GradScaler("cpu", init_scale=8.0)  # pyright: ignore[reportPrivateImportUsage]
    scaler.scale(loss(expected, 0)).backward()
    scaler.unscale_(other)
    nn.utils.clip_grad_norm_(expected.parameters(), 1e6)
    scaler.step(other)
    assert torch.allclose(values(module), values(expected), rtol=0, atol=1e-14)


def test_a_step_leaves_the_gradients_alone() -> None:
    module = net()
    optimiser = ggmc(module, weight_decay=0.5)
    loss(module, 0).backward()
    before = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    optimiser.step()
    assert all(torch.equal(p.grad, g) for p, g in zip(module.parameters(), before, strict=True))  # pyright: ignore


def test_frozen_tied_and_unused_parameters() -> None:
    module: Any = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1)).double()
    module[1].weight = module[0].weight
    module[2].bias.requires_grad_(False)
    module.unused = nn.Parameter(torch.zeros(2, dtype=F64))
    frozen = module[2].bias.clone()
    optimiser = ggmc([*module.parameters(), module[1].weight])
    assert len(optimiser.momenta) == 9 + 3 + 3 + 3 + 2
    steps(module, optimiser, 2)
    assert torch.equal(module[2].bias, frozen)
    assert module[0].weight is module[1].weight
    assert module.unused.abs().min() > 0  # its law is the prior's: it moves too
    module[0].weight.requires_grad_(False)
    with pytest.raises(BadInput, match="frozen after the optimiser was made"):
        steps(module, optimiser, 1)


def test_memory_formats_stay() -> None:
    module = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    expected = nn.Conv2d(3, 4, 3)
    expected.load_state_dict(module.state_dict())
    image = torch.randn(2, 3, 8, 8)
    for one in (module, expected):
        optimiser = ggmc(one, temperature=0.0)
        one(image).square().mean().backward()
        optimiser.step()
    assert module.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(module.weight, expected.weight, atol=1e-6)


@pytest.mark.parametrize("way", ["in place", "load", "rebind"])
def test_values_written_by_others_are_taken_up(way: str) -> None:
    module, given = net(), net(5)
    optimiser = ggmc(module)
    potential = total(module)
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    optimiser.end_trajectory(potential)
    if way == "load":
        module.load_state_dict(given.state_dict())
    for p, q in zip(module.parameters(), given.parameters(), strict=True):
        if way == "in place":
            with torch.no_grad():
                p.copy_(q)
        elif way == "rebind":
            p.data = q.detach().clone()
    optimiser.begin_trajectory()
    assert torch.equal(optimiser._trajectory.position, values(given))  # pyright: ignore
    assert optimiser._trajectory.potential is None  # pyright: ignore  # that of the old values is of no use
    steps(module, optimiser, 2)
    with torch.no_grad():
        next(module.parameters()).clamp_(-0.1, 0.1)
    with pytest.raises(NotExact, match="other code wrote to the parameters"):
        optimiser.end_trajectory(potential, reject=True)
    with pytest.raises(BadInput, match="move the module first"):
        optimiser.end_trajectory(total(module.float()))


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O"])
def test_values_written_at_a_midpoint_are_where_the_chain_is(scheme: str) -> None:
    """After plain steps the parameters are half a step further; what other code writes there is θ itself."""
    module, given = net(), net(5)
    optimiser = ggmc(module, scheme=scheme)
    steps(module, optimiser, 3)
    module.load_state_dict(given.state_dict())
    optimiser.rest()
    assert torch.equal(values(module), values(given))
    steps(module, optimiser, 3)
    with torch.no_grad():
        for p, q in zip(module.parameters(), given.parameters(), strict=True):
            p.copy_(q)
    optimiser.begin_trajectory()
    assert torch.equal(optimiser._trajectory.position, values(given))  # pyright: ignore
