"""AMAGOLD against its equation and the densities of its steps, and its limits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from experiments.linear import stationary_covariance
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.scheme import Scheme
from ggmc.dynamics.state import Parameters, State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import BadInput
from tests.support.invariance import noisy_funnel, noisy_quartic, violations
from tests.support.kernels import MASS, begin, gaussian

F64 = torch.float64


def test_it_is_its_equation_and_its_ratio_of_densities() -> None:
    """Written out once more, with the two Gaussian densities themselves in place of the work."""
    target: Any = noisy_funnel().target
    h, friction, temperature = 0.3, 1.3, 0.7
    c, inverse = friction * h / 2, torch.linalg.inv(MASS)
    generator = torch.Generator().manual_seed(0)
    position, momentum = torch.randn(2, 4, 2, dtype=F64, generator=generator)
    start = State(position, momentum)
    noise = list(torch.randn(3, 4, 2, dtype=F64, generator=generator))
    kernel = ggmc.AMAGOLD(h, friction, 3, ggmc.Minibatch(4, "iid"), temperature, MASS)
    field = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    tape = field.tape(3, 4, generator)
    assert tape is not None
    path = Trajectory(start, sampler.parameters, field, tape, iter(noise).__next__)
    path.run(sampler.scheme.plan(3).moves)

    def square(m: Tensor) -> Tensor:
        return torch.einsum("ci,ij,cj->c", m, inverse, m)

    log_ratio = torch.zeros(4, dtype=F64)
    for entry, epsilon in zip(tape, noise, strict=True):
        position = position + h / 2 * momentum @ inverse
        g = field(position, entry)[0]
        before = momentum
        used = math.sqrt(4 * c * temperature) * epsilon @ torch.linalg.cholesky(MASS).mT
        momentum = ((1 - c) * momentum - h * g + used) / (1 + c)
        back = -(1 + c) * before + (1 - c) * momentum + h * g
        log_ratio += (square(used) - square(back)) / (2 * 4 * c * temperature)
        position = position + h / 2 * momentum @ inverse
    torch.testing.assert_close(path.position, position)
    torch.testing.assert_close(path.momentum, momentum)
    kinetic = (square(momentum) - square(start.momentum)) / 2
    torch.testing.assert_close(-path.work / temperature, log_ratio - kinetic / temperature)


def test_without_friction_it_is_leapfrog() -> None:
    target = noisy_funnel().target
    one, other = (
        begin(replace(kernel, temperature=0.0, adjust=False), target)
        for kernel in (ggmc.AMAGOLD(0.1, 0.0, 4), ggmc.GGMC(0.1, 0.0, 4, "ABA"))
    )
    torch.testing.assert_close(one[1](one[0], one[2])[0].position, other[1](other[0], other[2])[0].position)


def test_without_friction_it_draws_no_noise() -> None:
    def never() -> Tensor:
        raise AssertionError("noise")

    target = noisy_funnel().target
    start = State(torch.ones(2, 2, dtype=F64), torch.ones(2, 2, dtype=F64))
    parameters = Parameters.of(0.1, 0.0, 1.0, Identity())
    Trajectory(start, parameters, ggmc.Exact().bind(target), None, never).run(Scheme("ACA").plan(3).moves)


def test_it_loses_momentum_as_fast_as_ggmc() -> None:
    flat = ggmc.Density(lambda x: -1e-12 * x.sum(), torch.zeros(1, dtype=F64))
    state, step, generator = begin(ggmc.AMAGOLD(0.01, 0.7, 400, temperature=0.0, adjust=False), flat)
    after, _ = step(state._replace(momentum=torch.ones(5, 1, dtype=F64)), generator)
    torch.testing.assert_close(after.momentum, torch.full((5, 1), math.exp(-2.8), dtype=F64), rtol=1e-4, atol=0)


def test_without_the_test_its_bias_falls_as_the_square_of_the_step() -> None:
    """Of a Gaussian the positions at its ends are right even so; its momenta are not."""
    found = [stationary_covariance(ggmc.AMAGOLD(h, 0.7, 1, adjust=False), gaussian()) - 1 for h in (0.4, 0.2, 0.1)]
    positions, momenta = ([covariance[i, i].item() for covariance in found] for i in (0, 1))
    assert max(map(abs, positions)) < 1e-12
    assert momenta[0] / momenta[1] == pytest.approx(4, rel=0.05)
    assert momenta[1] / momenta[2] == pytest.approx(4, rel=0.02)


@pytest.mark.parametrize("order", ["iid", "epoch", "palindrome"])
def test_with_the_test_it_is_exact(order: str) -> None:
    kernel = ggmc.AMAGOLD(0.3, 1.0, 4, ggmc.Minibatch(3, order))
    assert violations(noisy_quartic(), kernel, trajectories=8, chains=20_000) == {}


def test_infinite_friction_is_refused() -> None:
    with pytest.raises(BadInput, match="no limit of infinite friction"):
        ggmc.AMAGOLD(0.1, math.inf)
