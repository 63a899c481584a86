"""The exact gradient: g(θ) = ∇U(θ), with U itself as a by-product."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ggmc.guides.base import Field
from ggmc.targets.density import Target


@dataclass(frozen=True)
class Exact:
    """Drive the chain with the gradient of the whole potential.

    Example:
        >>> import ggmc
        >>> ggmc.GGMC(step_size=0.1, guide=ggmc.Exact()).guide
        Exact()
    """

    def bind(self, target: Target) -> Field:
        return _ExactField(target)


class _ExactField(Field):
    exact = True

    def __init__(self, target: Target):
        self._target = target

    def __call__(self, position: Tensor, entry: None) -> tuple[Tensor, Tensor]:
        potential, gradient = self._target.potential_and_gradient(position)
        return gradient, potential
