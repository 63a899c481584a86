"""AMAGOLD, SGHMC and SGLD against their equations; tests deferred, thinned and explained."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.mass import as_mass
from ggmc.dynamics.scheme import Dynamics, Scheme, State, run
from ggmc.errors import BadInput
from tests.support.invariance import noisy_funnel, noisy_quartic
from tests.targets.test_data_density import logistic

F64 = torch.float64
MASS = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64)


def begin(kernel: Any, target: Any, chains: int = 5) -> tuple[State, Any, torch.Generator]:
    init, step = kernel.bind(target)
    generator = torch.Generator().manual_seed(0)
    return init(torch.zeros(chains, target.layout.size, dtype=F64), generator), step, generator


# AMAGOLD


def test_amagold_is_its_equation_and_its_ratio_of_densities() -> None:
    """Written out once more, with the two Gaussian densities themselves in place of the work."""
    target: Any = noisy_funnel().target
    h, friction, temperature, mass = 0.3, 1.3, 0.7, as_mass(MASS)
    c, inverse = friction * h / 2, torch.linalg.inv(MASS)
    generator = torch.Generator().manual_seed(0)
    position, momentum = torch.randn(2, 4, 2, dtype=F64, generator=generator)
    start = State(position, momentum, None, None)
    noise = list(torch.randn(3, 4, 2, dtype=F64, generator=generator))
    field = ggmc.Minibatch(4, "iid").bind(target)
    tape: Any = field.tape(3, 4, generator)
    end, work = run(Scheme("ACA").plan(3), start, Dynamics(h, friction, temperature, mass), field, tape, iter(noise))

    def square(m: Tensor) -> Tensor:
        return torch.einsum("ci,ij,cj->c", m, inverse, m)

    position, momentum = start.position, start.momentum
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
    torch.testing.assert_close(end.position, position)
    torch.testing.assert_close(end.momentum, momentum)
    kinetic = (square(momentum) - square(start.momentum)) / 2
    torch.testing.assert_close(-work / temperature, log_ratio - kinetic / temperature)


def test_amagold_without_friction_is_leapfrog() -> None:
    target = noisy_funnel().target
    one, other = (
        begin(replace(kernel, temperature=0.0, adjust=False), target)
        for kernel in (ggmc.AMAGOLD(0.1, 0.0, 4), ggmc.GGMC(0.1, 0.0, 4, "ABA"))
    )
    torch.testing.assert_close(one[1](one[0], one[2])[0].position, other[1](other[0], other[2])[0].position)


def test_amagold_loses_momentum_as_fast_as_ggmc() -> None:
    flat = ggmc.Density(lambda x: -1e-12 * x.sum(), torch.zeros(1, dtype=F64))
    state, step, generator = begin(ggmc.AMAGOLD(0.01, 0.7, 400, temperature=0.0, adjust=False), flat)
    after, _ = step(state._replace(momentum=torch.ones(5, 1, dtype=F64)), generator)
    torch.testing.assert_close(after.momentum, torch.full((5, 1), math.exp(-2.8), dtype=F64), rtol=1e-4, atol=0)


def test_amagold_refuses_infinite_friction() -> None:
    with pytest.raises(BadInput, match="no limit of infinite friction"):
        ggmc.AMAGOLD(0.1, math.inf)


# SGHMC


def test_sghmc_is_its_equation() -> None:
    target: Any = noisy_funnel().target
    kernel = ggmc.SGHMC(0.1, 0.8, 5, ggmc.Minibatch(4), temperature=0.6, mass=MASS)
    field = kernel.guide.bind(target)
    init, step = kernel.on(target, field)
    generator = torch.Generator().manual_seed(0)
    state = init(torch.zeros(3, 2, dtype=F64), generator)
    replay = torch.Generator()
    replay.set_state(generator.get_state())
    after, info = step(state, generator)
    position, momentum = state.position, state.momentum
    factor, inverse = torch.linalg.cholesky(MASS), torch.linalg.inv(MASS)
    for entry in field.tape(5, 3, replay):
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
    torch.testing.assert_close(after.potential, target.potential(after.position))


# SGLD


@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(4, "iid"), ggmc.Minibatch(4)], ids=str)
@pytest.mark.parametrize("steps", [1, 4])
def test_sgld_is_obabo_with_infinite_friction_and_no_test(guide: Any, steps: int) -> None:
    target = noisy_funnel().target
    kernel = ggmc.SGLD(0.3, steps, guide, temperature=0.7, mass=MASS)
    word = kernel.as_ggmc()
    assert word == ggmc.GGMC(0.3, math.inf, steps, "OBABO", guide, 0.7, MASS, adjust=False)
    field = guide.bind(target)
    sgld, obabo = kernel.on(target, field), word.on(target, field)
    generator = torch.Generator().manual_seed(0)
    one = sgld[0](torch.zeros(4, 2, dtype=F64), generator)
    other = one
    for seed in range(3):
        one, told = sgld[1](one, generator.manual_seed(seed))
        # The word also draws the test's uniforms, before the tape and the noise: draw them here for it to skip.
        other, expected = _without_uniforms(obabo[1], other, generator.manual_seed(seed))
        torch.testing.assert_close(one.position, other.position)
        torch.testing.assert_close(told.log_accept, expected.log_accept)
        torch.testing.assert_close(told.work, expected.work)


def _without_uniforms(step: Any, state: State, generator: torch.Generator) -> Any:
    from ggmc.dynamics import metropolis

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metropolis, "log_uniforms", lambda chains, generator: torch.zeros(chains, dtype=F64))
        return step(state, generator)


def test_sgld_approaches_the_limit_of_large_friction() -> None:
    """Not only the word with friction ∞: unadjusted OBABO with friction growing has SGLD's law of one step."""
    target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=F64))
    positions = torch.linspace(-2, 2, 5, dtype=F64)[:, None].repeat_interleave(40_000, 0)

    def moments(kernel: Any) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        init, step = kernel.bind(target)
        moved = step(init(positions, generator), generator)[0].position.view(5, -1)
        return torch.stack([moved.mean(1), moved.var(1)])

    one = moments(ggmc.SGLD(0.5))
    for friction, tolerance in ((1e3, 0.01), (1e6, 0.01)):
        other = moments(ggmc.GGMC(0.5, friction, 1, adjust=False))
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


