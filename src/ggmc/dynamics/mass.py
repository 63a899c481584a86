"""The mass matrix M: what turns momentum into velocity.

Kinetic energy K(m) = ½ mᵀM⁻¹m; at temperature T the momentum's law is N(0, T·M). A mass close to the inverse covariance
of the target makes all directions equally easy to travel.

Example:
    >>> import torch
    >>> from ggmc.dynamics.mass import as_mass
    >>> mass = as_mass(torch.tensor([1.0, 4.0]))
    >>> mass
    Diagonal(d = 2)
    >>> mass.velocity(torch.tensor([[2.0, 2.0]]))    # M⁻¹m
    tensor([[2.0000, 0.5000]])
    >>> mass.colour(torch.ones(1, 2))                # M^½ε
    tensor([[1., 2.]])
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import torch
from torch import Tensor

from ggmc.errors import BadInput


class Mass(Protocol):
    """What the letters need of M."""

    def velocity(self, momentum: Tensor) -> Tensor:
        """M⁻¹m, row by row."""
        ...

    def colour(self, noise: Tensor) -> Tensor:
        """M^½ε: standard normal noise as noise of covariance M."""
        ...

    def velocity_variance(self) -> Tensor:
        """The diagonal of M⁻¹: the variance of each coordinate's velocity at T = 1."""
        ...

    def to(self, like: Tensor) -> Mass:
        """The same M in the precision and on the device of `like`; refuses rows of another length."""
        ...


class Identity:
    """M = I."""

    def velocity(self, momentum: Tensor) -> Tensor:
        return momentum

    def colour(self, noise: Tensor) -> Tensor:
        return noise

    def velocity_variance(self) -> Tensor:
        return torch.ones(())

    def to(self, like: Tensor) -> Identity:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity)

    def __hash__(self) -> int:
        return hash(Identity)

    def __repr__(self) -> str:
        return "Identity()"


class _Matrix:
    """What a diagonal and a dense mass share: a float64 matrix, and the precision of the rows it acts on."""

    def __init__(self, matrix: Tensor, dtype: torch.dtype | None = None):
        self.matrix = matrix.double()
        self.dtype = dtype or matrix.dtype

    def to(self, like: Tensor) -> Self:
        if self.matrix.shape[-1] != like.shape[-1]:
            raise BadInput(f"mass is for {self.matrix.shape[-1]} parameters, but the target has {like.shape[-1]}")
        if (self.dtype, self.matrix.device) == (like.dtype, like.device):
            return self
        return type(self)(self.matrix.to(like.device), like.dtype)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and torch.equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((type(self), self.matrix.shape))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d = {self.matrix.shape[-1]})"


class Diagonal(_Matrix):
    """M = diag(matrix), `matrix` of shape [d]."""

    def __init__(self, matrix: Tensor, dtype: torch.dtype | None = None):
        super().__init__(matrix, dtype)
        bad = ~(self.matrix.isfinite() & (self.matrix > 0))
        if bad.any():
            raise BadInput(f"mass must be positive definite, got a diagonal entry of {self.matrix[bad][0].item():g}")
        self._inverse = self.matrix.reciprocal().to(self.dtype)
        self._root = self.matrix.sqrt().to(self.dtype)

    def velocity(self, momentum: Tensor) -> Tensor:
        return momentum * self._inverse

    def colour(self, noise: Tensor) -> Tensor:
        return noise * self._root

    def velocity_variance(self) -> Tensor:
        return self._inverse.double()


class Dense(_Matrix):
    """M of shape [d, d], as M = LLᵀ; both operations come from the same factor L."""

    def __init__(self, matrix: Tensor, dtype: torch.dtype | None = None):
        super().__init__(matrix, dtype)
        if not self.matrix.isfinite().all():
            raise BadInput("mass must be positive definite, got entries that are not finite")
        if not torch.allclose(self.matrix, self.matrix.mT, rtol=1e-5, atol=1e-7 * self.matrix.abs().max().item()):
            raise BadInput("mass must be positive definite, got a matrix that is not symmetric")
        factor, failed = torch.linalg.cholesky_ex(self.matrix)
        if failed.item():
            least = torch.linalg.eigvalsh(self.matrix).min().item()
            raise BadInput(f"mass must be positive definite, got a smallest eigenvalue of {least:g}")
        self._inverse = torch.cholesky_inverse(factor).to(self.dtype)
        self._root_transposed = factor.mT.contiguous().to(self.dtype)

    def velocity(self, momentum: Tensor) -> Tensor:
        return momentum @ self._inverse

    def colour(self, noise: Tensor) -> Tensor:
        return noise @ self._root_transposed

    def velocity_variance(self) -> Tensor:
        return self._inverse.diagonal().double()


def as_mass(mass: Any) -> Mass:
    """A tensor as a mass: [d] for a diagonal, [d, d] for a dense one; refuses what is not positive definite."""
    if isinstance(mass, Identity | Diagonal | Dense):
        return mass
    try:
        matrix = torch.as_tensor(mass).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInput(f"mass must be a tensor, 'identity', 'diagonal' or 'dense', got {mass!r}") from error
    if not matrix.is_floating_point():
        matrix = matrix.double()
    if matrix.dim() == 1:
        return Diagonal(matrix)
    if matrix.dim() == 2 and matrix.shape[0] == matrix.shape[1]:
        return Dense(matrix)
    raise BadInput(f"mass must have shape [d] or [d, d], got {list(matrix.shape)}")
