"""Tested trajectories sample the target exactly, and the check is strong enough to find planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc import optim
from ggmc.dynamics import metropolis
from ggmc.dynamics.state import State
from ggmc.errors import BadInput
from ggmc.optim.chain import Chain
from ggmc.optim.integrator import Reversible
from ggmc.optim.oabao import Midpoint
from ggmc.optim.obabo import Endpoint
from ggmc.optim.trajectory import Trajectory
from tests.support.long_chain import F64, NUM_DATA, PLANE, WEIGHT_DECAY, violations

SHORT, LONG, LONGEST = 1000, 4000, 8000  # trajectories
THERE_AND_BACK = (1.0, 3.5, 1.0)
FIVE = (1.6,) * 5  # four steps


def sampler(scheme: str = "OABAO", momentum: float = 0.9, temperature: float = 1.0, **more: Any) -> Callable[..., Any]:
    def make(given: list[Tensor]) -> Any:
        settings: Any = {"lr": 1.0, "num_data": NUM_DATA, "temperature": temperature, "seed": 0, **more}
        if scheme == "HMC":
            return optim.HMC(given, weight_decay=WEIGHT_DECAY, **settings)
        if len(given) == 1:
            return optim.GGMC(given, momentum=momentum, scheme=scheme, weight_decay=WEIGHT_DECAY, **settings)
        groups = [{"params": given[0], "weight_decay": WEIGHT_DECAY}, {"params": given[1], "lr": 3.0}]
        return optim.GGMC(groups, momentum=momentum, scheme=scheme, **settings)

    return make


@pytest.mark.parametrize(
    ("scheme", "temperature", "rates"),
    [
        ("OABAO", 1.0, (2.56, 2.56, 2.56)),
        ("OABAO", 0.5, THERE_AND_BACK),
        ("O(ABA)O", 1.0, (2.56, 2.56, 2.56)),
        ("HMC", 1.0, (2.56, 2.56, 2.56)),
        ("OBABO", 1.0, (2.56, 2.56, 2.56)),
        ("OBABO", 0.5, (9.0, 1.0, 3.0, 1.0)),  # the rate at the start has no effect
    ],
)
def test_the_chain_is_exact(scheme: str, temperature: float, rates: tuple[float, ...]) -> None:
    make = sampler(scheme, temperature=temperature)
    last_gradient = scheme == "OBABO"
    assert violations(make, LONGEST, temperature=temperature, rates=rates, last_gradient=last_gradient) == {}


@pytest.mark.parametrize("scheme", ["OABAO", "O(ABA)O", "OBABO"])
def test_groups_with_rates_of_their_own_are_exact(scheme: str) -> None:
    assert violations(sampler(scheme), LONG, PLANE, rates=(0.5, 0.5, 0.5), last_gradient=scheme == "OBABO") == {}


@pytest.mark.parametrize("scheme", ["OABAO", "OBABO"])
def test_friction_at_every_second_step_is_exact(scheme: str) -> None:
    make = sampler(scheme, momentum=0.6, friction_every=2)
    assert violations(make, LONG, rates=FIVE, last_gradient=scheme == "OBABO") == {}


def caught(*given: Any, **settings: Any) -> bool:
    """Does the same check fail? A short chain is tried first, to save time."""
    make = settings.pop("make", sampler())
    try:
        return any(violations(make, number, *given, **settings) for number in (SHORT, LONG))
    except BadInput as error:
        return "inside the support" in str(error)  # the chain ran away


def _no_flip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "flip", lambda self: self)


def _stale_potential(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = metropolis.choose
    monkeypatch.setattr(metropolis, "choose", lambda a, e, s: choose(a, e, s)._replace(potential=e.potential))


def _half_drift_not_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Midpoint, "go_back", lambda self, chain: self.forget())


def _work_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Trajectory.judge

    def buggy(self: Trajectory, *given: Any, **more: Any) -> Any:
        self.work.zero_()
        return judge(self, *given, **more)

    monkeypatch.setattr(Trajectory, "judge", buggy)


def _prior_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chain, "prior", lambda self, now: 0.0)


def _everything_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.optim.trajectory_sampler.log_uniforms", lambda n, g: torch.full((n,), -1e9, dtype=F64))


@pytest.mark.parametrize(
    "plant",
    [_no_flip, _stale_potential, _half_drift_not_undone, _work_left_out, _prior_left_out, _everything_accepted],
)
def test_planted_bugs_are_caught(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert caught()


def test_a_planted_lopsided_rate_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trajectory, "not_palindromic", lambda self: None)
    assert caught(rates=(0.6, 0.6, 3.5))


def test_a_planted_missing_last_half_kick_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_kick(self: Endpoint, chain: Any, now: Any, force: Any, trajectory: Any) -> None:
        self.pending = None
        self.owe_friction(chain, now)

    monkeypatch.setattr(Endpoint, "finish", without_kick)
    assert caught(make=sampler("OBABO"), last_gradient=True)


def test_planted_work_without_the_groups_masses_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kick = Chain.kick

    def buggy(self: Chain, force: Tensor, time: float, ratios: Any, work: Tensor | None = None) -> None:
        before = self.momentum.clone()
        kick(self, force, time, ratios)
        if work is not None:
            work.add_(force @ (before + self.momentum), alpha=-time / 2)

    monkeypatch.setattr(Chain, "kick", buggy)
    assert caught(PLANE, rates=(0.5, 0.5, 0.5))


def test_planted_friction_that_does_not_read_the_same_backwards_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reversible, "not_reversible", lambda self, steps: None)
    assert caught(make=sampler("OBABO", momentum=0.0, friction_every=3), rates=(4.0,) * 5, last_gradient=True)
