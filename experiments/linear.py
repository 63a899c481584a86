"""Gaussian targets, where a trajectory is a linear map: gradients with noise of known size, and exact covariances."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ggmc.dynamics.state import State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.guides import GradientField, Guide
from ggmc.guides.orders import Order
from ggmc.kernels import WordKernel
from ggmc.targets.base import Target

F64 = torch.float64


class StandardNormals(Order):
    """A tape of independent standard normal noise, one row for each gradient and chain: [entries, chains, d]."""

    def __init__(self, d: int):
        super().__init__(name="standard normals", reversible=True)
        self.d = d

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn((entries, chains, self.d), generator=generator, dtype=F64)

    def sweep(self, batches: int) -> int:
        return 1


class NoisyField(GradientField):
    """The exact gradient plus noise from the tape."""

    def __init__(self, target: Target, spread: float):
        super().__init__(order=StandardNormals(target.layout.size))
        self._target, self._spread = target, spread

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        assert entry is not None
        return self._target.potential_and_gradient(position)[1] + self._spread * entry, None


@dataclass(frozen=True)
class Noisy(Guide):
    """The exact gradient plus noise N(0, spread²) that is independent at each gradient."""

    spread: float

    def bind(self, target: Target) -> GradientField:
        return NoisyField(target, self.spread)


def stationary_covariance(kernel: WordKernel, target: Target) -> Tensor:
    """The covariance [2, 2] of (θ, m) that a kernel without the test has on U = θ²/2, in one dimension.

    A trajectory is z ← A z + B x, with all of its noise and its tape in x ~ N(0, I). A and B are read off by one chain
    for each unit vector, and Σ = AΣAᵀ + BBᵀ is solved.
    """
    field = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    plan = sampler.scheme.plan(sampler.parameters.steps[0])
    moves, letters = plan.before + plan.moves, sampler.scheme.letters
    noises = sum(letters[move.letter].noises(float(move.time), sampler.parameters) for move in moves)
    entries = 0 if field.deterministic else plan.gradients
    inputs = torch.eye(2 + noises + entries, dtype=F64)
    tape = None if field.deterministic else inputs[:, 2 + noises :].T[:, :, None]
    noise = iter(inputs[:, 2 + number, None] for number in range(noises))
    path = Trajectory(State(inputs[:, :1], inputs[:, 1:2]), sampler.parameters, field, tape, noise.__next__, letters)
    path.run(moves)
    columns = torch.cat([path.position, path.momentum], 1).T
    a, b = columns[:, :2], columns[:, 2:]
    solved = torch.linalg.solve(torch.eye(4, dtype=F64) - torch.kron(a, a), (b @ b.T).flatten())
    return solved.view(2, 2)
