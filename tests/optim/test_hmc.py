"""HMC in a training loop: trajectories only, tested by default."""

from __future__ import annotations

import math

import pytest
import torch

from ggmc import optim
from ggmc.errors import BadInput
from tests.support.training import F64, N, compute_gradient, net, steps, total


def test_a_step_needs_a_trajectory_and_a_test_is_the_default() -> None:
    module = net()
    optimiser = optim.HMC(module, lr=1e-4, num_data=N, seed=0)
    compute_gradient(module, optimiser, 0)
    with pytest.raises(BadInput, match=r"HMC draws its momentum where a trajectory begins: begin_trajectory\(\)"):
        optimiser.step()
    optimiser.begin_trajectory()
    steps(module, optimiser, 2)
    with pytest.raises(BadInput, match="reject=True needs the potential at the end"):
        optimiser.end_trajectory()
    assert math.isfinite(optimiser.end_trajectory(total(module)).log_accept)


def test_the_momentum_is_drawn_afresh_for_each_trajectory() -> None:
    points = torch.zeros(200_000, dtype=F64, requires_grad=True)
    optimiser = optim.HMC([points], lr=0.01, num_data=N, temperature=0.5, seed=0)
    points.grad = torch.zeros_like(points)
    drawn = []
    for _ in range(2):
        optimiser.begin_trajectory()
        drawn.append(optimiser.momenta.clone())
        optimiser.step()
        optimiser.end_trajectory(lambda: 0.0)
    assert drawn[1].var().item() == pytest.approx(0.5, rel=5 * math.sqrt(2 / len(points)))
    assert abs(torch.corrcoef(torch.stack(drawn))[0, 1].item()) < 5 / math.sqrt(len(points))
