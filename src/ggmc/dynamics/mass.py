"""The mass matrix M: what turns momentum into velocity.

Kinetic energy K(m) = ½ mᵀM⁻¹m; at temperature T the momentum's distribution is N(0, T·M). A mass close to the inverse
covariance of the target makes all directions equally easy to travel.

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

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self, TypeGuard, final

import torch
from torch import Tensor

from ggmc.errors import BadInput


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
    def as_tensor(self) -> Tensor | None:
        """M as a float64 tensor [d] or [d, d]; None for the identity."""

    @abstractmethod
    def to(self, like: Tensor) -> Mass:
        """The same M in the precision and on the device of `like`; refuses rows of another length."""

    @final
    def tensors(self) -> list[Tensor]:
        """What must not change while sampling."""
        matrix = self.as_tensor()
        return [] if matrix is None else [matrix]


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

    def as_tensor(self) -> None:
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

    def as_tensor(self) -> Tensor:
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


MassLike = Mass | Tensor | Sequence[float] | Sequence[Sequence[float]] | str | None
"""What a user may give: a mass, a tensor or list, the name of a kind for warm-up to find, or nothing."""

KINDS = ("identity", "diagonal", "dense", "tensor")


def is_kind(mass: MassLike) -> TypeGuard[str]:
    """Whether it names the kind of mass that warm-up shall find."""
    return isinstance(mass, str) and mass in KINDS


def as_mass(mass: MassLike) -> Mass:
    """A tensor as a mass.

    Args:
        mass: A mass as it is; a tensor or list [d] for a diagonal one, [d, d] for a dense one. What is not positive
            definite is refused.
    """
    if isinstance(mass, Mass):
        return mass
    if mass is None or isinstance(mass, str):
        raise BadInput(f"mass must be a tensor or one of {', '.join(map(repr, KINDS))}, got {mass!r}")
    try:
        matrix = mass.detach() if isinstance(mass, Tensor) else torch.as_tensor(mass, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInput(f"mass must be a tensor or one of {', '.join(map(repr, KINDS))}, got {mass!r}") from error
    if matrix.is_complex() or not matrix.numel():
        raise BadInput(f"mass must be real numbers, at least one, got {matrix.dtype} of shape {list(matrix.shape)}")
    if not matrix.is_floating_point():
        matrix = matrix.double()
    if matrix.dim() == 1:
        return Diagonal(matrix)
    if matrix.dim() == 2 and matrix.shape[0] == matrix.shape[1]:
        return Dense(matrix)
    raise BadInput(f"mass must have shape [d] or [d, d], got {list(matrix.shape)}")


def fixed_mass(mass: MassLike, like: Tensor) -> Mass:
    """The mass as given, in the precision of `like`; the identity where it is left to warm-up."""
    return Identity() if mass is None or is_kind(mass) else as_mass(mass).to(like)
