"""Without the test: log α is still reported, for one trajectory or several, and is −∞ where no test applies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from experiments.linear import Noisy, stationary_covariance
from ggmc.dynamics.schedule import Along, Cosine, Cyclical, Drops, Flat, Over, ThereAndBack
from ggmc.errors import NotExact
from tests.support.invariance import noisy_quartic
from tests.support.kernels import begin, gaussian
from tests.support.logistic import logistic, rows

F64 = torch.float64


def in_turn(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    """Batch after batch, which read backwards goes the other way."""
    return (torch.arange(entries) + torch.randint(batches, (), generator=generator)) % batches


# Thinned reports


@pytest.mark.parametrize(
    "kernel",
    [ggmc.GGMC(0.2, steps=3, adjust=False), ggmc.SGLD(0.2, 3), ggmc.GGMC(0.2, steps=2, scheme="ACA", adjust=False)],
    ids=str,
)
def test_thinned_reports_add_up_to_the_same(kernel: Any) -> None:
    """Every third report is the log α of three trajectories together: the sum, each taken from where it began."""
    target = noisy_quartic().target
    kernel = replace(kernel, guide=ggmc.Minibatch(4))
    state, step, generator = begin(kernel, target)
    thin_state, thin_step, thin_generator = begin(_thinned(kernel, 3), target)
    thin: Any = None
    for _ in range(4):
        total = torch.zeros(5, dtype=F64)
        for trajectory in range(3):
            state, info = step(state, generator)
            thin_state, thin = thin_step(thin_state, thin_generator)
            total += info.log_accept
            assert torch.equal(state.position, thin_state.position)
            assert thin.log_accept.isnan().all() == (trajectory < 2)
        torch.testing.assert_close(thin.log_accept, total)
        torch.testing.assert_close(thin_state.potential, target.potential(thin_state.position))


def _thinned(kernel: Any, every: int) -> Any:
    return replace(kernel, monitor_every=every)


@pytest.mark.parametrize(
    "temperature", [Drops((0.4, 0.7), 0.25), Cosine(0.1), Cyclical(2, Cosine(0.3)), Flat()], ids=str
)
@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(4)], ids=str)
def test_a_report_is_about_one_temperature(guide: Any, temperature: Any) -> None:
    """A stretch ends where the temperature changes: what it reports is the sum of log α at its own temperature."""
    target, over = noisy_quartic().target, Over(9, temperature=temperature)
    kernel = ggmc.GGMC(0.2, steps=3, guide=guide, adjust=False, over=over)
    state, step, generator = begin(kernel, target)
    thin_state, thin_step, thin_generator = begin(_thinned(kernel, 4), target)
    total = torch.zeros(5, dtype=F64)
    reports = 0
    for trajectory in range(27):
        state, info = step(state, generator)
        thin_state, thin = thin_step(thin_state, thin_generator)
        total += info.log_accept
        if not thin.log_accept.isnan().any():
            torch.testing.assert_close(thin.log_accept, total)
            total = torch.zeros(5, dtype=F64)
            reports += 1
        elif over.at(trajectory)[1] != over.at(trajectory + 1)[1]:
            raise AssertionError("the temperature changed without a report")
    assert reports >= 27 // 4


def test_the_first_report_after_warm_up_is_about_the_draws_alone() -> None:
    """Seven trajectories of warm-up, reports every five: the first report is that of the three draws before it."""
    target = noisy_quartic().target
    kernel = ggmc.GGMC(0.3, steps=3, guide=ggmc.Minibatch(4, "iid"), adjust=False)
    each, thin = (ggmc.sample(target, _thinned(kernel, every), draws=13, warmup=7, progress=False) for every in (1, 5))
    assert np.array_equal(each["theta"], thin["theta"])
    log_accept = each.stats["log_accept"]
    reported = np.flatnonzero(~np.isnan(thin.stats["log_accept"][0]))
    assert reported.tolist() == [2, 7, 12]
    for begin_, end in zip([0, 3, 8], [3, 8, 13], strict=True):
        np.testing.assert_allclose(thin.stats["log_accept"][:, end - 1], log_accept[:, begin_:end].sum(1), rtol=1e-9)


def test_thinned_reports_compute_the_potential_only_then() -> None:
    target = logistic()
    computed = 0
    potential = target.potential

    def counted(position: Tensor, limit: Tensor | None = None) -> Tensor:
        nonlocal computed
        computed += 1
        return potential(position, limit)

    target.potential = counted  # pyright: ignore[reportAttributeAccessIssue]
    kernel = ggmc.GGMC(0.02, guide=ggmc.Minibatch(20), adjust=False, monitor_every=5)
    trace = ggmc.sample(target, kernel, draws=20, warmup=0, progress=False)
    assert computed == 1 + 4
    assert np.isfinite(trace.stats["log_accept"]).sum() == 4 * 4
    assert np.isfinite(trace.stats["lp"]).sum() == 4 * 4


@pytest.mark.parametrize("kernel", [ggmc.GGMC(0.2, adjust=False), ggmc.SGLD(0.2)], ids=lambda k: type(k).__name__)
def test_log_alpha_is_reported_at_the_temperature_of_the_trajectory(kernel: Any) -> None:
    init, step = replace(kernel, over=Over(2, temperature=lambda x: 0.25)).bind(logistic())
    generator = torch.Generator().manual_seed(0)
    _, info = step(init(rows(), generator), generator)
    torch.testing.assert_close(info.log_accept, -info.energy_error / 0.25)


def test_a_chain_that_left_the_support_is_not_praised() -> None:
    """Exponential on x > 0, reported every third time: outside, log α is −∞, and so it is for what began outside."""
    target = ggmc.Density(lambda x: torch.where(x > 0, -x, -torch.inf).sum(), torch.ones(1, dtype=F64), jitter=0.1)
    kernel = ggmc.GGMC(0.7, 0.5, 2, adjust=False, monitor_every=3)
    trace = ggmc.sample(target, kernel, draws=60, warmup=0, progress=False)
    reports = trace.stats["log_accept"][:, 2::3]
    outside = trace["theta"][:, 2::3, 0] < 0
    assert outside.any()
    assert (reports[outside] == -np.inf).all()
    assert (reports < 1e3).all()
    assert trace.stats["diverging"][:, 2::3][outside].all()


# Where no test applies


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"along": Along(Cosine(0.1))}, "step sizes along a trajectory must read the same backwards"),
        ({"along": Along(temperature=Cosine(0.1))}, "temperatures along a trajectory must read the same backwards"),
        ({"guide": ggmc.Minibatch(4, ggmc.CustomOrder(in_turn, reversible=False))}, "the order 'in_turn' has another"),
        (
            {"guide": ggmc.Minibatch(4, ggmc.CustomOrder(in_turn, reversible=False), recut=True)},
            "the order 'in_turn' has another distribution read backwards",
        ),
    ],
    ids=["step sizes", "temperatures", "order", "order recut"],
)
@pytest.mark.parametrize("every", [1, 3])
def test_log_alpha_is_minus_infinity_and_the_warnings_say_why(options: Any, why: str, every: int) -> None:
    target = noisy_quartic().target
    with pytest.raises(NotExact, match=why):
        ggmc.GGMC(0.1, steps=4, **options).bind(target)
    kernel = ggmc.GGMC(0.1, steps=4, adjust=False, monitor_every=every, **options)
    trace = ggmc.sample(target, kernel, draws=12, warmup=2, progress=False)
    reported = trace.stats["log_accept"][~np.isnan(trace.stats["log_accept"])]
    assert len(reported) == 4 * (12 // every)
    assert (reported == -math.inf).all()
    assert trace.stats["is_accepted"].all()
    assert not trace.stats["diverging"].any()
    assert any(why in warning and "−∞" in warning for warning in trace.warnings)
    assert not any("adjust=False" in warning for warning in trace.warnings)  # which is what was done


@pytest.mark.parametrize(
    "options",
    [
        {"along": Along(ThereAndBack(Cosine(0.1)))},
        {"along": Along(Cosine(0.1), either_way=True)},
        {"over": Over(3, Cosine(0.1))},
        {"guide": ggmc.Minibatch(4)},
    ],
    ids=["palindrome", "either way", "over", "minibatches"],
)
def test_where_a_test_applies_log_alpha_is_finite(options: Any) -> None:
    kernel = ggmc.GGMC(0.1, steps=4, adjust=False, **options)
    trace = ggmc.sample(noisy_quartic().target, kernel, draws=12, warmup=2, progress=False)
    assert np.isfinite(trace.stats["log_accept"]).all()
    assert not any("−∞" in warning for warning in trace.warnings)


def test_without_the_test_a_bound_does_not_change_the_acceptance_rate() -> None:
    kernel = ggmc.GGMC(0.2, guide=ggmc.Minibatch(50, "iid"), steps=4, adjust=False)
    one, other = (
        ggmc.sample(logistic(bound=bound), kernel, draws=20, warmup=0, progress=False).stats["acceptance_rate"]
        for bound in (0.0, None)
    )
    assert np.allclose(one, other)
    assert (one < 1).any()


# How wrong it is without the test


@pytest.mark.parametrize(("guide", "ratio"), [(ggmc.Exact(), 4.0), (Noisy(2.0), 2.0)], ids=["exact", "independent"])
def test_the_bias_falls_as_the_square_of_the_step_but_with_independent_noise_as_the_step(
    guide: Any, ratio: float
) -> None:
    biases = [
        stationary_covariance(ggmc.GGMC(h, 1.0, 1, guide=guide, adjust=False), gaussian())[0, 0].item() - 1
        for h in (0.4, 0.2, 0.1)
    ]
    assert biases[0] / biases[1] == pytest.approx(ratio, rel=0.15)
    assert biases[1] / biases[2] == pytest.approx(ratio, rel=0.08)


def test_the_bias_of_independent_minibatches_is_measured() -> None:
    """U = θ²/2 shared out over ten examples that pull apart: batches of one add noise of variance σ² to θ."""
    pulls = torch.linspace(-1, 1, 10, dtype=F64)
    spread = (10 * pulls).square().mean().sqrt().item()
    # The examples alone make a standard normal in θ, so the prior is flat but for rounding.
    target = ggmc.DataDensity(
        lambda x: -1e-12 * x.square().sum(), lambda x, pull: -(x**2 / 20 + pull * x), pulls, torch.zeros(1, dtype=F64)
    )
    found: list[float] = []
    chains = 8000
    for h in (0.4, 0.2, 0.1):
        kernel = ggmc.GGMC(h, 1.0, round(2 / h), guide=ggmc.Minibatch(1, "iid"), adjust=False, monitor_every=1000)
        state, step, generator = begin(kernel, target, chains)
        for _ in range(6):  # twelve units of time
            state, _ = step(state, generator)
        found.append(state.position.var().item() - 1)
        noisy = replace(kernel, guide=Noisy(spread), monitor_every=1)
        expected = stationary_covariance(noisy, gaussian())[0, 0].item() - 1
        assert abs(found[-1] - expected) < 6 * (1 + expected) * (2 / chains) ** 0.5
    assert 1.6 < found[0] / found[1] < 2.5
    assert 1.6 < found[1] / found[2] < 2.5


def test_a_biased_run_says_how_the_bias_falls() -> None:
    trace = ggmc.sample(gaussian(10), ggmc.GGMC(1.3, steps=3, adjust=False), draws=20, warmup=5, progress=False)
    assert any("as h² with a deterministic guide, but only as h with independent" in w for w in trace.warnings)
