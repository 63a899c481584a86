"""Where the energy error comes from: the guide beside the exact gradient, on some of a trajectory's kicks.

Along a path, the work of a kick is −t g·v with v the mean velocity. Its part −t (g − ∇U)·v is the guide's noise; what
is left of the energy error without that is the discretisation's, which a smaller step makes smaller.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ggmc.targets.base import Target


class Comparison:
    """Looks at a random share of the kicks, and scales up; mirrored kicks, whose noise may cancel, both or neither."""

    def __init__(self, target: Target, kicks: int, share: float, generator: torch.Generator):
        self._target, self._kicks = target, kicks
        pairs = math.ceil(kicks / 2)
        looked_at = max(1, round(share * pairs))
        self._scale = pairs / looked_at
        self._chosen = set(torch.randperm(pairs, generator=generator, device=generator.device)[:looked_at].tolist())
        self._kick = 0
        self.by_noise: Tensor | None = None  # [chains] float64

    def __call__(self, time: float, position: Tensor, gradient: Tensor, mean_velocity: Tensor) -> None:
        place = min(self._kick, self._kicks - 1 - self._kick)
        self._kick += 1
        if place in self._chosen:
            noise = gradient - self._target.potential_and_gradient(position)[1]
            work = -time * self._scale * (noise * mean_velocity).sum(-1, dtype=torch.float64)
            self.by_noise = work if self.by_noise is None else self.by_noise + work
