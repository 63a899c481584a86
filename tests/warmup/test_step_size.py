"""The step size: dual averaging, and what it follows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import ggmc
from ggmc.sampling.chains import Chains
from ggmc.warmup import Warmup
from ggmc.warmup.step_size import DualAveraging, harmonic_mean
from tests.support.gaussians import CORRELATED, gaussian, normal

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
        ggmc.sample(normal(CORRELATED), draws=300, target_accept=wanted, progress=False).stats["acceptance_rate"].mean()
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
