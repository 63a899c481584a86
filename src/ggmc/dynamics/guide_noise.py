"""How much of the energy error is the guide's noise: guide and exact gradient compared at a random part of the kicks.

Along a path, the work of a kick is −t g·v with v the mean velocity. Its part −t (g − ∇U)·v is the guide's noise; the
rest of the energy error is the discretisation's, which a smaller step makes smaller.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ggmc.targets.base import Target


class Comparison:
    """Compares at a random share of the kicks, and scales up.

    Mirrored kicks, whose noise may cancel, are both compared or neither.

    Args:
        target: Gives the exact gradient.
        kicks: The number of kicks of the trajectory.
        share: Of the kicks to compare at, between 0 and 1.
        generator: Chooses them.
    """

    def __init__(self, target: Target, kicks: int, share: float, generator: torch.Generator):
        self._target, self._kicks = target, kicks
        pairs = math.ceil(kicks / 2)
        compared = max(1, round(share * pairs))
        self._scale = pairs / compared
        self._chosen = set(torch.randperm(pairs, generator=generator, device=generator.device)[:compared].tolist())
        self._kick = 0
        self.by_noise: Tensor | None = None
        """The part of the energy error that the guide's noise made, [chains] float64."""

    def __call__(self, time: Tensor, position: Tensor, gradient: Tensor, mean_velocity: Tensor) -> None:
        place = min(self._kick, self._kicks - 1 - self._kick)
        self._kick += 1
        if place in self._chosen:
            noise = gradient - self._target.potential_and_gradient(position)[1]
            work = -time * self._scale * (noise * mean_velocity).sum(-1, dtype=torch.float64)
            self.by_noise = work if self.by_noise is None else self.by_noise + work
