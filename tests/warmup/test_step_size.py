"""The step size: dual averaging, and what it follows."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import Diagonal
from ggmc.dynamics.state import Info, Parameters, State
from ggmc.sampling.chains import Chains
from ggmc.warmup import Warmup
from ggmc.warmup.step_size import DualAveraging, acceptance, first_step_size, harmonic_mean
from tests.support.gaussians import CORRELATED, gaussian, normal
from tests.support.logistic import logistic

F64 = torch.float64


@pytest.mark.parametrize("wanted", [0.6, 0.8, 0.95])
def test_dual_averaging_finds_the_wanted_acceptance(wanted: float) -> None:
    dual = DualAveraging.around(5.0, wanted)
    for _ in range(2000):
        dual.update(math.exp(-dual.exploring))
    assert math.exp(-dual.settled) == pytest.approx(wanted, abs=0.02)


def test_harmonic_mean_listens_to_the_chain_that_is_stuck() -> None:
    free = torch.log(torch.tensor([0.9, 0.9, 0.9, 0.9], dtype=F64))
    stuck = torch.tensor([math.log(0.9)] * 3 + [-math.inf], dtype=F64)
    assert harmonic_mean(free) == pytest.approx(0.9)
    assert harmonic_mean(torch.tensor([3.0, 0.0], dtype=F64)) == pytest.approx(1.0)
    assert 0 < harmonic_mean(stuck) < 0.01
    assert harmonic_mean(torch.log(torch.tensor([0.5, 1.0], dtype=F64))) == pytest.approx(2 / 3)


@pytest.mark.parametrize("kernel", [ggmc.GGMC(), ggmc.GGMC(steps=3)])
def test_the_step_size_hears_the_harmonic_mean(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    update = DualAveraging.update

    def listening(self: DualAveraging, acceptance: float) -> None:
        heard.append(acceptance)
        update(self, acceptance)

    monkeypatch.setattr(DualAveraging, "update", listening)
    chains = Chains(gaussian(), kernel, 4, 60, 0)
    assert [harmonic_mean(chains.advance().log_accept) for _ in range(60)] == heard


def test_target_accept_is_obeyed() -> None:
    means = [
        ggmc.sample(normal(CORRELATED), ggmc.HMC(steps=1), 300, target_accept=wanted, progress=False)
        .stats["acceptance_rate"]
        .mean()
        for wanted in (0.65, 0.97)
    ]
    assert means[0] < 0.9 < means[1]


def test_what_is_kept_is_the_settled_step_and_each_kernel_has_its_wanted_acceptance() -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 100, 0)
    for _ in range(100):
        chains.advance()
    dual = chains.warmup.learnt.dual
    assert dual is not None
    assert chains.kernel.step_size == dual.settled != dual.exploring
    kernels = (ggmc.MALA(), ggmc.HMC(), ggmc.GGMC(), ggmc.GGMC(steps=1))
    assert [Warmup(kernel, gaussian(), 100).wanted for kernel in kernels] == [0.6, 0.8, 0.8, 0.8]


def test_dual_averaging_is_its_equations() -> None:
    """Of Hoffman and Gelman (2014), with γ = 0.05, t₀ = 10 and κ = 0.75, inclined to twice the first step size."""
    dual = DualAveraging.around(0.3, 0.8)
    for size in (dual.first, dual.exploring, dual.settled):
        assert size == pytest.approx(0.3)
    error = average = 0.0
    for count, accepted in enumerate((0.5, 1.0, 0.2), start=1):
        dual.update(accepted)
        error += (0.8 - accepted - error) / (count + 10)
        log_step = math.log(0.6) - math.sqrt(count) / 0.05 * error
        average = count**-0.75 * log_step + (1 - count**-0.75) * average
        assert dual.exploring == pytest.approx(math.exp(log_step))
        assert dual.settled == pytest.approx(math.exp(average))
    assert dual.first == pytest.approx(0.3)


def test_where_a_low_acceptance_is_chance_the_step_size_hears_the_plain_mean() -> None:
    log_accept = torch.tensor([math.log(0.5), 2.0, -math.inf, 0.0], dtype=F64)
    with_tape, without = (guide.bind(logistic()) for guide in (ggmc.Minibatch(10), ggmc.Exact()))
    assert acceptance(log_accept, with_tape) == pytest.approx(2.5 / 4)
    assert acceptance(log_accept, without) == pytest.approx(4 / (2 + 1 + 1000 + 1))


def test_many_chains_settle_where_few_do() -> None:
    """A harmonic mean over 64 chains followed the rarest α alone, and settled at an acceptance of 0.98."""
    accepted = {
        chains: ggmc.sample(gaussian(20), draws=200, warmup=300, chains=chains, progress=False)
        .stats["acceptance_rate"]
        .mean()
        for chains in (4, 64)
    }
    assert abs(accepted[64] - accepted[4]) < 0.06
    groups = torch.log(torch.tensor([0.5, 1.0, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0], dtype=F64))
    assert harmonic_mean(groups) == pytest.approx((2 / 3 + 1) / 2)


@pytest.mark.parametrize(("limit", "first"), [(0.7, 0.8), (0.03, 0.025)])
def test_the_first_step_size_is_where_half_is_crossed(limit: float, first: float) -> None:
    """Every trial begins where the chains are, with a momentum of its own that has the temperature and the mass."""
    start = State(torch.ones(4, 2, dtype=F64), torch.full((4, 2), math.nan, dtype=F64))
    numbers = Parameters.of(math.nan, 1.0, 0.25, Diagonal(torch.tensor([4.0, 16.0], dtype=F64)))
    replay, tried = torch.Generator().manual_seed(0), list[float]()

    def step(state: State, parameters: Parameters, generator: torch.Generator) -> tuple[State, Info]:
        noise = torch.randn(4, 2, dtype=F64, generator=replay)
        torch.testing.assert_close(state.momentum, noise * torch.tensor([1.0, 2.0], dtype=F64))
        assert torch.equal(state.position, start.position)
        tried.append(parameters.step_size.item())
        log_accept = torch.full((4,), math.log(0.51 if tried[-1] < limit else 0.49), dtype=F64)
        nothing = torch.zeros(4, dtype=F64)
        return state._replace(position=state.position + 1), Info(
            log_accept, nothing > 0, nothing > 0, nothing, nothing, 1
        )

    sampler: Any = SimpleNamespace(step=step, field=ggmc.Exact().bind(gaussian()))
    found = first_step_size(sampler, numbers, start, torch.Generator().manual_seed(0))
    assert found == tried[-1] == pytest.approx(first)
