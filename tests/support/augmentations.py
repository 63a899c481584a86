"""Augmentations of small data that change a guide strongly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from ggmc.guides import Augmentation


@dataclass(frozen=True)
class Shifted(Augmentation):
    """All numbers of an example's first tensor shifted by 0, 1 or 2 times `by`: the guide's mean is off too."""

    by: float = 0.8

    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        return torch.randint(3, (number,), generator=generator, device=generator.device)

    def apply(self, batch: Any, codes: Tensor) -> Any:
        (first, *rest), form = tree_flatten(batch)
        shift = self.by * codes.to(first.dtype)
        return tree_unflatten([first + shift.view(-1, *(1 for _ in first.shape[1:])), *rest], form)


@dataclass(frozen=True)
class Mirrored(Augmentation):
    """An example's first tensor with its sign changed or not; a code is [1, 2], of which the last number counts."""

    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        return torch.randint(2, (number, 1, 2), generator=generator, device=generator.device)

    def apply(self, batch: Any, codes: Tensor) -> Any:
        (first, *rest), form = tree_flatten(batch)
        sign = (1 - 2 * codes[:, 0, 1]).view(-1, *(1 for _ in first.shape[1:]))
        return tree_unflatten([first * sign, *rest], form)
