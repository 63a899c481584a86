"""SGHMC against its equation, against the AMAGOLD whose positions it shares, and how wrong it is."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from experiments.linear import Noisy, stationary_covariance
from ggmc.dynamics import metropolis
from ggmc.dynamics.state import State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import NotExact
from ggmc.guides import GradientField
from tests.support.invariance import noisy_funnel, noisy_quartic
from tests.support.kernels import MASS, gaussian

F64 = torch.float64


def test_it_is_its_equation() -> None:
    target: Any = noisy_funnel().target
    kernel = ggmc.SGHMC(0.1, 0.8, 5, ggmc.Minibatch(4), temperature=0.6, mass=MASS)
    field = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(3, 2, dtype=F64), generator)
    replay = torch.Generator()
    replay.set_state(generator.get_state())
    after, info = sampler.step(state, sampler.parameters, generator)
    position, momentum = state.position, state.momentum
    factor, inverse = torch.linalg.cholesky(MASS), torch.linalg.inv(MASS)
    metropolis.log_uniforms(3, replay)  # drawn for every kernel, used by tests alone
    tape = field.tape(5, 3, replay)
    assert tape is not None
    for entry in tape:
        noise = torch.randn(3, 2, generator=replay, dtype=F64)
        momentum = (
            (1 - 0.8 * 0.1) * momentum
            - 0.1 * field(position, entry)[0]
            + math.sqrt(2 * 0.8 * 0.1 * 0.6) * noise @ factor.mT
        )
        position = position + 0.1 * momentum @ inverse
    torch.testing.assert_close(after.position, position)
    torch.testing.assert_close(after.momentum, momentum)
    assert (info.log_accept == -math.inf).all()
    assert info.accepted.all()
    assert not info.diverging.any()
    torch.testing.assert_close(after.potential, target.potential(after.position))


class Recording(GradientField):
    """Another field, which remembers where it was asked."""

    def __init__(self, of: GradientField):
        super().__init__(order=of.order, epoch=of.epoch, sweep=of.sweep)
        self.of, self.positions = of, []

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        self.positions.append(position)
        return self.of(position, entry)[0], None


@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(4, "iid")], ids=str)
@pytest.mark.parametrize(("h", "friction"), [(0.1, 0.8), (0.3, 2.0), (0.05, 0.0)])
def test_its_positions_are_those_of_unadjusted_amagold_at_its_kick_points(
    h: float, friction: float, guide: Any
) -> None:
    """(1 − c)/(1 + c) = 1 − γh, h'²/(1 + c) = h² and h'p = hm make the two updates of the kick points the same."""
    target, steps, chains = noisy_funnel().target, 30, 4
    c = friction * h / (2 - friction * h)
    other_h = h * math.sqrt(1 + c)
    sghmc = ggmc.SGHMC(h, friction, steps, guide, temperature=0.6, mass=MASS)
    amagold = ggmc.AMAGOLD(other_h, 2 * c / other_h, steps, guide, temperature=0.6, mass=MASS, adjust=False)
    generator = torch.Generator().manual_seed(1)
    position, momentum = torch.randn(2, chains, 2, dtype=F64, generator=generator) / 2
    noise = torch.randn(steps, chains, 2, dtype=F64, generator=generator)
    tape = guide.bind(target).tape(steps, chains, generator)
    # AMAGOLD reaches its first kick after half a drift.
    earlier = position - h / 2 * momentum @ torch.linalg.inv(MASS)
    starts = (State(position, momentum), State(earlier, momentum / math.sqrt(1 + c)))
    paths: list[Tensor] = []
    for kernel, start in zip((sghmc, amagold), starts, strict=True):
        field = Recording(guide.bind(target))
        sampler = kernel.sampler(target, field)
        path = Trajectory(start, sampler.parameters, field, tape, iter(noise).__next__)
        path.run(sampler.scheme.plan(steps).moves)
        paths.append(torch.stack([*field.positions, path.momentum * (1 if kernel is sghmc else math.sqrt(1 + c))]))
        if kernel is amagold:
            assert path.work.isfinite().all()
    assert len(paths[0]) == steps + 1
    torch.testing.assert_close(paths[0], paths[1], rtol=1e-12, atol=1e-12)


def test_that_amagold_has_a_finite_acceptance_probability() -> None:
    h, friction = 0.1, 0.8
    c = friction * h / (2 - friction * h)
    other_h = h * math.sqrt(1 + c)
    kernel = ggmc.AMAGOLD(other_h, 2 * c / other_h, 5, ggmc.Minibatch(4), adjust=False)
    trace = ggmc.sample(noisy_quartic().target, kernel, draws=20, warmup=0, progress=False)
    assert trace.stats["log_accept"].max() < 10
    assert (trace.stats["log_accept"] > -math.inf).all()


def test_positions_are_biased_by_the_square_of_the_step_and_momenta_by_the_step() -> None:
    biases = [stationary_covariance(ggmc.SGHMC(h, 0.7, 1), gaussian()).diag() - 1 for h in (0.4, 0.2, 0.1, 0.05)]
    for (position, momentum), (less, less_momentum) in itertools.pairwise(biases):
        assert 3.5 < position / less < 5
        assert 1.8 < momentum / less_momentum < 2.8


def test_noisy_gradients_bias_positions_by_the_step() -> None:
    biases = [stationary_covariance(ggmc.SGHMC(h, 0.7, 1, Noisy(2.0)), gaussian())[0, 0] - 1 for h in (0.2, 0.1, 0.05)]
    assert 1.8 < biases[0] / biases[1] < 2.4
    assert 1.8 < biases[1] / biases[2] < 2.2


def test_correcting_it_is_refused_with_the_reason() -> None:
    with pytest.raises(NotExact, match=r"never retraces its step.*\(Theorem 1\).*ggmc\.AMAGOLD, whose positions it"):
        ggmc.SGHMC(0.1, adjust=True)


def test_monitoring_reports_that_alpha_is_zero_and_why() -> None:
    trace = ggmc.sample(noisy_funnel().target, ggmc.SGHMC(0.1), draws=20, warmup=5, progress=False)
    assert (trace.stats["log_accept"] == -math.inf).all()
    assert trace.stats["is_accepted"].all()
    assert not trace.stats["diverging"].any()
    (remark,) = (warning for warning in trace.warnings if "log α is reported as −∞" in warning)
    assert "SGHMC is biased" in remark
    assert "AMAGOLD" in remark
    assert not any("no test can say by how much" in warning for warning in trace.warnings)
