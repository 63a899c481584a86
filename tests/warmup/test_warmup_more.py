"""Warm-up of networks, and at temperatures of its own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ggmc
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.scheme import Dynamics
from ggmc.kernels.ggmc import start_state
from ggmc.warmup import Warmup
from tests.support.posteriors import (
    NORMAL,
    inputs,
    line,
    outcomes,
)

F64 = torch.float64


def test_large_networks_take_the_priors_mass() -> None:
    torch.manual_seed(0)
    target = ggmc.Posterior(nn.Linear(2, 400).double(), "gaussian", NORMAL, inputs(), inputs(12, 400))
    warmup = Warmup(ggmc.GGMC(), target, 10)
    assert torch.equal(warmup.mass.velocity_variance(), target.mass().velocity_variance())
    small = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    assert isinstance(Warmup(ggmc.GGMC(), small, 10).mass, Identity)


@pytest.mark.parametrize("steps", [None, 3])
def test_an_annealed_warm_up_decides_at_its_own_temperature(steps: int | None) -> None:
    target = ggmc.Density(lambda x: (x**2).sum() / -2, torch.zeros(5, dtype=F64))
    warmup = Warmup(ggmc.GGMC(steps=steps), target, 100, anneal=8.0)
    generator = torch.Generator().manual_seed(0)
    at_rest = Dynamics(0.0, 0.0, 8.0, Identity())
    state = start_state(target, warmup.field, torch.ones(4, 5, dtype=F64), at_rest, generator)
    for _ in range(3):
        temperature = warmup.temperature
        assert temperature > 6
        state, info = warmup.step(state, generator)
        assert torch.allclose(info.log_accept, -info.energy_error / temperature)
