"""Trajectories by hand: a two-dimensional target without symmetry, and plans carried out with given noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.letters import LETTERS
from ggmc.dynamics.mass import Identity, Mass
from ggmc.dynamics.scheme import Plan
from ggmc.dynamics.state import Parameters, State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.guides import Exact, GradientField

F64 = torch.float64
TARGET = ggmc.Density(
    lambda p: -(p[0] ** 4) / 4 - p[0] - torch.exp(p[1]) + p[1] - (p[0] - p[1]) ** 2 / 2, torch.zeros(2, dtype=F64)
)
FIELD = Exact().bind(TARGET)


class FunctionField(GradientField):
    """Any function of position and entry as a deterministic field."""

    def __init__(self, function: Callable[[Tensor, Any], tuple[Tensor, Tensor | None]]):
        super().__init__(order=None)
        self._function = function

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self._function(position, entry)


def parameters(
    step_size: float = 0.3, friction: float = 0.0, temperature: float = 1.0, mass: Mass | None = None
) -> Parameters:
    return Parameters.of(step_size, friction, temperature, mass or Identity())


def some_state(chains: int = 5, seed: int = 0) -> State:
    generator = torch.Generator().manual_seed(seed)
    position, momentum = torch.randn(2, chains, 2, dtype=F64, generator=generator)
    potential, gradient = TARGET.potential_and_gradient(position)
    return State(position, momentum, potential, gradient)


def travel(
    plan: Plan,
    state: State,
    how: Parameters,
    noise: Iterable[Tensor] = (),
    field: GradientField = FIELD,
    tape: Tensor | None = None,
) -> tuple[State, Tensor]:
    """The tested part of a plan from a state whose gradient is not known; the noise must suffice."""
    path = Trajectory(state._replace(gradient=None), how, field, tape, iter(noise).__next__)
    path.run(plan.moves)
    return path.end(), path.work


def refreshed(momentum: Tensor, decay: float, how: Parameters, noise: Tensor) -> Tensor:
    """The letter O for γt = `decay`."""
    alone = how.change(friction=decay / how.step_size)
    path = Trajectory(State(momentum, momentum), alone, FIELD, None, lambda: noise)
    letter = LETTERS["O"]
    letter.apply(path, letter.prepare(1.0, 1.0, alone, momentum))
    return path.momentum