# Tests deferred and thinned


def test_lengths_in_steps_sweeps_and_epochs() -> None:
    target = logistic(100)
    for order, steps, expected in (
        ("palindrome", "2 sweeps", 40),
        ("palindrome", "3 epochs", 30),
        ("palindrome", None, 20),
        ("epoch", "1 sweep", 10),
        ("epoch", None, 10),
        ("iid", "2 epochs", 20),
        ("iid", "7 steps", 7),
        ("palindrome", (3, 3), 3),
    ):
        kernel = ggmc.GGMC(0.01, steps=steps, guide=ggmc.Minibatch(10, order))
        state, step, generator = begin(kernel, target)
        assert step(state, generator)[1].steps == expected


@pytest.mark.parametrize("steps", ["two sweeps", "0 epochs", "3", "-1 steps", "1.5 sweeps"])
def test_other_texts_are_refused(steps: str) -> None:
    with pytest.raises(BadInput, match="must read like '3 epochs'"):
        ggmc.GGMC(0.1, steps=steps)


def test_palindromes_have_one_batch_per_step_and_friction_at_the_ends() -> None:
    assert ggmc.GGMC(guide=ggmc.Minibatch(10)).scheme == "O(ABA)O"
    assert ggmc.GGMC(guide=ggmc.ControlVariate(10)).scheme == "O(ABA)O"
    assert ggmc.GGMC(guide=ggmc.Minibatch(10, "iid")).scheme == "OBABO"
    assert ggmc.GGMC(guide=ggmc.Minibatch(10), scheme="BAOAB").scheme == "BAOAB"


@pytest.mark.parametrize("kernel", [ggmc.GGMC(0.2, steps=3, adjust=False), ggmc.SGLD(0.2, 3)], ids=str)
def test_thinned_monitoring_adds_up_to_the_same(kernel: Any) -> None:
    """Every third look tells the log α of three trajectories together: the sum, each taken from where it began."""
    target = noisy_quartic().target
    kernel = replace(kernel, guide=ggmc.Minibatch(4))
    state, step, generator = begin(kernel, target)
    thin_state, thin_step, thin_generator = begin(replace(kernel, monitor_every=3), target)
    thin: Any = None
    for _ in range(4):
        total = torch.zeros(5, dtype=F64)
        for trajectory in range(3):
            state, info = step(state, generator)
            thin_state, thin = thin_step(thin_state, thin_generator)
            total += info.log_accept
            torch.testing.assert_close(state.position, thin_state.position)
            assert thin.log_accept.isnan().all() == (trajectory < 2)
        torch.testing.assert_close(thin.log_accept, total)
        torch.testing.assert_close(thin_state.potential, target.potential(thin_state.position))


