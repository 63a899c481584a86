"""SGLD in a training loop: one meaning of the learning rate."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ggmc import optim
from ggmc.errors import NotExact
from tests.support.training import F64, N, compute_gradient, ggmc, halves, net, steps, values


def test_sgld_is_ggmc_with_momentum_0() -> None:
    """ℓ = N h² for both: the same drift per step, and the same noise per step."""
    ours, theirs = net(), net()
    steps(ours, optim.SGLD(ours, lr=0.02, num_data=N, temperature=0.0, weight_decay=0.1), 50)
    steps(theirs, ggmc(theirs, lr=0.02, momentum=0.0, temperature=0.0, weight_decay=0.1), 50)
    assert torch.allclose(values(ours), values(theirs), rtol=0, atol=1e-12)

    number, found = 200_000, []
    for kind in (optim.SGLD, optim.GGMC):
        points = torch.zeros(number, dtype=F64, requires_grad=True)
        momentum: Any = {} if kind is optim.SGLD else {"momentum": 0.0}
        optimiser = kind([points], lr=0.02, num_data=N, temperature=0.3, seed=0, **momentum)
        points.grad = torch.zeros_like(points)
        for _ in range(100):
            optimiser.step()
        found.append(points.detach().var().item())
    expected = 100 * 0.02 * 0.3 / N
    assert found[0] == pytest.approx(expected, rel=5 * math.sqrt(2 / number))
    # A step of GGMC begins with half of one momentum and ends with half of another: half a step's noise is to come.
    assert found[1] == pytest.approx(expected * 99.5 / 100, rel=5 * math.sqrt(2 / number))


def test_the_update_in_one_line() -> None:
    module = net()
    optimiser = optim.SGLD(halves(module, {"lr": 0.01}, {"weight_decay": 0.2}), lr=0.03, num_data=N, temperature=0.7)
    compute_gradient(module, optimiser, 0)
    gradient = torch.cat([p.grad.flatten() for p in module.parameters()])  # pyright: ignore
    before = values(module)
    optimiser._chain.generator.manual_seed(7)
    optimiser.step()
    noise = torch.randn(21, dtype=F64, generator=torch.Generator().manual_seed(7))
    rate = torch.tensor([0.01] * 16 + [0.03] * 5, dtype=F64)
    decay = torch.tensor([0.0] * 16 + [0.2] * 5, dtype=F64)
    expected = before - rate / 2 * (gradient + decay * before) + (rate * 0.7 / N).sqrt() * noise
    assert torch.allclose(values(module), expected, rtol=0, atol=1e-12)


def test_trajectories_are_refused() -> None:
    optimiser = optim.SGLD(net(), lr=0.1, num_data=N)
    for act in (optimiser.begin_trajectory, optimiser.end_trajectory):
        with pytest.raises(NotExact, match=r"ggmc\.optim\.GGMC\(momentum=0\), its reversible form, or ggmc\.MALA"):
            act()
