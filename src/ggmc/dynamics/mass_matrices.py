"""The mass matrix M, and those that are kept as one tensor: the identity, a diagonal, a dense one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self, final

import torch
from torch import Tensor

from ggmc.errors import BadInput

Stored = Tensor | dict[str, Tensor] | None
"""A mass in float64: M as a tensor [d] or [d, d], several tensors by name, or None for the identity."""


class Mass(ABC):
    """What the letters need of M."""

    @abstractmethod
    def velocity(self, momentum: Tensor) -> Tensor:
        """M⁻¹m, row by row."""

    @abstractmethod
    def colour(self, noise: Tensor) -> Tensor:
        """M^½ε: standard normal noise as noise of covariance M."""

    @abstractmethod
    def velocity_variance(self) -> Tensor:
        """The diagonal of M⁻¹: the variance of each coordinate's velocity at T = 1."""

    @abstractmethod
    def stored(self) -> Stored:
        """What it is made of, as `restored_mass` takes it."""

    @abstractmethod
    def to(self, like: Tensor) -> Mass:
        """The same M in the precision and on the device of `like`; refuses rows of another length."""

    @final
    def tensors(self) -> list[Tensor]:
        """What must not change while sampling."""
        stored = self.stored()
        if stored is None:
            return []
        return [stored] if isinstance(stored, Tensor) else list(stored.values())


class Identity(Mass):
    """M = I.

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import Identity
        >>> Identity().velocity(torch.ones(1, 2))
        tensor([[1., 1.]])
    """

    def velocity(self, momentum: Tensor) -> Tensor:
        return momentum

    def colour(self, noise: Tensor) -> Tensor:
        return noise

    def velocity_variance(self) -> Tensor:
        return torch.ones((), device="cpu")

    def stored(self) -> None:
        return None

    def to(self, like: Tensor) -> Identity:
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity)

    def __hash__(self) -> int:
        return hash(Identity)

    def __repr__(self) -> str:
        return "Identity()"


class _Matrix(Mass):
    """What a diagonal and a dense mass share: a float64 matrix, and the precision of the rows it acts on."""

    def __init__(self, matrix: Tensor, dtype: torch.dtype | None = None):
        self.matrix = matrix.double()
        self.dtype = dtype or matrix.dtype

    def stored(self) -> Tensor:
        return self.matrix

    def to(self, like: Tensor) -> Self:
        if self.matrix.shape[-1] != like.shape[-1]:
            raise BadInput(f"mass is for {self.matrix.shape[-1]} parameters, but the target has {like.shape[-1]}")
        if (self.dtype, self.matrix.device) == (like.dtype, like.device):
            return self
        return type(self)(self.matrix.to(like.device), like.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Matrix) and type(other) is type(self) and torch.equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((type(self), self.matrix.shape))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d = {self.matrix.shape[-1]})"


class Diagonal(_Matrix):
    """M = diag(matrix).

    Args:
        matrix: Positive numbers [d].
        dtype: The precision of the rows it acts on; by default its own.

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import Diagonal
        >>> Diagonal(torch.tensor([1.0, 4.0])).velocity(torch.ones(1, 2))
        tensor([[1.0000, 0.2500]])
    """

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
    """M = LLᵀ; both operations come from the same factor L.

    Args:
        matrix: A positive definite matrix [d, d].
        dtype: The precision of the rows it acts on; by default its own.

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import Dense
        >>> Dense(torch.tensor([[2.0, 0.0], [0.0, 4.0]])).velocity(torch.ones(1, 2))
        tensor([[0.5000, 0.2500]])
    """

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