def test_thinned_monitoring_looks_at_the_data_only_then() -> None:
    target = logistic()
    looks = 0
    potential = target.potential

    def counted(position: Tensor) -> Tensor:
        nonlocal looks
        looks += 1
        return potential(position)

    target.potential = counted
    kernel = ggmc.GGMC(0.02, guide=ggmc.Minibatch(20), adjust=False, monitor_every=5)
    trace = ggmc.sample(target, kernel, draws=20, warmup=0, progress=False)
    assert looks == 1 + 4
    assert np.isfinite(trace.stats["log_accept"]).sum() == 4 * 4
    assert np.isfinite(trace.stats["lp"]).sum() == 4 * 4


def test_monitoring_cannot_be_thinned_with_the_test() -> None:
    with pytest.raises(BadInput, match="monitor_every=5 needs adjust=False"):
        ggmc.GGMC(0.1, monitor_every=5)


# Where the error comes from


def explained(guide: Any, step_size: float, share: float = 1.0, steps: int = 12) -> tuple[Tensor, Tensor]:
    state, step, generator = begin(
        ggmc.GGMC(step_size, guide=guide, steps=steps, scheme="O(ABA)O", explain=share), logistic(), 2000
    )
    _, info = step(state, generator)
    assert info.noise_error is not None
    return info.noise_error, info.energy_error - info.noise_error


def test_an_exact_guide_has_no_noise() -> None:
    noise, rest = explained(ggmc.Exact(), 0.1)
    assert (noise == 0).all()
    assert rest.std() > 0


def test_noise_is_the_minibatches_and_the_rest_is_the_steps() -> None:
    _, exact_rest = explained(ggmc.Exact(), 0.03)
    noise, rest = explained(ggmc.Minibatch(10, "iid"), 0.03)
    assert noise.std() > 10 * rest.std()
    assert rest.std() < 5 * exact_rest.std()


def test_with_a_smaller_step_the_rest_falls_faster_than_the_noise() -> None:
    (noise, rest), (less_noise, less_rest) = (explained(ggmc.Minibatch(10, "iid"), h) for h in (0.04, 0.01))
    assert rest.std() / less_rest.std() > 2 * noise.std() / less_noise.std()


def test_a_share_of_the_kicks_tells_the_same_on_average() -> None:
    guide = ggmc.Minibatch(10)
    whole, part = explained(guide, 0.03)[0], torch.cat([explained(guide, 0.03, 0.34)[0]])
    assert abs(part.mean() - whole.mean()) < 6 * part.std() / len(part) ** 0.5 + 6 * whole.std() / len(whole) ** 0.5
    assert part.std() < 5 * whole.std()


def test_low_acceptance_is_explained_in_plain_language() -> None:
    kernel = ggmc.GGMC(0.1, guide=ggmc.Minibatch(10, "iid"), explain=1.0)
    trace = ggmc.sample(logistic(), kernel, draws=20, warmup=0, progress=False)
    assert "noise_error" in trace.stats
    assert any("improve the guide" in warning for warning in trace.warnings)
    with pytest.raises(BadInput, match="explain must be a share"):
        ggmc.GGMC(0.1, explain=2.0)


def test_watching_a_chain_that_left_the_support_does_not_praise_it() -> None:
    """Exponential on x > 0, looked at every third time: outside, log α is −∞, and so is it for what began outside."""
    target = ggmc.Density(lambda x: torch.where(x > 0, -x, -torch.inf).sum(), torch.ones(1, dtype=F64), jitter=0.1)
    kernel = ggmc.GGMC(0.7, 0.5, 2, adjust=False, monitor_every=3)
    trace = ggmc.sample(target, kernel, draws=60, warmup=0, progress=False)
    looks = trace.stats["log_accept"][:, 2::3]
    outside = trace["theta"][:, 2::3, 0] < 0
    assert outside.any()
    assert (looks[outside] == -np.inf).all()
    assert (looks < 1e3).all()
    assert trace.stats["diverging"][:, 2::3][outside].all()


def test_explain_and_thinned_monitoring_do_not_mix() -> None:
    with pytest.raises(BadInput, match="use one of them"):
        ggmc.GGMC(0.1, explain=1.0, adjust=False, monitor_every=2)
