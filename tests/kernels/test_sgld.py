"""SGLD against its equation, as a limit of GGMC, and its learning rate."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from experiments.linear import Noisy, stationary_covariance
from ggmc.dynamics import metropolis
from ggmc.errors import NotExact
from tests.support.invariance import noisy_funnel
from tests.support.kernels import MASS, gaussian
from tests.support.logistic import examples, log_likelihood, log_prior, logistic

F64 = torch.float64


@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(4, "iid"), ggmc.Minibatch(4)], ids=str)
@pytest.mark.parametrize("steps", [1, 4])
def test_it_is_its_equation_and_its_log_alpha_that_of_mala(guide: Any, steps: int) -> None:
    """θ ← θ − (h²/2) M⁻¹g + h √T M^(−½) ε; log α is that of the Gaussian densities of each step there and back."""
    target: Any = noisy_funnel().target
    h, temperature = 0.3, 0.7
    kernel = ggmc.SGLD(h, steps, guide, temperature, MASS)
    field = guide.bind(target)
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(4, 2, dtype=F64), generator)
    replay = torch.Generator()
    inverse, factor = torch.linalg.inv(MASS), torch.linalg.cholesky(MASS)

    def log_density(there: Tensor, here: Tensor, g: Tensor) -> Tensor:
        rest = there - here + h**2 / 2 * g @ inverse
        return -torch.einsum("ci,ij,cj->c", rest, MASS, rest) / (2 * h**2 * temperature)

    for _ in range(3):
        replay.set_state(generator.get_state())
        after, info = sampler.step(state, sampler.parameters, generator)
        metropolis.log_uniforms(4, replay)
        tape = field.tape(steps + 1, 4, replay)
        entries: Any = [None] * (steps + 1) if tape is None else tape
        position, log_ratio = state.position, torch.zeros(4, dtype=F64)
        g = field(position, entries[0])[0]
        for entry in entries[1:]:
            noise = torch.randn(4, 2, generator=replay, dtype=F64)
            moved = position - h**2 / 2 * g @ inverse + h * math.sqrt(temperature) * noise @ factor.mT @ inverse
            g_there = field(moved, entry)[0]
            log_ratio += log_density(position, moved, g_there) - log_density(moved, position, g)
            position, g = moved, g_there
        torch.testing.assert_close(after.position, position)
        log_ratio -= (target.potential(position) - target.potential(state.position)) / temperature
        torch.testing.assert_close(info.log_accept, log_ratio)
        assert info.accepted.all()
        state = after


def test_it_approaches_the_limit_of_large_friction() -> None:
    """Not only the word with friction ∞: unadjusted OBABO with friction growing has the distribution of one step."""
    target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=F64))
    positions = torch.linspace(-2, 2, 5, dtype=F64)[:, None].repeat_interleave(40_000, 0)

    def moments(kernel: Any) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        init, step = kernel.bind(target)
        moved = step(init(positions, generator), generator)[0].position.view(5, -1)
        return torch.stack([moved.mean(1), moved.var(1)])

    one = moments(ggmc.SGLD(0.5))
    for friction in (1e3, 1e6):
        other = moments(ggmc.GGMC(0.5, friction, 1, adjust=False))
        torch.testing.assert_close(one, other, rtol=0.01, atol=0.01)


def test_its_bias_falls_as_the_square_of_the_step_whatever_the_noise() -> None:
    """Of a step h the drift is h²/2, so that gradient noise of constant size adds a bias of h² too."""
    for guide in (ggmc.Exact(), Noisy(1.0)):
        biases = [stationary_covariance(ggmc.SGLD(h, 1, guide), gaussian())[0, 0] - 1 for h in (0.4, 0.2, 0.1)]
        assert 3.8 < biases[0] / biases[1] < 4.5
        assert 3.9 < biases[1] / biases[2] < 4.2


def test_the_test_is_refused_with_its_name() -> None:
    with pytest.raises(NotExact, match=r"use ggmc\.MALA, or adjust=False"):
        ggmc.SGLD(0.1, adjust=True)


# The learning rate


def test_one_meaning_of_the_learning_rate() -> None:
    """ℓ = N h²: at temperature 0 a step takes ℓ/2 times the gradient of the mean loss over the N examples."""
    lr, target = 0.02, logistic()
    step_size, friction = ggmc.from_learning_rate(lr, momentum=0.0, num_data=target.num_data)
    assert friction == math.inf
    assert step_size == pytest.approx(math.sqrt(lr / target.num_data))
    start = torch.tensor([[0.3, -0.2, 0.5]], dtype=F64)
    weights = start[0].clone().requires_grad_()
    mean_loss = -(log_prior(weights) + log_likelihood(weights, examples()).sum()) / target.num_data
    (slope,) = torch.autograd.grad(mean_loss, weights)
    generator = torch.Generator().manual_seed(0)
    for kernel in (
        ggmc.SGLD(step_size, 1, temperature=0.0),
        ggmc.GGMC(step_size, friction, 1, temperature=0.0, adjust=False),
    ):
        init, step = kernel.bind(target)
        after, _ = step(init(start, generator), generator)
        torch.testing.assert_close(after.position[0], start[0] - lr / 2 * slope)


def test_at_that_rate_the_noise_is_that_of_the_temperature() -> None:
    """ε has the variance ℓT/N: twice the drift's rate per unit of the summed loss, ℓ/(2N), times T."""
    lr, temperature, target = 0.02, 0.5, logistic()
    step_size, _ = ggmc.from_learning_rate(lr, 0.0, target.num_data)
    generator = torch.Generator().manual_seed(0)
    init, step = ggmc.SGLD(step_size, 1, temperature=temperature).bind(target)
    after, _ = step(init(torch.zeros(20_000, 3, dtype=F64), generator), generator)
    expected = lr * temperature / target.num_data
    assert (after.position.var(0) / expected - 1).abs().max() < 6 * (2 / 20_000) ** 0.5
