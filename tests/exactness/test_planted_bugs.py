"""A suite that passes with a bug planted is itself a bug: each of these must make it fail."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics import letters, metropolis
from ggmc.dynamics.mass import LowRank
from ggmc.dynamics.scheme import Move, Plan, Scheme
from ggmc.dynamics.state import Parameters, State, choose
from ggmc.kernels import words
from ggmc.kernels.words import Setup, WordSampler
from ggmc.targets.base import Target
from tests.support.invariance import Case, funnel, independence_violations, quartic, skewed, violations

KERNEL = ggmc.GGMC(0.8, 0.13, 3)


def caught(kernel: Any = KERNEL, case: Case | None = None, trajectories: int = 30) -> bool:
    return violations(case or quartic(), kernel, trajectories) != {}


def test_without_a_bug_nothing_is_caught() -> None:
    assert not caught()
    assert not caught(case=skewed())
    assert not caught(ggmc.GGMC(0.7, 0.5, 2, mass=[[2.0, 0.8], [0.8, 1.0]]), funnel())


def test_no_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "flip", lambda self: self)
    assert caught()
    assert caught(ggmc.GGMC(0.8, 0.13, 1))


def test_position_flipped_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "flip", lambda s: s._replace(position=-s.position, momentum=-s.momentum))
    assert caught()


def _keep_of_the_end(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    def buggy(accepted: Tensor, end: State, stay: State) -> State:
        return choose(accepted, end, stay)._replace(**{name: getattr(end, name) for name in names})

    monkeypatch.setattr(metropolis, "choose", buggy)


def test_stale_potential(monkeypatch: pytest.MonkeyPatch) -> None:
    _keep_of_the_end(monkeypatch, "potential")
    assert caught()


def test_stale_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    _keep_of_the_end(monkeypatch, "gradient")
    assert caught()


def test_everything_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    _keep_of_the_end(monkeypatch, "position", "momentum", "potential", "gradient")
    assert caught()


def _decide(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Replace arguments of the test by functions of all of them."""
    decide = metropolis.decide
    names = ("start", "end", "work", "steps", "temperature", "log_uniform")

    def buggy(*args: Any) -> Any:
        given = dict(zip(names, args, strict=True))
        return decide(**given | {name: change(given) for name, change in changes.items()})

    monkeypatch.setattr(metropolis, "decide", buggy)


def test_ratio_upside_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(name: str, other: str) -> Any:
        return lambda g: g[name]._replace(potential=g[other].potential)

    _decide(monkeypatch, start=swapped("start", "end"), end=swapped("end", "start"), work=lambda g: -g["work"])
    assert caught()


def test_work_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    _decide(monkeypatch, work=lambda g: 0 * g["work"])
    assert caught()


def test_work_of_the_wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    _decide(monkeypatch, work=lambda g: -g["work"])
    assert caught()


def test_one_uniform_for_all_chains_is_caught_by_the_independence_test(monkeypatch: pytest.MonkeyPatch) -> None:
    # All chains still sample the distribution, so only their dependence can show.
    monkeypatch.setattr(metropolis, "log_uniforms", lambda n, g: torch.log(torch.rand(1, generator=g)).expand(n))
    assert independence_violations(quartic(), ggmc.GGMC(0.9, 2.0, 2)) != {}


def test_one_noise_for_all_chains_is_caught_by_the_independence_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(like: Tensor, generator: torch.Generator) -> Any:
        return lambda: torch.randn(like.shape[1:], generator=generator, dtype=like.dtype).expand(like.shape)

    monkeypatch.setattr(words, "normals", shared)
    assert independence_violations(quartic(), ggmc.GGMC(0.9, 2.0, 2)) != {}


def test_temperature_forgotten_in_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    _decide(monkeypatch, temperature=lambda g: torch.ones((), dtype=torch.float64))
    assert caught(ggmc.GGMC(0.7, 0.3, 3, temperature=0.4), quartic(0.4))


