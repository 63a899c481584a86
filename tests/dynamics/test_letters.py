"""Each letter against its equation: where the chains go, the work, and the noise that is drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from ggmc.dynamics.letters import LETTERS, Motion, OnKick, dot, fresh_momentum
from ggmc.dynamics.mass import Dense, Diagonal, Identity, LowRank, Mass
from ggmc.dynamics.state import Parameters, State
from tests.support.motion import FunctionField

F64 = torch.float64
STEP_SIZE = torch.tensor([0.1, 0.25, 0.4, 0.7], dtype=F64)
FRICTION = torch.tensor([0.5, 2.0, 0.0, 1.3], dtype=F64)
TEMPERATURE = torch.tensor([1.0, 0.6, 2.0, 3.5], dtype=F64)
TIME = 0.75
SCALES = torch.tensor([2.0, 0.5, 3.0], dtype=F64)
MATRIX = torch.tensor([[2.0, 0.8, 0.1], [0.8, 1.0, -0.3], [0.1, -0.3, 0.7]], dtype=F64)
COLUMN = torch.tensor([[0.6], [0.0], [0.8]], dtype=F64)
LOW_RANK = LowRank(SCALES, COLUMN, torch.tensor([8.0], dtype=F64))
ROOT = SCALES.sqrt()
FULL = torch.diag(SCALES) + 8 * torch.outer(ROOT * COLUMN[:, 0], ROOT * COLUMN[:, 0])
MASSES = [(Diagonal(SCALES), torch.diag(SCALES)), (Dense(MATRIX), MATRIX), (LOW_RANK, FULL)]

POSITION, MOMENTUM, GRADIENT, NOISE = torch.randn(4, 4, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
WORK_BEFORE = torch.tensor([0.3, -1.0, 0.0, 2.0], dtype=F64)

# The numbers of each chain as columns, as in the equations.
T_CHAIN = TIME * STEP_SIZE
t, gamma, temperature = T_CHAIN[:, None], FRICTION[:, None], TEMPERATURE[:, None]


def by_chain(mass: Mass) -> Parameters:
    return Parameters.of(STEP_SIZE, FRICTION, TEMPERATURE, mass)


def no_noise() -> Tensor:
    raise AssertionError("no noise should be drawn")


def motion(
    parameters: Parameters,
    noise: Callable[[], Tensor] = lambda: NOISE,
    on_kick: OnKick | None = None,
    dtype: torch.dtype = F64,
) -> Motion:
    """At POSITION with MOMENTUM, under a constant gradient."""
    field = FunctionField(lambda position, entry: (GRADIENT.to(dtype), None))
    state = State(POSITION.to(dtype), MOMENTUM.to(dtype))
    return Motion(state, parameters, field, None, noise, on_kick)


def moved(letter: str, parameters: Parameters, warmth: float = 1.0) -> Motion:
    """After one letter, with some work already done."""
    path = motion(parameters)
    path.work = WORK_BEFORE
    LETTERS[letter].apply(path, LETTERS[letter].prepare(TIME, warmth, parameters, POSITION))
    return path


def kinetic(momentum: Tensor, matrix: Tensor) -> Tensor:
    """½ mᵀM⁻¹m."""
    return (momentum * torch.linalg.solve(matrix, momentum.mT).mT).sum(1) / 2


def coloured(matrix: Tensor) -> Tensor:
    """M^½ε."""
    return (torch.linalg.cholesky(matrix) @ NOISE.mT).mT


def kick_work(after: Tensor, matrix: Tensor) -> Tensor:
    """−(t/2) · g · M⁻¹(m_before + m_after)."""
    return -T_CHAIN / 2 * (GRADIENT * torch.linalg.solve(matrix, (MOMENTUM + after).mT).mT).sum(1)


class Expected(NamedTuple):
    momentum: Tensor
    work: Tensor


def friction(matrix: Tensor, warmth: float) -> Expected:
    keep = torch.exp(-gamma * t)
    after = keep * MOMENTUM + ((1 - keep**2) * temperature * warmth).sqrt() * coloured(matrix)
    heat = kinetic(after, matrix) - kinetic(MOMENTUM, matrix)
    return Expected(after, (1 - 1 / warmth) * heat)


def kick(matrix: Tensor, warmth: float) -> Expected:
    after = MOMENTUM - t * GRADIENT
    return Expected(after, kinetic(after, matrix) - kinetic(MOMENTUM, matrix))


def implicit_kick(matrix: Tensor, warmth: float) -> Expected:
    c = gamma * t / 2
    noise = (4 * c * temperature * warmth).sqrt() * coloured(matrix)
    after = ((1 - c) * MOMENTUM - t * GRADIENT + noise) / (1 + c)
    work = kick_work(after, matrix)
    heat = kinetic(after, matrix) - kinetic(MOMENTUM, matrix) - work
    return Expected(after, work + (1 - 1 / warmth) * heat)


def euler_kick(matrix: Tensor, warmth: float) -> Expected:
    noise = (2 * gamma * t * temperature * warmth).sqrt() * coloured(matrix)
    return Expected((1 - gamma * t) * MOMENTUM - t * GRADIENT + noise, torch.zeros(4, dtype=F64))


EQUATIONS = {"O": friction, "B": kick, "C": implicit_kick, "E": euler_kick}


@pytest.mark.parametrize("warmth", [1.0, 2.0, 0.4])
@pytest.mark.parametrize(("mass", "matrix"), MASSES[:2], ids=["diagonal", "dense"])  # noise by the factor L
@pytest.mark.parametrize("letter", EQUATIONS)
def test_momentum_and_work_are_those_of_the_equation(letter: str, mass: Mass, matrix: Tensor, warmth: float) -> None:
    path = moved(letter, by_chain(mass), warmth)
    expected = EQUATIONS[letter](matrix, warmth)
    torch.testing.assert_close(path.momentum, expected.momentum)
    torch.testing.assert_close(path.work, WORK_BEFORE + expected.work)
    assert torch.equal(path.position, POSITION)


@pytest.mark.parametrize(("mass", "matrix"), MASSES, ids=["diagonal", "dense", "low rank"])
def test_a_drift_moves_the_position_by_the_velocity_and_does_no_work(mass: Mass, matrix: Tensor) -> None:
    path = moved("A", by_chain(mass))
    torch.testing.assert_close(path.position, POSITION + t * torch.linalg.solve(matrix, MOMENTUM.mT).mT)
    assert torch.equal(path.momentum, MOMENTUM)
    assert torch.equal(path.work, WORK_BEFORE)
    assert path.gradient is None
    assert path.potential is None


@pytest.mark.parametrize("letter", LETTERS)
def test_one_number_for_all_chains_is_the_same_number_for_each(letter: str) -> None:
    for_all = Parameters.of(0.25, 2.0, 0.6, Dense(MATRIX))
    each = torch.ones(4, dtype=F64)
    for_each = Parameters.of(0.25 * each, 2.0 * each, 0.6 * each, Dense(MATRIX))
    one, other = (moved(letter, parameters, 2.0) for parameters in (for_all, for_each))
    torch.testing.assert_close(one.position, other.position)
    torch.testing.assert_close(one.momentum, other.momentum)
    torch.testing.assert_close(one.work, other.work)


@pytest.mark.parametrize("letter", LETTERS)
def test_rows_keep_their_precision_and_work_is_float64(letter: str) -> None:
    parameters = by_chain(Dense(MATRIX, torch.float32))
    path = motion(parameters, lambda: NOISE.float(), dtype=torch.float32)
    assert path.work.dtype == F64
    LETTERS[letter].apply(path, LETTERS[letter].prepare(TIME, 2.0, parameters, path.position))
    assert path.position.dtype == path.momentum.dtype == torch.float32
    assert path.work.dtype == F64
    exact = moved(letter, by_chain(Dense(MATRIX)), 2.0)
    torch.testing.assert_close(path.momentum, exact.momentum.float())
    torch.testing.assert_close(path.position, exact.position.float())


def test_products_of_float32_rows_are_summed_in_float64() -> None:
    row = torch.ones(1, 3)
    row[0, 0] = 2.0**12  # to whose square single precision cannot add one
    assert dot(row, row).item() == 2.0**24 + 2


def test_infinite_friction_draws_the_momentum_afresh() -> None:
    parameters = Parameters.of(STEP_SIZE, torch.inf, TEMPERATURE, Dense(MATRIX))
    path = moved("O", parameters)
    torch.testing.assert_close(path.momentum, temperature.sqrt() * coloured(MATRIX))
    torch.testing.assert_close(fresh_momentum(parameters, NOISE), path.momentum)


# Noise


@pytest.mark.parametrize(
    ("letter", "friction", "temperature", "expected"),
    [
        *((letter, 0.0, 1.0, 0) for letter in LETTERS),
        *((letter, torch.zeros(4), 1.0, 0) for letter in LETTERS),
        *((letter, 0.5, 1.0, int(letter in "OCE")) for letter in LETTERS),
        *((letter, FRICTION, TEMPERATURE, int(letter in "OCE")) for letter in LETTERS),
        ("E", 0.5, 0.0, 0),
        ("E", torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 1.0, 1.0]), 0),
    ],
)
def test_a_letter_draws_as_many_noises_as_it_says(
    letter: str, friction: float | Tensor, temperature: float | Tensor, expected: int
) -> None:
    parameters = Parameters.of(0.1, friction, temperature, Identity())
    drawn = 0

    def noise() -> Tensor:
        nonlocal drawn
        drawn += 1
        return NOISE

    path = motion(parameters, noise)
    LETTERS[letter].apply(path, LETTERS[letter].prepare(TIME, 1.0, parameters, POSITION))
    assert drawn == expected
    assert LETTERS[letter].noises(TIME, parameters) == expected


@pytest.mark.parametrize("letter", LETTERS)
def test_a_letter_of_no_time_draws_as_many_noises_as_it_says(letter: str) -> None:
    parameters = Parameters.of(0.1, 0.5, 1.0, Identity())
    drawn = 0

    def noise() -> Tensor:
        nonlocal drawn
        drawn += 1
        return NOISE

    path = motion(parameters, noise)
    LETTERS[letter].apply(path, LETTERS[letter].prepare(0.0, 1.0, parameters, POSITION))
    assert drawn == LETTERS[letter].noises(0.0, parameters)


@pytest.mark.parametrize("friction", [0.5, torch.inf])
def test_friction_for_no_time_is_nothing(friction: float) -> None:
    parameters = Parameters.of(0.1, friction, 1.0, Identity())
    path = motion(parameters, no_noise)
    LETTERS["O"].apply(path, LETTERS["O"].prepare(0.0, 2.0, parameters, POSITION))
    assert LETTERS["O"].noises(0.0, parameters) == 0
    assert torch.equal(path.momentum, MOMENTUM)
    assert not path.work.any()


@pytest.mark.parametrize("letter", ["C", "E"])
def test_without_friction_every_kick_is_the_same(letter: str) -> None:
    parameters = Parameters.of(STEP_SIZE, 0.0, TEMPERATURE, Dense(MATRIX))
    torch.testing.assert_close(moved(letter, parameters).momentum, moved("B", parameters).momentum)


# What a motion tells, and what it asks


@pytest.mark.parametrize("letter", ["B", "C"])
@pytest.mark.parametrize(("mass", "matrix"), MASSES, ids=["diagonal", "dense", "low rank"])
def test_a_kick_tells_its_time_place_gradient_and_mean_velocity(letter: str, mass: Mass, matrix: Tensor) -> None:
    told: list[tuple[Tensor, ...]] = []
    parameters = by_chain(mass)
    path = motion(parameters, on_kick=lambda *arguments: told.append(arguments))
    LETTERS[letter].apply(path, LETTERS[letter].prepare(TIME, 1.0, parameters, POSITION))
    ((time, position, gradient, velocity),) = told
    torch.testing.assert_close(time, T_CHAIN)
    assert torch.equal(position, POSITION)
    assert torch.equal(gradient, GRADIENT)
    torch.testing.assert_close(velocity, torch.linalg.solve(matrix, (MOMENTUM + path.momentum).mT).mT / 2)
    torch.testing.assert_close(path.work, -time * (gradient * velocity).sum(1))


def test_each_new_position_reads_the_next_entry_of_the_tape() -> None:
    tape = torch.arange(12).view(3, 4)
    read: list[list[int]] = []

    def field(position: Tensor, entry: Tensor) -> tuple[Tensor, Tensor]:
        read.append(entry.tolist())
        return position * entry[:, None], entry.double()

    path = Motion(State(POSITION, MOMENTUM), by_chain(Identity()), FunctionField(field), tape, no_noise)
    for number, entry in enumerate(tape):
        place = POSITION + number
        path.move_to(place)
        assert path.gradient is None
        for _ in range(2):  # the second kick from one place knows its gradient
            assert torch.equal(path.force(), place * entry[:, None])
        assert torch.equal(path.potential, entry.double())  # pyright: ignore[reportArgumentType]
    assert read == tape.tolist()


def test_a_gradient_that_the_state_brings_reads_no_entry() -> None:
    def field(position: Tensor, entry: Tensor) -> tuple[Tensor, None]:
        return position * entry[:, None], None

    state = State(POSITION, MOMENTUM, gradient=GRADIENT)
    path = Motion(state, by_chain(Identity()), FunctionField(field), torch.full((1, 4), 7), no_noise)
    assert torch.equal(path.force(), GRADIENT)
    path.move_to(POSITION)
    assert torch.equal(path.force(), 7 * POSITION)


@pytest.mark.parametrize("letter", LETTERS)
def test_nothing_is_made_on_the_default_device(letter: str) -> None:
    parameters = by_chain(Dense(MATRIX))
    with torch.device("meta"):
        path = motion(parameters)
        LETTERS[letter].apply(path, LETTERS[letter].prepare(TIME, 2.0, parameters, POSITION))
    cpu = torch.device("cpu")
    assert (path.position.device, path.momentum.device, path.work.device) == (cpu, cpu, cpu)
