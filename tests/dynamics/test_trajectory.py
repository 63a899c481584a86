"""What a trajectory tells along the way, and the state at its end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ggmc.dynamics.scheme import Scheme
from ggmc.dynamics.state import State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.guides import GradientField
from ggmc.guides.orders import Iid, Order
from tests.support.motion import FIELD, parameters, some_state


def no_noise() -> Tensor:
    raise AssertionError("no letter of the word draws noise")


class Spring(GradientField):
    """g = θ, with a tape or without."""

    def __init__(self, order: Order | None):
        super().__init__(order=order)

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return position, None


def test_every_kick_is_told() -> None:
    told: list[tuple[Tensor, ...]] = []
    path = Trajectory(
        some_state(), parameters(), FIELD, None, no_noise, on_kick=lambda *arguments: told.append(arguments)
    )
    path.run(Scheme("BAB").plan(3).moves)
    assert [time.item() for time, *_ in told] == pytest.approx([0.15, 0.3, 0.3, 0.15])
    torch.testing.assert_close(sum(-time * (g * v).sum(1) for time, _, g, v in told), path.work)


@pytest.mark.parametrize("order", [None, Iid()])
def test_only_a_gradient_without_a_tape_serves_the_next_trajectory(order: Order | None) -> None:
    start = some_state()._replace(potential=None, gradient=None)
    tape = None if order is None else torch.zeros(2, 5, dtype=torch.long)
    path = Trajectory(start, parameters(), Spring(order), tape, no_noise)
    path.run(Scheme("BAB").plan(1).moves)
    end = path.end()
    if order is None:
        assert end.gradient is not None
        assert torch.equal(end.gradient, end.position)
    else:
        assert end.gradient is None


def test_the_end_counts_one_trajectory_more_and_keeps_what_is_not_moved() -> None:
    extra, work = {"own": torch.arange(5.0)}, torch.arange(5.0)
    start: State = some_state()._replace(untested_work=work, trajectories=6, extra=extra)
    path = Trajectory(start, parameters(), FIELD, None, no_noise)
    path.run(Scheme("BAB").plan(2).moves)
    assert path.state.trajectories == 6
    end = path.end()
    assert end.trajectories == 7
    assert end.untested_work is work
    assert torch.equal(end.extra["own"], extra["own"])