def test_temperature_forgotten_in_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = letters.Friction.prepare

    def buggy(self: Any, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Any:
        return prepare(self, time, warmth, parameters.change(temperature=1.0), like)

    monkeypatch.setattr(letters.Friction, "prepare", buggy)
    assert caught(ggmc.GGMC(0.7, 0.3, 3, temperature=0.4), quartic(0.4))


def test_noise_not_coloured_by_the_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc.dynamics.mass import Dense

    monkeypatch.setattr(Dense, "colour", lambda self, noise: noise)
    assert caught(ggmc.GGMC(0.7, 0.5, 2, mass=[[2.0, 0.8], [0.8, 1.0]]), funnel())


def test_noise_coloured_by_the_factor_the_wrong_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc.dynamics.mass import Dense

    monkeypatch.setattr(Dense, "colour", lambda self, noise: noise @ self._root_transposed.mT)
    assert caught(ggmc.GGMC(0.7, 0.5, 2, mass=[[2.0, 0.8], [0.8, 1.0]]), funnel())


SLANTED = LowRank(
    torch.tensor([1.0, 0.5], dtype=torch.float64),
    torch.tensor([[0.6], [0.8]], dtype=torch.float64),
    torch.tensor([3.0], dtype=torch.float64),
)


def test_colour_and_velocity_of_two_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ggmc.GGMC(0.7, 0.5, 2, mass=SLANTED)
    assert not caught(kernel, funnel())
    half = LowRank(SLANTED.diagonal, SLANTED.directions, SLANTED.values / 2)
    monkeypatch.setattr(LowRank, "colour", lambda self, noise: half._changed(noise, half._longer) * half._root)
    assert caught(kernel, funnel())


class _WithoutPrior(Target):
    """A target that drives with the whole gradient but tests without its prior."""

    def __init__(self, whole: Target, prior: Any):
        super().__init__(whole.layout, whole.start, not_exact=None)
        self._whole, self._prior = whole, prior

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        return self._whole.potential(position) - self._prior(position)

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        return self.potential(position), self._whole.potential_and_gradient(position)[1]

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self._whole.constrain(position)

    def unconstrain(self, values: Any) -> Tensor:
        return self._whole.unconstrain(values)

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return self._whole.starts(chains, generator)


def test_prior_dropped() -> None:
    case = quartic()  # read as a prior x and a likelihood x⁴/4
    assert caught(case=Case("no prior", _WithoutPrior(case.target, lambda x: x[:, 0]), case.exact))


def _plans(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    plan = Scheme.plan

    def buggy(self: Scheme, steps: int, factors: Any = None) -> Plan:
        right = plan(self, steps, factors)
        return right._replace(moves=tuple(change(list(right.moves))))

    monkeypatch.setattr(Scheme, "plan", buggy)


def test_one_sided_kick(monkeypatch: pytest.MonkeyPatch) -> None:
    """B A in place of B/2 A B/2: symplectic Euler, which cannot retrace its step."""
    _plans(monkeypatch, lambda moves: [Move("B", 2 * moves[0].time), *moves[1:-1]])
    assert caught(ggmc.GGMC(0.8, 0.13, 1))
    assert caught()


def test_unequal_half_kicks(monkeypatch: pytest.MonkeyPatch) -> None:
    third = Fraction(1, 3)
    _plans(monkeypatch, lambda moves: [Move("B", third), *moves[1:-1], Move("B", 2 * third)])
    assert caught(ggmc.GGMC(0.8, 0.13, 1))


def test_shares_that_are_no_palindrome(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stages with unequal kicks at their ends, and the refusal switched off."""
    monkeypatch.setattr(Scheme, "not_reversible", None)
    assert caught(ggmc.GGMC(1.2, 0.13, 2, "O(B0.1ABAB0.3)O"))
    assert caught(ggmc.GGMC(1.2, 0.13, 2, "O(BA0.4BA0.6B)O"))
    assert not caught(ggmc.GGMC(1.2, 0.13, 2, "O(B0.2ABAB0.2)O"))


def test_steps_that_shrink_along_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cosine decay inside a trajectory: the way back would take other steps."""

    def decay(moves: list[Move]) -> list[Move]:
        return [m._replace(time=m.time * Fraction(len(moves) - i, len(moves))) for i, m in enumerate(moves)]

    _plans(monkeypatch, decay)
    assert caught()


def _runs(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    run = WordSampler.carry_out

    def buggy(self: Any, state: State, setup: Setup) -> tuple[State, Tensor]:
        return change(lambda *arguments: run(self, *arguments), state, setup)

    monkeypatch.setattr(WordSampler, "carry_out", buggy)


def _kinetic(momentum: Tensor) -> Tensor:
    return (momentum**2).sum(-1) / 2


def test_friction_counted_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole change of kinetic energy in place of that of the kicks alone."""

    def change(run: Any, state: State, setup: Setup) -> tuple[State, Tensor]:
        end, _ = run(state, setup)
        return end, _kinetic(end.momentum) - _kinetic(state.momentum)

    _runs(monkeypatch, change)
    assert caught()


def test_work_of_the_first_kick_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(run: Any, state: State, setup: Setup) -> tuple[State, Tensor]:
        end, work = run(state, setup)
        assert state.gradient is not None
        kicked = state.momentum - setup.parameters.step_size / 2 * state.gradient
        return end, work - (_kinetic(kicked) - _kinetic(state.momentum))

    _runs(monkeypatch, change)
    assert caught()


def test_work_of_the_wrong_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(run: Any, state: State, setup: Setup) -> tuple[State, Tensor]:
        end, work = run(state, setup)
        return end, work * 2.5

    _runs(monkeypatch, change)
    assert caught(ggmc.GGMC(0.8, 0.3, 3, mass=[2.5]))


def test_divergences_tried_again_until_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall at −1: trying again whenever the end is outside pushes chains away from it."""

    def log_prob(x: Tensor) -> Tensor:
        inside = (x > -1).all()
        return torch.where(inside, -(x**4 / 4 + x).sum(), -torch.inf)

    target = ggmc.Density(log_prob, torch.zeros(1, dtype=torch.float64), jitter=0.1)
    whole = quartic()

    def exact(n: int, generator: torch.Generator) -> Tensor:
        draws = whole.exact(4 * n, generator)
        return draws[draws[:, 0] > -1][:n]

    case = Case("walled quartic", target, exact)
    assert not caught(case=case)

    def change(run: Any, state: State, setup: Setup) -> tuple[State, Tensor]:
        end, work = run(state, setup)
        for _ in range(20):
            bad = ~target.potential(end.position).isfinite()
            state = state._replace(momentum=torch.where(bad[:, None], torch.randn_like(state.momentum), state.momentum))
            again, more = run(state, setup)
            end, work = choose(~bad, end, again), torch.where(bad, more, work)
        return end, work

    _runs(monkeypatch, change)
    torch.manual_seed(0)
    assert caught(case=case)
