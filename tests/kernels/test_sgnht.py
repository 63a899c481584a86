"""SGNHT against its equations, with gradient noise that it must absorb, and its order in the step size."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from experiments.linear import Noisy, stationary_covariance
from ggmc.dynamics.state import State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import NotExact
from ggmc.kernels import Kernel
from ggmc.targets.base import Target
from tests.support.invariance import noisy_funnel
from tests.support.kernels import MASS, gaussian, mean_and_error, quartic_with_data

F64 = torch.float64


def test_it_is_its_equations() -> None:
    """Written out once more: BADNDAB with the half kicks of neighbouring steps at one gradient."""
    target: Any = noisy_funnel().target
    h, friction, temperature, thermal_mass, steps = 0.2, 0.8, 0.6, 1.7, 3
    kernel = ggmc.SGNHT(h, friction, steps, ggmc.Minibatch(4), temperature, MASS, thermal_mass=thermal_mass)
    field = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    position, momentum = torch.randn(2, 4, 2, dtype=F64, generator=generator)
    thermostat = torch.tensor([0.8, -0.5, 0.0, 1e-12], dtype=F64)
    noise = torch.randn(steps, 4, 2, dtype=F64, generator=generator)
    tape = field.tape(steps + 1, 4, generator)
    assert tape is not None
    start = State(position, momentum, extra={"thermostat": thermostat})
    letters = sampler.program.letters
    path = Trajectory(start, sampler.parameters, field, tape, iter(noise).__next__, letters)
    path.run(sampler.scheme.plan(steps).moves)

    inverse, factor = torch.linalg.inv(MASS), torch.linalg.cholesky(MASS)

    def thermostat_moved() -> Tensor:
        kinetic = torch.einsum("ci,ij,cj->c", momentum, inverse, momentum)
        return thermostat + h / 2 * (kinetic / 2 - temperature) / thermal_mass

    for number in range(steps):
        momentum = momentum - h / 2 * field(position, tape[number])[0]
        position = position + h / 2 * momentum @ inverse
        thermostat = thermostat_moved()
        keep = torch.exp(-thermostat * h)
        variance = friction * temperature * (1 - keep**2) / thermostat
        momentum = keep[:, None] * momentum + variance.sqrt()[:, None] * noise[number] @ factor.mT
        thermostat = thermostat_moved()
        position = position + h / 2 * momentum @ inverse
        momentum = momentum - h / 2 * field(position, tape[number + 1])[0]
    torch.testing.assert_close(path.position, position)
    torch.testing.assert_close(path.momentum, momentum)
    torch.testing.assert_close(path.extra["thermostat"], thermostat)


@pytest.mark.parametrize("friction", [0.7, 0.0])
def test_a_thermostat_near_zero_is_the_limit(friction: float) -> None:
    """(1 − e^(−2ξt))/(2ξ) is t(1 − ξt) near ξ = 0: no jump where the formula changes, and no 0/0."""
    target, like = gaussian(), torch.zeros(9, 1, dtype=F64)
    small = torch.tensor([-1e-3, -2e-7, -1e-7, -1e-12, 0.0, 1e-12, 1e-7, 2e-7, 1e-3], dtype=F64)
    sampler = ggmc.SGNHT(0.1, friction, 1).sampler(target, ggmc.Exact().bind(target))
    letter = sampler.program.letters["N"]
    state = State(like, like, extra={"thermostat": small})
    path = Trajectory(state, sampler.parameters, sampler.field, None, lambda: torch.ones(9, 1, dtype=F64))
    letter.apply(path, letter.prepare(1.0, 1.0, sampler.parameters, like))
    expected = math.sqrt(2 * friction * 0.1) * (1 - small * 0.1 / 2)
    torch.testing.assert_close(path.momentum[:, 0], expected, rtol=1e-8, atol=1e-15)


# What it is for: gradient noise of unknown size


def moments(kernel: Kernel, target: Target, chains: int, time: float, begin: float = 20.0) -> Tensor:
    """θ²/d, m²/d and the thermostat after each trajectory [3, draws, chains]; a time is left out at the beginning."""
    assert kernel.step_size is not None
    init, step = kernel.bind(target)
    generator = torch.Generator().manual_seed(0)
    state = init(torch.randn(chains, target.layout.size, generator=generator, dtype=F64), generator)
    found: list[Tensor] = []
    travelled = 0.0
    while travelled < begin + time:
        state, info = step(state, generator)
        travelled += info.steps * kernel.step_size
        if travelled > begin:
            seen = state.position.square().mean(1), state.momentum.square().mean(1), state.extra["thermostat"]
            found.append(torch.stack(seen))
    return torch.stack(found, 1)


@pytest.mark.parametrize(("h", "temperature", "steps"), [(0.1, 1.0, 5), (0.05, 0.5, 5), (0.05, 1.0, 10)])
def test_it_absorbs_noise_that_spoils_the_others(h: float, temperature: float, steps: int) -> None:
    """Noise σ²I in each gradient adds h²σ² to the momentum's variance at each kick of time h, that is hσ² per time.

    In equilibrium friction takes away 2ξT per time and noise adds 2γT + hσ²: the thermostat settles at
    ξ = γ + hσ²/(2T). A trajectory begins and ends in half a kick, each with a gradient of its own: of K + 1 kicks two
    have the variance h²σ²/4, which makes hσ²(1 − 1/(2K)) of hσ².
    """
    variance, friction = 20.0, 1.0
    guide = Noisy(variance**0.5)
    kernel = ggmc.SGNHT(h, friction, steps, guide, temperature, monitor_every=10**6)
    found = moments(kernel, gaussian(10), chains=300, time=150.0)
    (position, position_error), (kinetic, kinetic_error), (thermostat, thermostat_error) = map(mean_and_error, found)
    assert position_error < 0.005
    assert abs(position - temperature) < 6 * position_error
    # Momenta are seen after half a kick, a little off the mean over the step.
    assert abs(kinetic - temperature) < h**2 * variance / 4 + 6 * kinetic_error
    theory = friction + h * variance / (2 * temperature) * (1 - 1 / (2 * steps))
    assert abs(thermostat - theory) < 6 * thermostat_error + h**2 * theory
    spread = found[2].var().item()
    assert spread == pytest.approx(temperature / 10, rel=0.15)  # N(ξ; ·, T/(dμ))

    sghmc, sgld = (
        stationary_covariance(other, gaussian()).diag() / temperature
        for other in (
            ggmc.SGHMC(h, friction, steps, guide, temperature),
            ggmc.SGLD(h, steps, guide, temperature),
        )
    )
    assert (sghmc > 1 + 0.9 * h * variance / (2 * friction * temperature)).all()
    assert sgld[0] - 1 == pytest.approx(h**2 * variance / (4 * temperature), rel=0.1)
    if h == 0.1:
        assert sgld[0] - 1 > 5 * abs(position - temperature)


@pytest.mark.parametrize("mass", [None, [0.5, 2.0, 1.0, 1.0, 4.0]], ids=["identity", "diagonal"])
def test_without_noise_it_is_langevin_dynamics_at_its_friction(mass: Any) -> None:
    kernel = ggmc.SGNHT(0.1, 0.7, 5, temperature=2.0, mass=mass, thermal_mass=2.0, monitor_every=10**6)
    found = moments(kernel, gaussian(5), chains=300, time=200.0)
    (position, position_error), _, (thermostat, thermostat_error) = map(mean_and_error, found)
    assert abs(position - 2.0) < 6 * position_error + 0.01
    assert abs(thermostat - 0.7) < 6 * thermostat_error + 0.01
    assert found[2].var().item() == pytest.approx(2.0 / (5 * 2.0), rel=0.1)


def test_its_bias_falls_as_the_square_of_the_step() -> None:
    """U = x²/2 + cos(2x)/2, whose second moment is known by quadrature."""
    grid = torch.linspace(-12, 12, 100_001, dtype=F64)
    weights = torch.exp(-(grid**2 / 2 + torch.cos(2 * grid) / 2))
    truth = ((grid**2 * weights).sum() / weights.sum()).item()
    wavy = ggmc.Density(lambda x: -(x**2 / 2 + torch.cos(2 * x) / 2).sum(), torch.zeros(10, dtype=F64))
    positions, momenta = [], []
    for h in (1.0, 0.5):
        found = moments(ggmc.SGNHT(h, 0.5, 1, monitor_every=10**6), wavy, chains=4000, time=200.0)
        mean, error = mean_and_error(found[0])
        assert abs(mean - truth) > 10 * error
        positions.append(mean - truth)
        momenta.append(mean_and_error(found[1])[0] - 1)
    assert 2.6 < positions[0] / positions[1] < 6
    assert momenta[0] / momenta[1] == pytest.approx(4, rel=0.1)


# What it says about itself


def test_the_test_is_refused_and_monitoring_says_why() -> None:
    with pytest.raises(NotExact, match=r"no Metropolis test: the thermostat.*Use ggmc\.GGMC, or adjust=False"):
        ggmc.SGNHT(0.1, adjust=True)
    trace = ggmc.sample(quartic_with_data(), ggmc.SGNHT(0.1), draws=20, warmup=5, progress=False)
    assert (trace.stats["log_accept"] == -math.inf).all()
    assert trace.stats["is_accepted"].all()
    assert any("SGNHT is biased" in warning and "−∞" in warning for warning in trace.warnings)


def test_the_thermostat_is_in_the_trace_and_begins_at_the_friction() -> None:
    kernel = ggmc.SGNHT(0.1, friction=0.7, thermal_mass=1e12)
    trace = ggmc.sample(quartic_with_data(), kernel, draws=6, warmup=0, progress=False)
    assert trace.stats["thermostat"].shape == (4, 6)
    assert trace.stats["thermostat"] == pytest.approx(0.7, abs=1e-9)
    quick = ggmc.sample(quartic_with_data(), ggmc.SGNHT(0.1, friction=0.7), draws=6, warmup=0, progress=False)
    assert quick.stats["thermostat"].std() > 1e-3


def test_a_heavy_thermostat_is_langevin_dynamics() -> None:
    """With ξ = γ fixed and no gradient noise, N is the O of BAOAB."""
    target = quartic_with_data()
    generator = torch.Generator().manual_seed(0)
    position, momentum = torch.randn(2, 5, 2, dtype=F64, generator=generator)
    start = State(position, momentum)
    noise = torch.randn(4, 5, 2, dtype=F64, generator=generator)
    ends: list[Tensor] = []
    for kernel in (ggmc.SGNHT(0.2, 0.7, 4, thermal_mass=1e15), ggmc.GGMC(0.2, 0.7, 4, "BAOAB")):
        sampler = kernel.sampler(target, ggmc.Exact().bind(target))
        own = {name: first(start.position) for name, first in sampler.program.variables.items()}
        state = start._replace(extra=own)
        path = Trajectory(state, sampler.parameters, sampler.field, None, iter(noise).__next__, sampler.program.letters)
        path.run(sampler.scheme.plan(4).moves)
        ends.append(torch.cat([path.position, path.momentum]))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=1e-12)
