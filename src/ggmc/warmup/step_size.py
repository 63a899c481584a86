"""The step size: dual averaging of log h towards a wanted acceptance.

After Nesterov (2009) and Hoffman and Gelman (2014), with harmonic means of acceptance over few chains, so that one that
is stuck pulls the step down for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.state import Parameters, State, normals
from ggmc.guides import GradientField
from ggmc.kernels import Sampler

SHRINKAGE, DELAY, DECAY = 0.05, 10.0, 0.75  # γ, t₀ and κ of Hoffman and Gelman


@dataclass
class DualAveraging:
    """The running averages; plain numbers, so that a run can be stored and resumed."""

    wanted: float
    log_step: float
    log_centre: float
    log_average: float = 0.0
    error_average: float = 0.0
    count: int = 0

    @classmethod
    def around(cls, step_size: float, wanted: float) -> DualAveraging:
        """Start at `step_size`, inclined to try larger ones first: they are cheaper to be wrong about."""
        return cls(wanted, math.log(step_size), math.log(step_size) + math.log(2.0))

    def update(self, acceptance: float) -> None:
        """Learn from one trajectory."""
        self.count += 1
        weight = 1 / (self.count + DELAY)
        self.error_average += weight * (self.wanted - acceptance - self.error_average)
        self.log_step = self.log_centre - math.sqrt(self.count) / SHRINKAGE * self.error_average
        weight = self.count**-DECAY
        self.log_average += weight * (self.log_step - self.log_average)

    @property
    def first(self) -> float:
        """The step size it began at."""
        return math.exp(self.log_centre) / 2

    @property
    def exploring(self) -> float:
        """The step size to try next."""
        return math.exp(self.log_step)

    @property
    def settled(self) -> float:
        """The step size to keep."""
        return math.exp(self.log_average) if self.count else math.exp(self.log_step)


TOGETHER = 4  # chains whose harmonic mean is taken


def harmonic_mean(log_accept: Tensor) -> float:
    """The harmonic mean of min(1, α) over four chains at a time, averaged; α counts as 1 in 1000 at the least.

    Over all of many chains it would follow the rarest α alone, and settle at a step far shorter than wanted.
    """
    inverse = (-log_accept).clamp(0.0, math.log(1000.0)).exp()
    groups = inverse.tensor_split(math.ceil(len(inverse) / TOGETHER))
    return torch.stack([group.mean() for group in groups]).reciprocal().mean().item()


def acceptance(log_accept: Tensor, field: GradientField) -> float:
    """What the step size follows: harmonic means over chains, but the plain one where α is small by chance.

    With a tape, a low α is mostly that trajectory's bad luck and says little about the chain: a harmonic mean would
    keep the step far shorter than the wanted acceptance asks for.
    """
    if field.deterministic:
        return harmonic_mean(log_accept)
    return log_accept.clamp_max(0.0).exp().mean().item()


def first_step_size(sampler: Sampler, parameters: Parameters, state: State, generator: torch.Generator) -> float:
    """Double or halve until the acceptance of one short trajectory crosses one half.

    Args:
        sampler: What is tuned.
        parameters: The numbers of a short trajectory.
        state: Where the chains are; each trial starts there with a fresh momentum.
        generator: Of the trials.
    """
    step_size, direction = 0.1, 0
    for _ in range(60):
        trial = parameters.change(step_size=step_size)
        fresh = fresh_momentum(trial, normals(state.position, generator)())
        _, info = sampler.step(state._replace(momentum=fresh), trial, generator)
        wanted = 1 if acceptance(info.log_accept, sampler.field) > 0.5 else -1
        if direction and wanted != direction:
            break
        direction = wanted
        step_size *= 2.0**direction
    return step_size
