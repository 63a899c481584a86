"""Bugs that only a pair of features shows: each must make the table of pairs fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc.dynamics import letters, metropolis
from ggmc.dynamics.letters import Motion
from ggmc.dynamics.state import Parameters, State
from ggmc.guides.batches import Recut
from ggmc.guides.control_variate import ControlVariateField
from ggmc.kernels import words
from tests.support.invariance import violations
from tests.support.pair_table import TABLE, TEMPERATURES, case, kernel_of, path


def caught() -> bool:
    """Whether any row of the table notices."""
    for row in TABLE:
        if violations(case(TEMPERATURES[row["temperature"]]), kernel_of(row), trajectories=6, chains=30_000):
            return True
    return False


def test_heat_without_the_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedule × mass."""

    def gain(motion: Motion, before: Tensor) -> Tensor:
        return letters.dot(motion.momentum - before, motion.momentum + before) / 2

    monkeypatch.setattr(letters, "_gain", gain)
    assert caught()


def test_heat_at_the_wrong_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedule × temperature: (T − T/Tₖ) in place of (1 − T/Tₖ)."""
    right = letters._gain
    monkeypatch.setattr(letters, "_gain", lambda motion, before: motion.parameters.temperature * right(motion, before))
    assert caught()


def test_noise_along_the_way_at_the_schedules_temperature_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedule × temperature: Tₖ/T in place of Tₖ."""
    prepare = letters.Friction.prepare

    def buggy(self: Any, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Any:
        cold = parameters if warmth == 1.0 else parameters.change(temperature=1.0)
        return prepare(self, time, warmth, cold, like)

    monkeypatch.setattr(letters.Friction, "prepare", buggy)
    assert caught()


def test_work_of_a_kick_without_the_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guide × mass."""

    def work(motion: Motion, time: Tensor, gradient: Tensor, before: Tensor) -> Tensor:
        return -time * letters.dot(gradient, (before + motion.momentum) / 2)

    monkeypatch.setattr(letters, "_work", work)
    assert caught()


def test_a_fresh_momentum_of_temperature_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Friction × temperature: the momentum of an infinite friction."""
    prepare = letters.Friction.prepare

    def buggy(self: Any, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Any:
        forgets = bool(parameters.friction.isinf().all())
        return prepare(self, time, warmth, parameters.change(temperature=1.0) if forgets else parameters, like)

    monkeypatch.setattr(letters.Friction, "prepare", buggy)
    assert caught()


def test_a_schedule_over_the_run_that_changes_the_friction_of_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A friction that grows is another sampler of the same distribution: what is exact must not be called a bug."""
    change = Parameters.change

    def also(self: Parameters, **changes: Any) -> Parameters:
        if "step_size" in changes:
            changes["friction"] = self.friction * 2
        return change(self, **changes)

    monkeypatch.setattr(Parameters, "change", also)
    assert not caught()


def test_a_cut_that_sorts_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recut × order: batches of the first examples come first."""
    draw = Recut.draw

    def buggy(self: Any, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        found = draw(self, entries, batches, chains, generator)
        return found if chains == 1 else found.sort(0).values

    monkeypatch.setattr(Recut, "draw", buggy)
    assert caught()


def test_curvature_of_another_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong correction is a wrong gradient, not a wrong distribution: the test corrects it."""
    call = ControlVariateField.__call__

    def buggy(self: Any, position: Tensor, entry: Tensor) -> tuple[Tensor, None]:
        gradient, _ = call(self, position, entry)
        return gradient + 0.1 * position, None

    monkeypatch.setattr(ControlVariateField, "__call__", buggy)
    assert not caught()


@pytest.mark.parametrize("forgotten", ["temperature", "work", "uniform"])
def test_an_early_stop_whose_limit_forgets(monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
    """Early stop × temperature, and the rest of its limit."""

    def limit(start: State, work: Tensor, temperature: Tensor, log_uniform: Tensor) -> Tensor:
        assert start.potential is not None
        lost = start.potential - (0 if forgotten == "work" else work)
        if forgotten == "uniform":
            return lost
        return lost - log_uniform * (1 if forgotten == "temperature" else temperature)

    monkeypatch.setattr("ggmc.targets.potential.LEAST_CHUNK", 1)
    monkeypatch.setattr(metropolis, "certain_rejection", limit)
    assert any(not torch.equal(path(row, early_stop=True), path(row, early_stop=False)) for row in TABLE)


def test_the_suite_uses_the_engine_it_is_about() -> None:
    assert words.metropolis is metropolis
