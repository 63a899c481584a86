"""Words: what they refuse, what they spell, and that every one of them can retrace its steps."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, repeat

import pytest
import torch

import ggmc
from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.mass import Dense, Diagonal, Identity, LowRank
from ggmc.dynamics.scheme import Plan, Scheme
from ggmc.dynamics.state import Parameters, State, normals
from ggmc.dynamics.trajectory import Trajectory
from ggmc.errors import BadInput, NotExact
from tests.support.motion import FIELD, TARGET, FunctionField, parameters, refreshed, some_state, travel

WORDS = ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BAB)O", "O(ABA)O", "AOBOA", "O(BABAB)O", "(BAB)", "ABABA", "OBAOABO"]
WORDS += ["O(BCSS3)O", "OBCSS4O", "O(BCSS2d)O", "OB0.2AO0.4ABAO0.4AB0.2O"]
F64 = torch.float64
MATRIX = torch.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=F64)
SCALES = torch.tensor([2.0, 0.5], dtype=F64)
LOW_RANK = LowRank(SCALES, torch.tensor([[0.6], [0.8]], dtype=F64), torch.tensor([3.0], dtype=F64))


# Parsing


@pytest.mark.parametrize(
    ("word", "error", "why"),
    [
        ("OBAO", NotExact, "letter 2 is B, but letter 2 from the end is A"),
        ("OBABA", NotExact, "letter 1 is O, but letter 1 from the end is A"),
        ("O(BA)O", NotExact, "letter 2 is B, but letter 2 from the end is A"),
        ("(BAB)O", NotExact, "letter 1 is B, but letter 1 from the end is O"),
        ("BA", NotExact, "must read the same backwards"),
        ("OBXBO", BadInput, "unknown letter 'X' at place 3"),
        ("obabo", BadInput, "unknown letter 'o' at place 1"),
        ("O BAB O", BadInput, "unknown letter ' ' at place 2"),
        ("O(BAB", BadInput, "one pair of parentheses"),
        ("O(B)(A)(B)O", BadInput, "one pair of parentheses"),
        ("O)BAB(O", BadInput, "one pair of parentheses"),
        ("O()O", BadInput, "one pair of parentheses"),
        ("", BadInput, "must be letters"),
        ("O(BA)BO", BadInput, "has B both inside and outside"),
        ("(AB)A", BadInput, "has A both inside and outside"),
        ("OBCBO", BadInput, "needs both a kick B and a drift A"),
        ("OBACABO", BadInput, "has both kicks, B and C"),
        ("O", BadInput, "needs both a kick B and a drift A"),
        ("OBO", BadInput, "needs both a kick B and a drift A"),
        ("B(ABA)B", BadInput, "B both inside and outside"),
        ("O(OBABO)O", BadInput, "O both inside and outside"),
    ],
)
def test_what_is_not_a_scheme_is_refused(word: str, error: type[Exception], why: str) -> None:
    if error is NotExact:
        assert re.search(why, Scheme(word).not_reversible or "")
    else:
        with pytest.raises(error, match=why):
            Scheme(word)
    with pytest.raises(error, match=why):
        ggmc.GGMC(scheme=word)
    with pytest.raises(error, match=why):
        replace(ggmc.GGMC(0.1), scheme=word).bind(TARGET)


@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_steps_must_be_a_count(steps) -> None:
    with pytest.raises(BadInput, match="steps must be a whole number of at least 1"):
        Scheme("OBABO").plan(steps)


@pytest.mark.parametrize(
    ("word", "steps", "spelt"),
    [
        ("OBABO", 1, "outside the test O h; tested B h/2, A h, B h/2"),
        ("OBABO", 2, "outside the test O h; tested B h/2, A h, B h/2, O h, B h/2, A h, B h/2"),
        ("O(BAB)O", 3, "outside the test O 3h; tested B h/2, A h, B h, A h, B h, A h, B h/2"),
        ("O(ABA)O", 2, "outside the test O 2h; tested A h/2, B h, A h, B h, A h/2"),
        ("OABAO", 2, "outside the test O h; tested A h/2, B h, A h/2, O h, A h/2, B h, A h/2"),
        ("BAOAB", 2, "tested B h/2, A h/2, O h, A h/2, B h, A h/2, O h, A h/2, B h/2"),
        ("ABOBA", 1, "tested A h/2, B h/2, O h, B h/2, A h/2"),
        ("(BABAB)", 1, "tested B h/3, A h/2, B h/3, A h/2, B h/3"),
    ],
)
def test_what_a_word_spells(word: str, steps: int, spelt: str) -> None:
    assert str(Scheme(word).plan(steps)) == spelt


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_every_letter_acts_for_the_whole_time_and_plans_read_the_same_backwards(word: str, steps: int) -> None:
    plan = Scheme(word).plan(steps)
    for letter in "OBA":
        time = sum((move.time for move in plan.moves if move.letter == letter), Fraction(0))
        time += sum((move.time for move in plan.before if move.letter == letter), Fraction(0))
        assert time == (steps if letter in Scheme(word).spelt.letters else 0)
    assert plan.moves == plan.moves[::-1]
    letters = [move.letter for move in plan.moves]
    assert all(a != b for a, b in pairwise(letters))
    assert letters[0] != "O"


@pytest.mark.parametrize(
    ("word", "gradients"),
    [
        ("OBABO", 6),
        ("O(BAB)O", 6),
        ("O(ABA)O", 5),
        ("OABAO", 5),
        ("BAOAB", 6),
        ("ABOBA", 5),
        ("O(BABAB)O", 11),
        ("O(BCSS3)O", 16),
        ("OBCSS4O", 21),
    ],
)
def test_gradients_are_counted_as_they_are_spent(word: str, gradients: int) -> None:
    plan = Scheme(word).plan(5)
    assert plan.gradients == gradients
    calls = 0

    def counting(position, entry):
        nonlocal calls
        calls += 1
        return FIELD(position, entry)

    state = some_state()
    noise = repeat(torch.zeros_like(state.position))
    how = parameters(friction=0.5)
    travel(plan, state, how, noise, FunctionField(counting))
    assert calls == gradients
    calls = 0
    Trajectory(state, how, FunctionField(counting), None, noise.__next__).run(plan.moves)
    assert calls == gradients - word.strip("O(").startswith("B")


# Reversibility and volume, in float64


def reverse_noise(plan: Plan, state: State, how: Parameters, noise: list[torch.Tensor]) -> list[torch.Tensor]:
    """The noise with which each O of the flipped way back undoes its own: M^½ε' = (−m + e^(−γt) m')/scale."""
    back: list[torch.Tensor] = []
    used = 0
    for i, move in enumerate(plan.moves):
        if move.letter != "O":
            continue
        before, _ = travel(plan._replace(moves=plan.moves[:i]), state, how, noise)
        lost = (how.friction * float(move.time) * how.step_size).item()
        after = refreshed(before.momentum, lost, how, noise[used])
        used += 1
        scale = math.sqrt(-math.expm1(-2 * lost) * how.temperature.item())
        coloured = (-before.momentum + math.exp(-lost) * after) / scale
        root = how.mass.colour(torch.eye(2, dtype=F64))
        back.insert(0, torch.linalg.solve(root, coloured, left=False))
    return back


@pytest.mark.parametrize("mass", [Identity(), Diagonal(SCALES), Dense(MATRIX), LOW_RANK])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("word", WORDS)
def test_every_word_retraces_its_steps(word: str, steps: int, mass) -> None:
    """Forward, flip, forward with the noise that undoes each O, flip: back where it began, with the opposite work."""
    plan = Scheme(word).plan(steps)
    how = parameters(0.3, 0.8, 0.7, mass)
    state = some_state()
    count = sum(move.letter == "O" for move in plan.moves)
    noise = list(torch.randn(count, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(1)))
    end, work = travel(plan, state, how, noise)
    back_noise = reverse_noise(plan, state, how, noise)
    back, back_work = travel(plan, end.flip(), how, back_noise)
    torch.testing.assert_close(back.position, state.position, rtol=0, atol=1e-11)
    torch.testing.assert_close(-back.momentum, state.momentum, rtol=0, atol=1e-11)
    torch.testing.assert_close(back_work, -work, rtol=0, atol=1e-11)
    # Each O turns (m, ε) as a rotation: what the momentum gains in energy its noise loses.
    for there, here in zip(noise, reversed(back_noise), strict=True):
        assert not torch.allclose(there, here)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("word", WORDS)
def test_every_word_preserves_volume(word: str, steps: int) -> None:
    """|det| of the map of (θ, m) is e^(−γt) per O and momentum coordinate: exactly what the noise makes up for."""
    plan = Scheme(word).plan(steps)
    how = parameters(0.3, 0.8, 1.0, Dense(MATRIX))
    count = sum(move.letter == "O" for move in plan.moves)
    noise = list(torch.randn(count, 1, 2, dtype=F64, generator=torch.Generator().manual_seed(1)))

    def twice(position: torch.Tensor, entry: object) -> tuple[torch.Tensor, None]:
        slope = torch.func.grad(lambda row: TARGET._potential_of_row(TARGET.layout.views(row)))
        return slope(position[0])[None], None

    def move(flat: torch.Tensor) -> torch.Tensor:
        state = State(flat[None, :2], flat[None, 2:])
        end, _ = travel(plan, state, how, noise, FunctionField(twice))
        return torch.cat([end.position[0], end.momentum[0]])

    jacobian = torch.func.jacfwd(move)(torch.tensor([0.3, -0.2, 0.5, 0.9], dtype=F64))
    lost = sum(float(m.time) for m in plan.moves if m.letter == "O") * (how.step_size * how.friction).item()
    assert torch.linalg.det(jacobian).item() == pytest.approx(math.exp(-2 * lost), rel=1e-10)  # pyright: ignore[reportArgumentType]


# Work


@pytest.mark.parametrize("mass", [Identity(), Diagonal(SCALES), Dense(MATRIX), LOW_RANK])
@pytest.mark.parametrize("word", WORDS)
def test_the_work_is_the_kinetic_energy_changed_by_kicks(word: str, mass) -> None:
    """A second derivation: K after minus K before each kick, letter by letter."""
    plan = Scheme(word).plan(3)
    how = parameters(0.3, 0.8, 0.7, mass)
    state = some_state()
    count = sum(move.letter == "O" for move in plan.moves)
    noise = list(torch.randn(count, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(1)))
    _, work = travel(plan, state, how, noise)

    def kinetic(m: torch.Tensor) -> torch.Tensor:
        return (m * mass.velocity(m)).sum(-1) / 2

    expected = torch.zeros(5, dtype=F64)
    position, momentum, draws = state.position, state.momentum, iter(noise)
    for letter, time, _ in plan.moves:
        t = float(time) * how.step_size
        if letter == "A":
            position = position + t * mass.velocity(momentum)
        elif letter == "B":
            kicked = momentum - t * TARGET.potential_and_gradient(position)[1]
            expected += kinetic(kicked) - kinetic(momentum)
            momentum = kicked
        else:
            momentum = refreshed(momentum, (how.friction * t).item(), how, next(draws))
    torch.testing.assert_close(work, expected)


@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "O(BAB)O"])
def test_log_alpha_is_the_ratio_of_transition_densities(word: str) -> None:
    """log α from its definition: target and transition density of the way back over those of the way there."""
    how = parameters(0.4, 0.9, 0.6)
    plan = Scheme(word).plan(2)
    state = some_state()
    count = sum(move.letter == "O" for move in plan.moves)
    noise = list(torch.randn(count, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(1)))
    end, work = travel(plan, state, how, noise)
    back_noise = reverse_noise(plan, state, how, noise)

    def log_target(s: State) -> torch.Tensor:
        return -(TARGET.potential(s.position) + (s.momentum**2).sum(-1) / 2) / how.temperature

    def log_noise(draws: list[torch.Tensor]) -> torch.Tensor:
        return sum((-(d**2).sum(-1) / 2 for d in draws), torch.zeros(5, dtype=F64))

    expected = log_target(end) + log_noise(back_noise) - log_target(state) - log_noise(noise)
    change = TARGET.potential(end.position) - TARGET.potential(state.position)
    torch.testing.assert_close(-(change + work) / how.temperature, expected, rtol=1e-9, atol=1e-9)


# Limits


def test_no_friction_is_leapfrog() -> None:
    state = some_state()
    h = 0.3
    position, momentum = state.position, state.momentum
    for _ in range(4):
        momentum = momentum - h / 2 * TARGET.potential_and_gradient(position)[1]
        position = position + h * momentum
        momentum = momentum - h / 2 * TARGET.potential_and_gradient(position)[1]
    for word in ("OBABO", "O(BAB)O", "BAB"):
        end, work = travel(Scheme(word).plan(4), state, parameters(h))
        torch.testing.assert_close(end.position, position)
        torch.testing.assert_close(end.momentum, momentum)
        kinetic = ((momentum**2).sum(-1) - (state.momentum**2).sum(-1)) / 2
        torch.testing.assert_close(work, kinetic)


def test_no_friction_draws_no_noise() -> None:
    travel(Scheme("OBABO").plan(4), some_state(), parameters(0.3), noise=())


def test_infinite_friction_is_mala() -> None:
    """θ' = θ − (h²/2)M⁻¹∇U + h√T M^(−½)ε, with MALA's own acceptance from its Gaussian proposal densities."""
    h, T = 0.7, 0.5
    mass = Diagonal(torch.tensor([2.0, 0.5], dtype=F64))
    how = parameters(h, math.inf, T, mass)
    state = some_state()
    noise = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(3))
    start = state._replace(momentum=fresh_momentum(how, noise))
    end, work = travel(Scheme("OBABO").plan(1), start, how)

    inverse = torch.tensor([0.5, 2.0], dtype=F64)

    def proposal_mean(position: torch.Tensor) -> torch.Tensor:
        return position - h**2 / 2 * inverse * TARGET.potential_and_gradient(position)[1]

    torch.testing.assert_close(end.position, proposal_mean(state.position) + h * math.sqrt(T) * inverse.sqrt() * noise)

    def log_q(to: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
        return -((to - proposal_mean(of)) ** 2 / inverse).sum(-1) / (2 * T * h**2)

    change = TARGET.potential(end.position) - TARGET.potential(state.position)
    expected = -change / T + log_q(state.position, end.position) - log_q(end.position, state.position)
    torch.testing.assert_close(-(change + work) / T, expected, rtol=1e-9, atol=1e-9)


def test_friction_keeps_the_momentums_distribution() -> None:
    how = parameters(0.3, 0.8, 0.7, Dense(MATRIX))
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3, 400_000, 2, dtype=F64, generator=generator)
    momentum = fresh_momentum(how, noise[0])
    drawn = refreshed(torch.ones_like(momentum), math.inf, how, noise[1])
    for m in (momentum, drawn, refreshed(momentum, 0.4, how, noise[2])):
        torch.testing.assert_close(m.mT.cov(), 0.7 * MATRIX, rtol=0, atol=0.02)
    kept = (refreshed(momentum, 0.4, how, torch.zeros_like(momentum)) / momentum).median()
    assert kept.item() == pytest.approx(math.exp(-0.4))


@pytest.mark.parametrize("word", WORDS)
def test_small_steps_lose_no_energy(word: str) -> None:
    """h → 0 accepts everything: the energy error of a trajectory of fixed length falls as h²."""
    state = some_state(50)
    assert state.potential is not None
    errors: list[float] = []
    for steps in (20, 40, 80):
        end, work = travel(Scheme(word).plan(steps), state, parameters(1.0 / steps))
        errors.append((TARGET.potential(end.position) - state.potential + work).abs().mean().item())
    assert errors[-1] < 1e-3
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BABAB)O", "O(ME2)O"])
def test_the_path_is_right_to_second_order(word: str) -> None:
    """Global error O(h²): halving the step quarters the distance to the true path."""
    state = some_state(50)
    truth, _ = travel(Scheme("BAB").plan(4000), state, parameters(1.0 / 4000))
    errors = []
    for steps in (20, 40, 80):
        end, _ = travel(Scheme(word).plan(steps), state, parameters(1.0 / steps))
        errors.append((end.position - truth.position).norm(dim=1).mean().item())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.1)


def test_work_is_summed_in_float64() -> None:
    """Each product may be rounded to float32, but not their sum."""
    generator = torch.Generator().manual_seed(0)
    position, momentum, gradient = torch.randn(3, 1, 100_000, generator=generator)

    plan = Scheme("ABA").plan(1)
    constant = FunctionField(lambda position, entry: (gradient, None))
    end, work = travel(plan, State(position, momentum), parameters(0.5), (), constant)
    assert work.dtype == torch.float64
    products = gradient * (momentum + end.momentum)
    assert work.item() == pytest.approx(-0.25 * products.double().sum().item(), rel=1e-13)
    assert work.item() != pytest.approx(-0.25 * products.sum().item(), rel=1e-13)


def test_noise_is_independent_between_chains_coordinates_and_calls() -> None:
    noise = normals(torch.zeros(6, 2, dtype=F64), torch.Generator().manual_seed(0))
    table = torch.stack([torch.cat([noise(), noise()]).flatten() for _ in range(10_000)], 1)
    torch.testing.assert_close(table.cov(), torch.eye(24, dtype=F64), rtol=0, atol=0.08)
