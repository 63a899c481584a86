"""Words: what they refuse, what they spell, and that every one of them can retrace its steps."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain, pairwise, repeat

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import Dense, Diagonal, Identity
from ggmc.dynamics.metropolis import flip
from ggmc.dynamics.scheme import Dynamics, Plan, Scheme, State, normals, refresh, run
from ggmc.errors import BadInput, NotExact
from ggmc.guides import Exact

WORDS = ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BAB)O", "O(ABA)O", "AOBOA", "O(BABAB)O", "(BAB)", "ABABA", "OBAOABO"]
F64 = torch.float64
MATRIX = torch.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=F64)
TARGET = ggmc.Density(
    lambda p: -(p[0] ** 4) / 4 - p[0] - torch.exp(p[1]) + p[1] - (p[0] - p[1]) ** 2 / 2, torch.zeros(2, dtype=F64)
)
FIELD = Exact().bind(TARGET)


def dynamics(step_size: float = 0.3, friction: float = 0.0, temperature: float = 1.0, mass=None) -> Dynamics:
    return Dynamics(step_size, friction, temperature, mass or Identity())


def some_state(chains: int = 5, seed: int = 0) -> State:
    generator = torch.Generator().manual_seed(seed)
    position, momentum = torch.randn(2, chains, 2, dtype=F64, generator=generator)
    potential, gradient = TARGET.potential_and_gradient(position)
    return State(position, momentum, potential, gradient)


def travel(plan: Plan, state: State, how: Dynamics, noise=()) -> tuple[State, torch.Tensor]:
    tape = FIELD.tape(plan.gradients, len(state.position), torch.Generator())
    return run(plan, state._replace(gradient=None), how, FIELD, tape, iter(noise))


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
    with pytest.raises(error, match=why):
        Scheme(word)
    with pytest.raises(error, match=why):
        ggmc.GGMC(scheme=word)


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
        time += plan.outer if letter == "O" else 0
        assert time == (steps if letter in word else 0)
    assert plan.moves == plan.moves[::-1]
    letters = [move.letter for move in plan.moves]
    assert all(a != b for a, b in pairwise(letters))
    assert letters[0] != "O"


@pytest.mark.parametrize(
    ("word", "gradients"),
    [("OBABO", 6), ("O(BAB)O", 6), ("O(ABA)O", 5), ("OABAO", 5), ("BAOAB", 6), ("ABOBA", 5), ("O(BABAB)O", 11)],
)
def test_gradients_are_counted_as_they_are_spent(word: str, gradients: int) -> None:
    plan = Scheme(word).plan(5)
    assert plan.gradients == gradients
    calls = 0

    def counting(position, entry):
        nonlocal calls
        calls += 1
        return FIELD(position, entry)

    counting.deterministic = True  # pyright: ignore[reportFunctionMemberAccess]
    state = some_state()
    noise = repeat(torch.zeros_like(state.position))
    how = dynamics(friction=0.5)
    run(plan, state._replace(gradient=None), how, counting, [None] * gradients, noise)  # pyright: ignore[reportArgumentType]
    assert calls == gradients
    calls = 0
    run(plan, state, how, counting, [None] * gradients, noise)  # pyright: ignore[reportArgumentType]
    assert calls == gradients - word.strip("O(").startswith("B")


# Reversibility and volume, in float64


def reverse_noise(plan: Plan, state: State, how: Dynamics, noise: list[torch.Tensor]) -> list[torch.Tensor]:
    """The noise with which each O of the flipped way back undoes its own: M^½ε' = (−m + e^(−γt) m')/scale."""
    back: list[torch.Tensor] = []
    used = 0
    for i, move in enumerate(plan.moves):
        if move.letter != "O":
            continue
        before, _ = travel(plan._replace(moves=plan.moves[:i]), state, how, noise)
        lost = how.friction * float(move.time) * how.step_size
        after = refresh(before.momentum, lost, how, iter([noise[used]]))
        used += 1
        scale = math.sqrt(-math.expm1(-2 * lost) * how.temperature)
        coloured = (-before.momentum + math.exp(-lost) * after) / scale
        root = how.mass.colour(torch.eye(2, dtype=F64))
        back.insert(0, torch.linalg.solve(root, coloured, left=False))
    return back


@pytest.mark.parametrize("mass", [Identity(), Diagonal(torch.tensor([2.0, 0.5], dtype=F64)), Dense(MATRIX)])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("word", WORDS)
def test_every_word_retraces_its_steps(word: str, steps: int, mass) -> None:
    """Forward, flip, forward with the noise that undoes each O, flip: back where it began, with the opposite work."""
    plan = Scheme(word).plan(steps)
    how = dynamics(0.3, 0.8, 0.7, mass)
    state = some_state()
    count = sum(move.letter == "O" for move in plan.moves)
    noise = list(torch.randn(count, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(1)))
    end, work = travel(plan, state, how, noise)
    back_noise = reverse_noise(plan, state, how, noise)
    back, back_work = travel(plan, flip(end), how, back_noise)
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
    how = dynamics(0.3, 0.8, 1.0, Dense(MATRIX))
    count = sum(move.letter == "O" for move in plan.moves)
    noise = list(torch.randn(count, 1, 2, dtype=F64, generator=torch.Generator().manual_seed(1)))

    class Twice:
        deterministic = True

        def __call__(self, position, entry):
            slope = torch.func.grad(lambda row: TARGET._potential_of_row(TARGET.layout.views(row)))
            return slope(position[0])[None], None

    def move(flat: torch.Tensor) -> torch.Tensor:
        state = State(flat[None, :2], flat[None, 2:], None, None)
        end, _ = run(plan, state, how, Twice(), [None] * plan.gradients, iter(noise))  # pyright: ignore[reportArgumentType]
        return torch.cat([end.position[0], end.momentum[0]])

    jacobian = torch.func.jacfwd(move)(torch.tensor([0.3, -0.2, 0.5, 0.9], dtype=F64))
    lost = sum(float(m.time) for m in plan.moves if m.letter == "O") * how.step_size * how.friction
    assert torch.linalg.det(jacobian).item() == pytest.approx(math.exp(-2 * lost), rel=1e-10)  # pyright: ignore[reportArgumentType]


# Work


@pytest.mark.parametrize("mass", [Identity(), Diagonal(torch.tensor([2.0, 0.5], dtype=F64)), Dense(MATRIX)])
@pytest.mark.parametrize("word", WORDS)
def test_the_work_is_the_kinetic_energy_changed_by_kicks(word: str, mass) -> None:
    """A second derivation: K after minus K before each kick, letter by letter."""
    plan = Scheme(word).plan(3)
    how = dynamics(0.3, 0.8, 0.7, mass)
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
            momentum = refresh(momentum, how.friction * t, how, draws)
    torch.testing.assert_close(work, expected)


@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "O(BAB)O"])
def test_log_alpha_is_the_ratio_of_transition_densities(word: str) -> None:
    """log α from its definition: target and transition density of the way back over those of the way there."""
    how = dynamics(0.4, 0.9, 0.6)
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
        end, work = travel(Scheme(word).plan(4), state, dynamics(h))
        torch.testing.assert_close(end.position, position)
        torch.testing.assert_close(end.momentum, momentum)
        kinetic = ((momentum**2).sum(-1) - (state.momentum**2).sum(-1)) / 2
        torch.testing.assert_close(work, kinetic)


def test_no_friction_draws_no_noise() -> None:
    travel(Scheme("OBABO").plan(4), some_state(), dynamics(0.3), noise=())


def test_infinite_friction_is_mala() -> None:
    """θ' = θ − (h²/2)M⁻¹∇U + h√T M^(−½)ε, with MALA's own acceptance from its Gaussian proposal densities."""
    h, T = 0.7, 0.5
    mass = Diagonal(torch.tensor([2.0, 0.5], dtype=F64))
    how = dynamics(h, math.inf, T, mass)
    state = some_state()
    noise = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(3))
    start = state._replace(momentum=refresh(state.momentum, math.inf, how, iter([noise])))
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


def test_friction_keeps_the_momentums_law() -> None:
    how = dynamics(0.3, 0.8, 0.7, Dense(MATRIX))
    generator = torch.Generator().manual_seed(0)
    noise = iter(torch.randn(2, 400_000, 2, dtype=F64, generator=generator))
    momentum = refresh(torch.zeros(400_000, 2, dtype=F64), math.inf, how, noise)
    for m in (momentum, refresh(momentum, 0.4, how, noise)):
        torch.testing.assert_close(m.mT.cov(), 0.7 * MATRIX, rtol=0, atol=0.02)
    kept = (refresh(momentum, 0.4, how, chain(noise, repeat(torch.zeros_like(momentum)))) / momentum).median()
    assert kept.item() == pytest.approx(math.exp(-0.4))


@pytest.mark.parametrize("word", WORDS)
def test_small_steps_lose_no_energy(word: str) -> None:
    """h → 0 accepts everything: the energy error of a trajectory of fixed length falls as h²."""
    state = some_state(50)
    assert state.potential is not None
    errors: list[float] = []
    for steps in (20, 40, 80):
        end, work = travel(Scheme(word).plan(steps), state, dynamics(1.0 / steps))
        errors.append((TARGET.potential(end.position) - state.potential + work).abs().mean().item())
    assert errors[-1] < 1e-3
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("word", ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BABAB)O"])
def test_the_path_is_right_to_second_order(word: str) -> None:
    """Global error O(h²): halving the step quarters the distance to the true path."""
    state = some_state(50)
    truth, _ = travel(Scheme("BAB").plan(4000), state, dynamics(1.0 / 4000))
    errors = []
    for steps in (20, 40, 80):
        end, _ = travel(Scheme(word).plan(steps), state, dynamics(1.0 / steps))
        errors.append((end.position - truth.position).norm(dim=1).mean().item())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.1)


def test_work_is_summed_in_float64() -> None:
    """Each product may be rounded to float32, but not their sum."""
    generator = torch.Generator().manual_seed(0)
    position, momentum, gradient = torch.randn(3, 1, 100_000, generator=generator)

    class Constant:
        deterministic = True

        def __call__(self, position, entry):
            return gradient, None

    plan = Scheme("ABA").plan(1)
    start = State(position, momentum, None, None)
    end, work = run(plan, start, dynamics(0.5), Constant(), [None], iter(()))  # pyright: ignore[reportArgumentType]
    assert work.dtype == torch.float64
    products = gradient * (momentum + end.momentum)
    assert work.item() == pytest.approx(-0.25 * products.double().sum().item(), rel=1e-13)
    assert work.item() != pytest.approx(-0.25 * products.sum().item(), rel=1e-13)


def test_noise_is_independent_between_chains_coordinates_and_calls() -> None:
    noise = normals(torch.zeros(6, 2, dtype=F64), torch.Generator().manual_seed(0))
    table = torch.stack([torch.cat([next(noise), next(noise)]).flatten() for _ in range(10_000)], 1)
    torch.testing.assert_close(table.cov(), torch.eye(24, dtype=F64), rtol=0, atol=0.08)
