"""Theorem 1: symplectic Euler–Maruyama cannot retrace its steps, however many; every palindrome can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.schedule import Along, Cosine, Cyclical, Drops, Over, ThereAndBack
from ggmc.errors import BadInput
from ggmc.guides import GradientField
from ggmc.kernels import Kernel, Sampler
from ggmc.targets.base import Target
from tests.support.invariance import noisy_funnel

F64 = torch.float64
STEP_SIZES = [1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0]


def target() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**4 / 4 + x).sum() - x[0] * x[1], torch.zeros(2, dtype=F64))


# Symplectic Euler–Maruyama


@pytest.mark.parametrize("step_size", STEP_SIZES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_way_back_of_symplectic_euler_has_density_zero_at_every_step_size(step_size: float, seed: int) -> None:
    found = ggmc.retrace(ggmc.SGHMC(step_size, friction=0.7, steps=1), target(), seed=seed)
    assert not found.possible
    # Of the way (h v, m' − m) that the step went, the drift h (m' − m) cannot be made good.
    assert found.distance > 0.2 * step_size


@pytest.mark.parametrize("steps", [2, 3, 4, 10])
@pytest.mark.parametrize("friction", [0.0, 0.7, 5.0])
def test_more_steps_do_not_help(steps: int, friction: float) -> None:
    """With two steps or more some noise connects any two ends, by a path that is not the way back."""
    found = ggmc.retrace(ggmc.SGHMC(0.1, friction, steps), target())
    assert not found.possible
    assert found.distance > 0.02


@pytest.mark.parametrize("order", ["iid", "epoch", "palindrome"])
@pytest.mark.parametrize("steps", [1, 2, 4, None])
def test_nor_do_minibatches(order: str, steps: int | None) -> None:
    kernel = ggmc.SGHMC(0.1, 0.7, steps, ggmc.Minibatch(4, order))
    assert not ggmc.retrace(kernel, noisy_funnel().target).possible


# Palindromes


@pytest.mark.parametrize(
    ("steps", "step_size"),
    [*((1, h) for h in STEP_SIZES), *((3, h) for h in STEP_SIZES[:-1])],  # at h = 1 three steps run off to infinity
)
@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BAB)O", "O(ABA)O", "ACA"])
def test_every_word_retraces_its_steps(word: str, step_size: float, steps: int) -> None:
    found = ggmc.retrace(ggmc.GGMC(step_size, 0.7, steps, word), target())
    assert found.possible
    assert found.distance < 1e-3 * step_size


@pytest.mark.parametrize("word", ["OBA", "BAO", "OAB", "OBAO", "OABO"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_other_words_do_not(word: str, steps: int) -> None:
    assert not ggmc.retrace(ggmc.GGMC(0.3, 0.7, steps, word, adjust=False), target()).possible


@pytest.mark.parametrize("order", ["iid", "epoch", "palindrome"])
@pytest.mark.parametrize("kind", [ggmc.GGMC, ggmc.AMAGOLD])
@pytest.mark.parametrize("recut", [False, True])
def test_with_minibatches_too(kind: Any, order: str, recut: bool) -> None:
    guide = ggmc.Minibatch(4, order, recut=recut)
    assert ggmc.retrace(kind(0.2, 0.7, 4, guide=guide), noisy_funnel().target).possible


@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "O(BABAB)O", "ABOBA"])
def test_entries_shared_by_neighbouring_kicks_are_shared_on_the_way_back(word: str) -> None:
    kernel = ggmc.GGMC(0.2, 0.7, 4, word, ggmc.Minibatch(4, "iid"))
    assert ggmc.retrace(kernel, noisy_funnel().target).possible


@pytest.mark.parametrize(
    "kernel",
    [
        ggmc.MALA(0.3),
        ggmc.MALT(0.3, 1.0, 3),
        ggmc.HMC(0.3, 4),
        ggmc.SGLD(0.3),
        ggmc.AMAGOLD(0.3, 1.0, 4),
        ggmc.GGMC(0.3, 0.7, (2, 5), mass=[1.0, 3.0]),
        ggmc.GGMC(0.3, 0.7, 3, over=Over(3, Cosine(0.2))),
    ],
    ids=str,
)
def test_the_special_cases(kernel: Any) -> None:
    assert ggmc.retrace(kernel, target()).possible


# Schedules


@pytest.mark.parametrize("schedule", [Cosine(), Cosine(0.5), Cyclical(2), Drops()], ids=str)
@pytest.mark.parametrize("word", ["OBABO", "O(ABA)O", "BAOAB", "ACA"])
class TestSchedules:
    def test_lopsided_ones_cannot_be_retraced(self, word: str, schedule: Any) -> None:
        kernel = ggmc.GGMC(0.3, 0.5, 4, word, adjust=False, along=Along(schedule))
        assert not ggmc.retrace(kernel, target()).possible

    def test_palindromes_can(self, word: str, schedule: Any) -> None:
        kernel = ggmc.GGMC(0.3, 0.5, 4, word, along=Along(ThereAndBack(schedule)))
        assert ggmc.retrace(kernel, target()).possible

    def test_and_so_can_those_that_go_either_way(self, word: str, schedule: Any) -> None:
        kernel = ggmc.GGMC(0.3, 0.5, 4, word, along=Along(schedule, either_way=True))
        assert ggmc.retrace(kernel, target()).possible


# Samplers of one's own


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


def test_a_way_back_that_is_not_a_number_is_none() -> None:
    def one_way(position: Tensor, momentum: Tensor, noise: Tensor, backwards: bool) -> tuple[Tensor, Tensor]:
        return position + 0.1 * momentum, momentum * (math.nan if backwards else 1.0)

    assert not ggmc.retrace(one_way, target(), noises=0).possible


@pytest.mark.parametrize("steps", [1, 3])
def test_a_kernels_own_variables_must_be_retraced_too(steps: int) -> None:
    """Positions and momenta of SGNHT alone could be; its thermostat moves the same way there and back."""
    found = ggmc.retrace(ggmc.SGNHT(0.3, 0.7, steps), target())
    assert not found.possible
    assert found.distance > 1e-3


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(BadInput, match="needs a kernel with a step_size"):
        ggmc.retrace(ggmc.GGMC(), target())
    single = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2))
    with pytest.raises(BadInput, match="needs a target in float64"):
        ggmc.retrace(ggmc.GGMC(0.1), single)

    @dataclass(frozen=True, eq=False)
    class Opaque(Kernel):
        step_size: float | None = 0.1
        guide: Any = ggmc.Exact()
        temperature: float = 1.0
        mass: Any = None
        adjust: bool = True

        def sampler(self, target: Target, field: GradientField) -> Sampler:
            raise NotImplementedError

    with pytest.raises(BadInput, match="needs a kernel that is a word"):
        ggmc.retrace(Opaque(), target())
