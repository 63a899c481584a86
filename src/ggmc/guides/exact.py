"""The exact gradient: g(θ) = ∇U(θ), with U itself as a by-product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ggmc.target import Target


@dataclass(frozen=True)
class Exact:
    """Drive the chain with the gradient of the whole potential.

    Example:
        >>> import ggmc
        >>> ggmc.GGMC(step_size=0.1, guide=ggmc.Exact()).guide
        Exact()
    """

    def bind(self, target: Target) -> _ExactField:
        return _ExactField(target)


class _ExactField:
    deterministic = True

    def __init__(self, target: Target):
        self._target = target

    def __call__(self, position: Tensor, entry: None) -> tuple[Tensor, Tensor]:
        potential, gradient = self._target.potential_and_gradient(position)
        return gradient, potential

    def tape(self, gradients: int, chains: int, generator: torch.Generator) -> Sequence[None]:
        return (None,) * gradients
