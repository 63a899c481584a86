"""SGHMC in a training loop: no test, and AMAGOLD's positions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc import optim
from ggmc.dynamics.letters import LETTERS, Motion
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.state import Parameters, State
from ggmc.errors import NotExact
from tests.support.training import F64, N, net, steps, total


def test_log_alpha_is_minus_infinity_with_the_reason() -> None:
    module = net()
    optimiser = optim.SGHMC(module, lr=0.01, num_data=N)
    for potential in (None, total(module)):
        optimiser.begin_trajectory()
        steps(module, optimiser, 2)
        info = optimiser.end_trajectory(potential)
        assert (info.log_accept.item(), info.energy_error.item()) == (-math.inf, math.inf)
        assert info.accepted
        assert "Theorem 1" in str(optimiser.not_testable)
    for under_way in (False, True):
        if under_way:
            optimiser.begin_trajectory()
            steps(module, optimiser, 1)
        with pytest.raises(NotExact, match=r"in \(θ, m\).*Theorem 1.*Use ggmc.optim.GGMC, or ggmc.AMAGOLD"):
            optimiser.end_trajectory(total(module), reject=True)


class Cubic:
    """The gradient x³ + 1."""

    def __call__(self, position: Tensor, entry: Any) -> tuple[Tensor, None]:
        return position**3 + 1, None


def test_its_positions_are_those_of_amagold_at_its_kick_points() -> None:
    """c = γh/(2 − γh), h' = h√(1 + c), m = p/√(1 + c): the word AC A of half drifts around the letter C, same noise."""
    lr, beta, temperature = 0.09, 0.7, 0.8
    h, lost = math.sqrt(lr), 1 - beta
    c = lost / (2 - lost)
    wide = h * math.sqrt(1 + c)
    point = torch.tensor([0.3], dtype=F64, requires_grad=True)
    optimiser = optim.SGHMC([point], lr=lr, momentum=beta, num_data=1, temperature=temperature, seed=0)
    draws = torch.Generator().manual_seed(0)
    noise = [torch.empty(1, dtype=F64).normal_(generator=draws) for _ in range(51)]
    momentum = math.sqrt(temperature) * noise.pop(0)
    parameters = Parameters.of(wide, 2 * c / wide, temperature, Identity())
    state = State(point.detach().clone()[None], momentum[None] / math.sqrt(1 + c))
    field: Any = Cubic()
    path = Motion(state, parameters, field, None, lambda: noise.pop(0)[None])
    kick, drift = LETTERS["C"], LETTERS["A"]
    for _ in range(50):
        assert point.item() == pytest.approx(path.position.item(), abs=1e-12)
        point.grad = (point**3 + 1).detach()
        optimiser.step()
        kick.apply(path, kick.prepare(1.0, 1.0, parameters, path.position))
        drift.apply(path, drift.prepare(1.0, 1.0, parameters, path.position))
    assert optimiser.momenta.item() == pytest.approx(path.momentum.item() * math.sqrt(1 + c), abs=1e-12)
    assert math.isfinite(path.work)
