"""A diagonal mass that knows some directions better: M = D^½ (I + U diag(λ) Uᵀ) D^½.

With orthonormal U, both operations have a closed form that costs O(d·k), and no d × d matrix is ever made:

    M^½ε = D^½ (ε + U ((√(1+λ) − 1) ⊙ Uᵀε)),        M⁻¹m = D^(−½) (v − U ((λ / (1+λ)) ⊙ Uᵀv)),  v = D^(−½) m

The first is a root of M in the sense that M^½(M^½)ᵀ = M; the second is the formula of Woodbury.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ggmc.dynamics.mass_matrices import Mass
from ggmc.errors import BadInput

ORTHONORMAL = 1e-4  # what entries of UᵀU may be off as they are given ...
ROUNDING = 1e-12  # ... and beyond what they are made exact: colour and velocity must belong to the same matrix
PRECISE = 1e-3  # relative error of M⁻¹ along a direction beyond which the precision of the rows does not suffice


class LowRank(Mass):
    """M = D^½ (I + U diag(values) Uᵀ) D^½: a diagonal, and what is known better along some directions.

    Args:
        diagonal: D, positive numbers [d], such as the precision of the prior.
        directions: U, [d, k], orthonormal columns in the space where D is the identity.
        values: [k], each above −1: by how much M exceeds D along its direction, in units of D.
        dtype: The precision of the rows it acts on; by default that of the diagonal.

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import LowRank
        >>> mass = LowRank(torch.ones(3), torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([3.0]))
        >>> mass
        LowRank(d = 3, rank = 1)
        >>> mass.velocity(torch.ones(1, 3))
        tensor([[0.2500, 1.0000, 1.0000]])
        >>> mass.colour(torch.ones(1, 3))
        tensor([[2., 1., 1.]])
    """

    PARTS: ClassVar = ("diagonal", "directions", "values")

    def __init__(self, diagonal: Tensor, directions: Tensor, values: Tensor, *, dtype: torch.dtype | None = None):
        _check(diagonal, directions, values)
        self.dtype = dtype or diagonal.dtype
        self.diagonal, self.values = diagonal.detach().double(), values.detach().double()
        self.directions = _orthonormal(directions.detach().double())
        most = torch.maximum(1 + self.values, 1 / (1 + self.values)).max().item() if len(values) else 1.0
        precise = most * torch.finfo(self.dtype).eps < PRECISE
        within = self.dtype if precise else torch.float64
        self._root, self._inverse_root = self.diagonal.sqrt().to(within), self.diagonal.rsqrt().to(within)
        self._columns = self.directions.to(within)
        self._longer = (self.values / (1 + (1 + self.values).sqrt())).to(within)  # √(1+λ) − 1
        self._shorter = (-self.values / (1 + self.values)).to(within)

    @property
    def rank(self) -> int:
        """How many directions are known better."""
        return len(self.values)

    def velocity(self, momentum: Tensor) -> Tensor:
        whitened = momentum * self._inverse_root
        return (self._changed(whitened, self._shorter) * self._inverse_root).to(momentum.dtype)

    def colour(self, noise: Tensor) -> Tensor:
        return (self._changed(noise.to(self._root.dtype), self._longer) * self._root).to(noise.dtype)

    def velocity_variance(self) -> Tensor:
        known = (self.directions.square() * (self.values / (1 + self.values))).sum(1)
        return (1 - known) / self.diagonal

    def stored(self) -> dict[str, Tensor]:
        return {"diagonal": self.diagonal, "directions": self.directions, "values": self.values}

    def to(self, like: Tensor) -> LowRank:
        if len(self.diagonal) != like.shape[-1]:
            raise BadInput(f"mass is for {len(self.diagonal)} parameters, but the target has {like.shape[-1]}")
        if (self.dtype, self.diagonal.device) == (like.dtype, like.device):
            return self
        return LowRank(*(part.to(like.device) for part in self.tensors()), dtype=like.dtype)

    def _changed(self, rows: Tensor, factors: Tensor) -> Tensor:
        """(I + U diag(factors) Uᵀ) of each row."""
        return rows + ((rows @ self._columns) * factors) @ self._columns.mT

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LowRank):
            return False
        return all(map(torch.equal, self.tensors(), other.tensors()))

    def __hash__(self) -> int:
        return hash((LowRank, self.directions.shape))

    def __repr__(self) -> str:
        return f"LowRank(d = {len(self.diagonal)}, rank = {self.rank})"


def _check(diagonal: Tensor, directions: Tensor, values: Tensor) -> None:
    parts = zip(LowRank.PARTS, (diagonal, directions, values), ("[d]", "[d, k]", "[k]"), strict=True)
    for name, part, shape in parts:
        if not isinstance(part, Tensor) or not part.is_floating_point() or part.dim() != shape.count(",") + 1:
            given = f"{part.dtype} {list(part.shape)}" if isinstance(part, Tensor) else repr(part)
            raise BadInput(f"the {name} of a mass of low rank must be a tensor of real numbers {shape}, got {given}")
        if not part.isfinite().all():
            raise BadInput(f"the {name} of a mass of low rank must be finite, got {part[~part.isfinite()][0].item():g}")
    shapes = list(diagonal.shape), list(directions.shape), list(values.shape)
    if directions.shape != (len(diagonal), len(values)) or not 0 <= len(values) <= len(diagonal) or not len(diagonal):
        raise BadInput(f"a mass of low rank needs the shapes [d], [d, k] and [k] with k ≤ d, got {shapes}")
    if (diagonal <= 0).any():
        raise BadInput(f"mass must be positive definite, got a diagonal entry of {diagonal.min().item():g}")
    if (values <= -1).any():
        raise BadInput(f"mass must be positive definite, so values must be above −1, got {values.min().item():g}")


def _orthonormal(columns: Tensor) -> Tensor:
    """The columns with their last digits corrected; refused where they are not orthonormal at all."""
    off = (columns.mT @ columns - torch.eye(columns.shape[1], dtype=columns.dtype, device=columns.device)).abs()
    largest = off.max().item() if columns.shape[1] else 0.0
    if largest > ORTHONORMAL:
        raise BadInput(
            f"the directions of a mass of low rank must be orthonormal columns, but UᵀU is off by {largest:.2g}: take "
            "the factor Q of torch.linalg.qr"
        )
    if largest <= ROUNDING:
        return columns
    orthonormal, factor = torch.linalg.qr(columns)
    return orthonormal * factor.diagonal().sign()
