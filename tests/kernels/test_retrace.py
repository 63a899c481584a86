"""Theorem 1: symplectic Euler–Maruyama cannot retrace its step; every word here can."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput, NotExact
from tests.support.invariance import noisy_funnel

F64 = torch.float64
STEP_SIZES = [1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0]


def target() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**4 / 4 + x).sum() - x[0] * x[1], torch.zeros(2, dtype=F64))


@pytest.mark.parametrize("step_size", STEP_SIZES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_way_back_of_symplectic_euler_has_density_zero_at_every_step_size(step_size: float, seed: int) -> None:
    found = ggmc.retrace(ggmc.SGHMC(step_size, friction=0.7, steps=1), target(), seed=seed)
    assert not found.possible
    # Of the way (h v, m' − m) that the step went, the drift h (m' − m) cannot be made good.
    assert found.distance > 0.2 * step_size


@pytest.mark.parametrize(
    ("steps", "step_size"),
    [*((1, h) for h in STEP_SIZES), *((3, h) for h in STEP_SIZES[:-1])],  # at h = 1 three steps run off to infinity
)
@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BAB)O", "O(ABA)O", "ACA"])
def test_every_word_retraces_its_steps(word: str, step_size: float, steps: int) -> None:
    found = ggmc.retrace(ggmc.GGMC(step_size, 0.7, steps, word), target())
    assert found.possible
    assert found.distance < 1e-3 * step_size


@pytest.mark.parametrize("order", ["iid", "epoch", "palindrome"])
@pytest.mark.parametrize("kind", [ggmc.GGMC, ggmc.AMAGOLD])
def test_with_minibatches_too(kind: Any, order: str) -> None:
    case = noisy_funnel()
    assert ggmc.retrace(kind(0.2, 0.7, 4, guide=ggmc.Minibatch(4, order)), case.target).possible
    assert not ggmc.retrace(ggmc.SGHMC(0.2, 0.7, 1, ggmc.Minibatch(4, order)), case.target).possible


@pytest.mark.parametrize("kernel", [ggmc.MALA(0.3), ggmc.MALT(0.3, 1.0, 3), ggmc.HMC(0.3, 4), ggmc.SGLD(0.3)], ids=str)
def test_the_special_cases(kernel: Any) -> None:
    assert ggmc.retrace(kernel, target()).possible


def test_a_sampler_of_ones_own() -> None:
    gradient = target().potential_and_gradient

    def kick_then_drift(position: Tensor, momentum: Tensor, noise: Tensor, backwards: bool) -> tuple[Tensor, Tensor]:
        momentum = momentum - 0.1 * gradient(position)[1] + 0.2 * noise[0]
        return position + 0.1 * momentum, momentum

    def leapfrog(position: Tensor, momentum: Tensor, noise: Tensor, backwards: bool) -> tuple[Tensor, Tensor]:
        momentum = momentum - 0.05 * gradient(position)[1]
        position = position + 0.1 * momentum
        return position, momentum - 0.05 * gradient(position)[1]

    assert not ggmc.retrace(kick_then_drift, target(), noises=1).possible
    assert ggmc.retrace(leapfrog, target(), noises=0).possible
    with pytest.raises(BadInput, match="a function and its number of noises"):
        ggmc.retrace(leapfrog, target())


def test_correcting_it_is_refused_with_the_reason() -> None:
    with pytest.raises(NotExact, match=r"never retraces its step.*\(Theorem 1\)"):
        ggmc.SGHMC(0.1, adjust=True)


def test_watching_it_tells_that_alpha_is_zero() -> None:
    trace = ggmc.sample(target(), ggmc.SGHMC(0.1), draws=20, warmup=5, progress=False)
    assert (trace.stats["log_accept"] == -math.inf).all()
    assert trace.stats["is_accepted"].all()
    assert any("SGHMC is biased, and no test can say by how much" in warning for warning in trace.warnings)


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a kernel with a step_size"):
        ggmc.retrace(ggmc.GGMC(), target())
    single = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2))
    with pytest.raises(BadInput, match="needs a target in float64"):
        ggmc.retrace(ggmc.GGMC(0.1), single)
