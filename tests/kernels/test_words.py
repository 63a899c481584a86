"""Kernels that are words: which word each is, what a trajectory costs, and what it reads and draws."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.guides import GradientField, Guide
from ggmc.guides.orders import Order
from ggmc.kernels import Program
from ggmc.targets.base import Target
from tests.support.kernels import begin, quartic_with_data
from tests.support.logistic import logistic

F64 = torch.float64


def program(kernel: Any) -> Program:
    return kernel.program(kernel.guide.bind(quartic_with_data()))


def test_every_kernel_states_its_word() -> None:
    assert program(ggmc.HMC(0.1, 5)) == program(ggmc.GGMC(0.1, math.inf, 5, "O(BAB)O"))
    assert program(ggmc.MALA(0.1)) == program(ggmc.GGMC(0.1, math.inf, 1, "OBABO"))
    assert program(ggmc.MALT(0.1, 2.0, 5)) == program(ggmc.GGMC(0.1, 2.0, 5, "OBABO", fresh_momentum=True))
    assert program(ggmc.SGLD(0.1, 5)) == program(ggmc.GGMC(0.1, math.inf, 5, "OBABO", adjust=False))
    assert program(ggmc.AMAGOLD(0.1, 2.0, 5)) == program(ggmc.GGMC(0.1, 2.0, 5, "ACA"))
    assert program(ggmc.SGHMC(0.1, 2.0, 5)).word == "EA"
    assert program(ggmc.SGNHT(0.1, 2.0, 5)).word == "BADNDAB"


@pytest.mark.parametrize(
    ("kernel", "word"),
    [
        (ggmc.HMC(0.3, 5, mass=[1.0, 2.0]), ggmc.GGMC(0.3, math.inf, 5, "O(BAB)O", mass=[1.0, 2.0])),
        (ggmc.MALA(0.3, temperature=0.5), ggmc.GGMC(0.3, math.inf, 1, "OBABO", temperature=0.5)),
        (ggmc.MALT(0.3, 2.0, 5), ggmc.GGMC(0.3, 2.0, 5, "OBABO", fresh_momentum=True)),
        (
            ggmc.AMAGOLD(0.3, 2.0, 5, ggmc.Minibatch(2)),
            ggmc.GGMC(0.3, 2.0, 5, "ACA", ggmc.Minibatch(2)),
        ),
    ],
    ids=str,
)
def test_a_kernel_does_what_ggmc_with_its_word_does(kernel: Any, word: Any) -> None:
    ends = []
    for each in (kernel, word):
        state, step, generator = begin(each, quartic_with_data())
        state, _ = step(state, generator)
        ends.append(step(state, generator))
    (one, told), (other, expected) = ends
    assert torch.equal(one.position, other.position)
    assert torch.equal(one.momentum, other.momentum)
    assert torch.equal(told.log_accept, expected.log_accept)


# Gradients and tapes


def test_one_gradient_per_step() -> None:
    calls = 0

    class Counting(ggmc.Density):
        def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
            nonlocal calls
            calls += 1
            return super().potential_and_gradient(position)

        def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
            raise AssertionError("the last gradient had the potential for free")

    target = Counting(lambda x: -(x**2).sum(), torch.zeros(2, dtype=F64))
    for kernel in (
        ggmc.GGMC(0.1, steps=5),
        ggmc.HMC(0.1, 5),
        ggmc.MALT(0.1, 1.0, 5),
        ggmc.GGMC(0.1, scheme="BAOAB", steps=5),
        ggmc.SGLD(0.1, 5),
        ggmc.SGNHT(0.1, steps=5),
    ):
        generator = torch.Generator().manual_seed(0)
        init, step = kernel.bind(target)
        state = init(torch.zeros(3, 2, dtype=F64), generator)
        calls = 0
        for _ in range(4):
            state, _ = step(state, generator)
        assert calls == 20


class Numbered(Order):
    """Every entry has a number of its own: 1000 for each tape and one for each entry."""

    def __init__(self) -> None:
        super().__init__(name="numbered", reversible=False)
        self.tapes: list[list[int]] = []

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        self.tapes.append([1000 * len(self.tapes) + i for i in range(entries)])
        return torch.tensor(self.tapes[-1])[:, None].expand(entries, chains)

    def sweep(self, batches: int) -> int:
        return 1


class Recording(GradientField):
    def __init__(self, order: Order):
        super().__init__(order=order)
        self.read: list[int] = []

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        assert entry is not None
        assert len(entry.unique()) == 1
        self.read.append(int(entry[0]))
        return position, None


@dataclass(frozen=True)
class Given(Guide):
    field: GradientField

    def bind(self, target: Target) -> GradientField:
        return self.field


@pytest.mark.parametrize("word", ["OBABO", "O(ABA)O", "BAOAB", "ACA", "O(BABAB)O"])
def test_every_kick_point_reads_its_own_entry_of_a_fresh_tape(word: str) -> None:
    order = Numbered()
    field = Recording(order)
    kernel = ggmc.GGMC(0.1, steps=3, scheme=word, guide=Given(field), adjust=False)
    state, step, generator = begin(kernel, quartic_with_data(), chains=3)
    for _ in range(3):
        state, _ = step(state, generator)
        assert state.gradient is None
    assert len(order.tapes) == 3
    assert field.read == [entry for tape in order.tapes for entry in tape]


# Lengths


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


def test_steps_of_a_pair_are_drawn_evenly() -> None:
    state, step, generator = begin(ggmc.HMC(0.01, (2, 4)), quartic_with_data(), chains=1)
    seen = [step(state, generator)[1].steps for _ in range(600)]
    assert {n: 150 < seen.count(n) < 250 for n in set(seen)} == {2: True, 3: True, 4: True}


def test_the_number_of_steps_does_not_depend_on_the_state() -> None:
    init, step = ggmc.HMC(0.1, (1, 9)).bind(quartic_with_data())
    generator = torch.Generator()

    def seen(place: float) -> list[int]:
        state = init(torch.full((2, 2), place, dtype=F64), generator.manual_seed(0))
        return [step(state, generator.manual_seed(seed))[1].steps for seed in range(30)]

    assert seen(-1.0) == seen(0.0) == seen(1.0) == seen(4.0)


# Friction and noise


@pytest.mark.parametrize("word", ["O(BAB)O", "OBABO", "BAOAB", "O(ABA)O"])
def test_friction_acts_for_the_whole_time_of_a_trajectory(word: str) -> None:
    """Without a force or noise, momentum falls by e^(−γ·steps·h), wherever the O's stand."""
    flat = ggmc.Density(lambda x: -1e-12 * x.sum(), torch.zeros(1, dtype=F64))
    state, step, generator = begin(ggmc.GGMC(0.1, 0.7, 4, word, temperature=0.0, adjust=False), flat, chains=3)
    after, _ = step(state._replace(momentum=torch.ones(3, 1, dtype=F64)), generator)
    torch.testing.assert_close(after.momentum, torch.full((3, 1), math.exp(-0.28), dtype=F64))


