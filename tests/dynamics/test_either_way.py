"""Schedules that are followed forwards or backwards: each chain chooses, with a tape and numbers of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc.dynamics import trajectory
from ggmc.dynamics.letters import LETTERS, Letter, Motion
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.schedule import Along, Cosine
from ggmc.dynamics.scheme import Plan, Scheme
from ggmc.dynamics.state import Parameters, State
from tests.support.motion import FIELD, parameters, some_state

F64 = torch.float64


def test_the_choice_is_fair_and_every_chain_has_its_own_tape_and_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = 200_000
    share: dict[str, int] = {}

    class Told:
        """In place of a trajectory: its work is what its tape says, and its name that of the plan."""

        def __init__(self, state: State, parameters: Parameters, field: Any, tape: Tensor, *rest: Any):
            self.state, self.parameters, self.tape = state, parameters, tape

        def run(self, moves: Any) -> None:
            share[moves] = len(self.state.position)
            # Row by row its own column, and its own temperature.
            assert torch.equal(self.tape[1].double(), self.state.position[:, 0])
            assert torch.equal(self.parameters.temperature, self.state.position[:, 0])
            assert self.parameters.step_size.dim() == 0
            assert torch.equal(self.state.extra["own"], self.state.position[:, 0])

        def end(self) -> State:
            return self.state

        @property
        def work(self) -> Tensor:
            return self.tape[1].double()

    monkeypatch.setattr(trajectory, "Trajectory", Told)
    generator = torch.Generator().manual_seed(0)
    tape = torch.arange(2 * chains).view(2, chains)
    number = tape[1].double()
    state = State(number[:, None], number[:, None], extra={"own": number})
    forwards, backwards = (Plan((), name, 1, 1) for name in ("forwards", "backwards"))  # pyright: ignore
    numbers = Parameters.of(0.1, 0.0, number, Identity())
    end, work = trajectory.run_either_way((forwards, backwards), state, numbers, FIELD, tape, LETTERS, generator)
    assert torch.equal(end.position, state.position)
    assert torch.equal(end.extra["own"], number)
    assert torch.equal(work, number)
    assert share.keys() == {"forwards", "backwards"}
    assert sum(share.values()) == chains
    assert abs(share["forwards"] / chains - 0.5) < 5 * 0.5 / chains**0.5


def test_all_chains_may_go_the_same_way() -> None:
    """With one chain, one of the two groups is empty."""
    factors = Along(Cosine(0.2)).factors(3)
    scheme = Scheme("BAB")
    plans = scheme.plan(3, factors), scheme.plan(3, factors.reversed())
    ends: set[float] = set()
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        end, _ = trajectory.run_either_way(plans, some_state(1), parameters(), FIELD, None, LETTERS, generator)
        ends.add(end.position[0, 0].item())
    assert len(ends) == 2


def test_every_chain_keeps_its_own_untested_work() -> None:
    factors = Along(Cosine(0.2)).factors(3)
    scheme = Scheme("BAB")
    plans = scheme.plan(3, factors), scheme.plan(3, factors.reversed())
    work = torch.arange(20, dtype=F64)
    state = some_state(20)._replace(untested_work=work)
    generator = torch.Generator().manual_seed(0)
    end, _ = trajectory.run_either_way(plans, state, parameters(), FIELD, None, LETTERS, generator)
    assert end.untested_work is not None
    assert torch.equal(end.untested_work, work)


class Tick(Letter[float]):
    """Counts how often it was carried out, in a variable of its own."""

    kicks, drifts, merges, outside = False, False, False, False
    noisy, not_reversible = False, None

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> float:
        return time

    def apply(self, motion: Motion, numbers: float) -> None:
        motion.extra["ticks"] = motion.extra["ticks"] + 1

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0


def with_noise(seed: int) -> tuple[State, Tensor]:
    """A schedule with friction and a letter of its own along the way, from 20 chains at one point."""
    letters = LETTERS | {"X": Tick()}
    scheme, factors = Scheme("BAXOAB", letters), Along(Cosine(0.2)).factors(3)
    plans = scheme.plan(3, factors), scheme.plan(3, factors.reversed())
    state = some_state(1).map(lambda tensor: tensor.expand(20, *tensor.shape[1:]))
    state = state._replace(extra={"ticks": torch.zeros(20, dtype=F64)})
    generator = torch.Generator("cpu").manual_seed(seed)
    return trajectory.run_either_way(plans, state, parameters(friction=1.0), FIELD, None, letters, generator)


def test_choice_and_noise_come_from_the_generator_alone() -> None:
    torch.manual_seed(0)
    end, work = with_noise(seed=3)
    torch.manual_seed(1)
    again, same_work = with_noise(seed=3)
    assert torch.equal(again.position, end.position)
    assert torch.equal(same_work, work)
    assert not torch.equal(with_noise(seed=4)[0].position, end.position)


def test_every_chain_has_noise_of_its_own() -> None:
    end, work = with_noise(seed=0)
    assert len(end.position.unique(dim=0)) == 20
    assert len(work.unique()) == 20


def test_both_ways_know_letters_of_a_kernels_own() -> None:
    assert with_noise(seed=0)[0].extra["ticks"].tolist() == [3.0] * 20


def test_nothing_is_made_on_the_default_device() -> None:
    plan, generator = Scheme("BAB").plan(2), torch.Generator("cpu").manual_seed(0)
    state, how = some_state(20), parameters()
    with torch.device("meta"):
        end, work = trajectory.run_either_way((plan, plan), state, how, FIELD, None, LETTERS, generator)
    assert end.position.device == work.device == torch.device("cpu")
    assert work.isfinite().all()
