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
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ggmc.dynamics.length import Steps
from ggmc.dynamics.scheme import State
from ggmc.guides import Field
from ggmc.kernels import GGMC
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


def first_guess(guide: Any, target: Any) -> Any:
    """The guide with a number in place of "auto"."""
    if getattr(guide, "size", None) != "auto" or not hasattr(target, "num_data"):
        return guide
    return replace(guide, size=max(1, math.ceil(target.num_data / FIRST_BATCHES)))


class Search:
    """Doubles or halves the number of batches while that helps."""

    def __init__(
        self, kernel: GGMC, target: Any, field: Field, steps_at: Callable[[float], Steps | None], wanted: float
    ):
        self._kernel, self._target, self._steps_at, self._wanted = kernel, target, steps_at, wanted
        self._batches = field.epoch
        self.field = field  # the best so far
        self._guide: Any = kernel.guide
        if hasattr(field, "anchor"):  # found once is enough
            anchor = target.constrain(field.anchor)  # pyright: ignore[reportAttributeAccessIssue]
            self._guide = replace(self._guide, anchor=target.coordinates.as_given(anchor))

    def run(self, state: State, step_size: float, generator: torch.Generator) -> tuple[State, Any, float, str]:
        """The chains where they ended up, the guide, its step size, and why."""
        tried: dict[int, Tried] = {}
        state = self._try(tried, self._batches, state, step_size, generator)
        for factor in (2.0, 0.5):
            best = self._batches
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
        guide = replace(self._kernel.guide, size=self._size(chosen))  # pyright: ignore[reportArgumentType]
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
        guide = replace(self._guide, size=self._size(batches))
        field = guide.bind(self._target)
        dual = DualAveraging.around(step_size, self._wanted)
        acceptances: list[float] = []
        steps: list[int] = []
        for trajectory in range(TRAJECTORIES):
            tuning = trajectory < TRAJECTORIES // 2
            h = dual.exploring if tuning else dual.settled
            kernel = replace(self._kernel, step_size=h, steps=self._steps_at(h), guide=guide)
            state, info = kernel.on(self._target, field, early_stop=False)[1](state, generator)
            if tuning:
                dual.update(acceptance(info.log_accept, field))
            else:
                acceptances.append(info.log_accept.clamp_max(0.0).exp().mean().item())
                steps.append(info.steps)
        mean_steps, accepted = sum(steps) / len(steps), sum(acceptances) / len(acceptances)
        score = mean_steps * dual.settled * accepted / (mean_steps / field.epoch + TEST)
        if all(score > other.score for other in tried.values()):
            self.field = field
        tried[batches] = Tried(score, dual.settled, accepted, field.epoch)
        return state