def test_temperature_zero_is_descent() -> None:
    """No noise at all: every chain comes to rest at the minimum, −1."""
    kernel = ggmc.GGMC(step_size=0.1, friction=5.0, temperature=0.0, adjust=False)
    state, step, generator = begin(kernel, quartic_with_data(), chains=6, at=[[0.3, -0.2]])
    assert (state.momentum == 0).all()
    for _ in range(500):
        state, info = step(state, generator)
        assert not info.diverging.any()
        assert info.log_accept.dtype == torch.float64
    torch.testing.assert_close(state.position, torch.full_like(state.position, -1.0))


def test_rejections_keep_the_refreshment() -> None:
    """A hopeless step: every trajectory is rejected, and yet the momentum goes on being refreshed."""
    state, step, generator = begin(ggmc.GGMC(step_size=50.0, friction=0.01), quartic_with_data(), chains=6)
    momenta = []
    for _ in range(4):
        state, info = step(state, generator)
        assert not info.accepted.any()
        momenta.append(state.momentum)
    for one, next_one in itertools.pairwise(momenta):
        assert not (one.abs() == next_one.abs()).any()


@pytest.mark.parametrize(
    ("kernel", "never"),
    [
        (ggmc.GGMC(0.1, 0.0, 2), True),
        (ggmc.GGMC(0.1, 1.0, 2, "BAB"), True),
        (ggmc.GGMC(0.1, 0.0, 2, fresh_momentum=True), False),
        (ggmc.GGMC(0.1, 1.0, 2), False),
        (ggmc.AMAGOLD(0.1, 0.0, 2), True),
        (ggmc.AMAGOLD(0.1, 1.0, 2), False),
        (ggmc.MALT(0.1, 0.0, 2), False),
    ],
    ids=str,
)
def test_a_momentum_that_is_never_refreshed_is_remarked_upon(kernel: Any, never: bool) -> None:
    target = quartic_with_data()
    remarks = kernel.sampler(target, kernel.guide.bind(target)).remarks
    assert any("momentum is never refreshed" in remark for remark in remarks) == never


@pytest.mark.parametrize("mass", [[4.0, 9.0, 16.0], [[4.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 16.0]]])
def test_first_momenta_have_their_distribution(mass: Any) -> None:
    """N(0, T·M): the noise of the identity, times √T and the root of the mass."""
    position = torch.zeros(5, 3, dtype=F64)
    plain, _ = ggmc.GGMC(0.1).bind(logistic())
    init, _ = ggmc.GGMC(0.1, temperature=0.25, mass=mass).bind(logistic())
    noise = plain(position, torch.Generator().manual_seed(0)).momentum
    momentum = init(position, torch.Generator().manual_seed(0)).momentum
    torch.testing.assert_close(momentum, 0.5 * noise * torch.tensor([2.0, 3.0, 4.0], dtype=F64))


@pytest.mark.parametrize("kind", [ggmc.HMC, ggmc.MALT])
def test_a_fresh_momentum_is_drawn_with_the_numbers_given_to_the_step(kind: Any) -> None:
    target = quartic_with_data()
    other = kind(0.1, steps=2, temperature=0.3, mass=[5.0] * target.layout.size)
    state, step, _ = begin(kind(0.1, steps=2), target)
    parameters = other.sampler(target, other.guide.bind(target)).parameters
    given, _ = step(state, torch.Generator().manual_seed(1), parameters)
    bound, _ = other.bind(target)[1](state, torch.Generator().manual_seed(1))
    assert torch.equal(given.momentum, bound.momentum)
