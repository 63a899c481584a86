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
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> field = ggmc.Exact().bind(target)
        >>> field(torch.ones(1, 2, dtype=torch.float64), None)                 # ∇U and, for free, U
        (tensor([[1., 1.]], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """

    def bind(self, target: Target) -> GradientField:
        return _ExactField(target)


class _ExactField(GradientField):
    """∇U and U of the target itself."""

    def __init__(self, target: Target):
        super().__init__(order=None, exact=True)
        self._target = target

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, Tensor]:
        potential, gradient = self._target.potential_and_gradient(position)
        return gradient, potential
