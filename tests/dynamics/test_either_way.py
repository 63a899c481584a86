"""Schedules that are followed forwards or backwards: each chain chooses, with a tape and numbers of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc.dynamics import trajectory
from ggmc.dynamics.letters import LETTERS
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
