"""The exact gradient: g(θ) = ∇U(θ), with U itself as a by-product."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ggmc.guides.base import GradientField, Guide
from ggmc.targets.base import Target


@dataclass(frozen=True)
class Exact(Guide):
    """Drive the chain with the gradient of the whole potential.

    Example:
        >>> import ggmc
        >>> ggmc.GGMC(step_size=0.1, guide=ggmc.Exact()).guide
        Exact()
    """

    def bind(self, target: Target) -> GradientField:
        return _ExactField(target)


class _ExactField(GradientField):
    def __init__(self, target: Target):
        super().__init__(order=None, exact=True)
        self._target = target

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, Tensor]:
        potential, gradient = self._target.potential_and_gradient(position)
        return gradient, potential
