"""The batch size: the one that travels farthest per pass over the data, times acceptance.

For each number of batches the step size is tuned to the wanted acceptance in a few trajectories; then

    score = steps · h · acceptance / (gradient passes + 1/3 for the test)

is the time travelled per pass over the data, rejections included. Numbers of batches are doubled or halved for as long
as that helps.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from ggmc.dynamics.state import Parameters, State
from ggmc.guides import BatchGuide, GradientField, Guide
from ggmc.kernels import Sampler
from ggmc.targets.base import DataTarget, Target
from ggmc.warmup.step_size import DualAveraging, acceptance

log = logging.getLogger("ggmc")

FIRST_BATCHES = 10
TRAJECTORIES = 24  # for each size tried, of which the last half are counted
TEST = 1 / 3  # of a pass: the exact potential needs no gradient


class Tried(NamedTuple):
    """What one batch size achieved."""

    score: float
    step_size: float
    acceptance: float
    batches: int


def first_guess(guide: Guide, target: Target) -> Guide:
    """The guide with a number in place of "auto"."""
    if not isinstance(guide, BatchGuide) or guide.size != "auto" or not isinstance(target, DataTarget):
        return guide
    return guide.with_size(max(1, math.ceil(target.num_data / FIRST_BATCHES)))


class Search:
    """Doubles or halves the number of batches while that helps.

    Args:
        guide: The guide so far, with its first size.
        target: With data.
        sampler_on: Makes a sampler of a bound guide.
        field: The guide so far, bound.
        parameters_at: The numbers of the motion at a step size, for a field.
        wanted: The acceptance to tune the step size for.
    """

    def __init__(
        self,
        guide: BatchGuide,
        target: DataTarget,
        sampler_on: Callable[[GradientField], Sampler],
        field: GradientField,
        parameters_at: Callable[[float, GradientField], Parameters],
        wanted: float,
    ):
        self._guide, self._target, self._wanted = guide, target, wanted
        self._sampler_on, self._parameters_at = sampler_on, parameters_at
        self._first_field = field
        self.field = field  # the best so far

    def run(self, state: State, step_size: float, generator: torch.Generator) -> tuple[State, BatchGuide, float, str]:
        """The chains where they ended up, the guide, its step size, and why."""
        tried: dict[int, Tried] = {}
        best = self._first_field.epoch
        state = self._try(tried, best, state, step_size, generator)
        for factor in (2.0, 0.5):
            best = self._first_field.epoch
            while True:
                batches = max(1, round(best * factor))
                if batches in tried or batches > self._target.num_data:
                    break
                # A pass takes about the same time whatever the batches: twice as many, half the step.
                guess = tried[best].step_size * best / batches
                state = self._try(tried, batches, state, guess, generator)
                if tried[batches].score <= tried[best].score:
                    break
                best = batches
        chosen = max(tried, key=lambda batches: tried[batches].score)
        guide = self._guide.with_size(self._size(chosen))
        each = [
            f"{t.batches} batches {t.score:.3g} (h = {t.step_size:.2g}, α = {t.acceptance:.2f})" for t in tried.values()
        ]
        why = (
            f"{self._size(chosen)} examples ({tried[chosen].batches} batches) travel farthest per pass over the data "
            f"times acceptance: {', '.join(each)}"
        )
        log.info("Batch size: %s.", why)
        return state, guide, tried[chosen].step_size, why

    def _size(self, batches: int) -> int:
        return math.ceil(self._target.num_data / batches)

    def _try(
        self, tried: dict[int, Tried], batches: int, state: State, step_size: float, generator: torch.Generator
    ) -> State:
        field = self._guide.with_size(self._size(batches), self._first_field).bind(self._target)
        sampler = self._sampler_on(field)
        dual = DualAveraging.around(step_size, self._wanted)
        acceptances: list[float] = []
        steps: list[int] = []
        for trajectory in range(TRAJECTORIES):
            tuning = trajectory < TRAJECTORIES // 2
            h = dual.exploring if tuning else dual.settled
            state, info = sampler.step(state, self._parameters_at(h, field), generator)
            if tuning:
                dual.update(acceptance(info.log_accept, field))
            else:
                acceptances.append(info.acceptance().mean().item())
                steps.append(info.steps)
        mean_steps, accepted = sum(steps) / len(steps), sum(acceptances) / len(acceptances)
        passes = mean_steps * sampler.gradients_per_step / field.epoch
        score = mean_steps * dual.settled * accepted / (passes + TEST)
        if all(score > other.score for other in tried.values()):
            self.field = field
        tried[batches] = Tried(score, dual.settled, accepted, field.epoch)
        return state
