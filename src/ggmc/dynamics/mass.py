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

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor

from ggmc.dynamics.low_rank import LowRank
from ggmc.dynamics.mass_matrices import Dense, Diagonal, Identity, Mass, Stored
from ggmc.errors import BadInput

__all__ = [
    "KINDS",
    "Dense",
    "Diagonal",
    "Identity",
    "LowRank",
    "Mass",
    "MassLike",
    "Stored",
    "as_mass",
    "fixed_mass",
    "is_kind",
    "restored_mass",
]

MassLike = Mass | Tensor | Sequence[float] | Sequence[Sequence[float]] | str | None
"""What a user may give: a mass, a tensor or list, the name of a kind for warm-up to find, or nothing."""

KINDS = ("identity", "diagonal", "dense", "tensor", "low_rank")


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


def restored_mass(stored: Stored) -> Mass:
    """The mass that `Mass.stored` described.

    Args:
        stored: From `stored`, perhaps by way of a file. What is not a mass is refused.

    Example:
        >>> import torch
        >>> from ggmc.dynamics.mass import Identity, as_mass, restored_mass
        >>> restored_mass(as_mass([1.0, 4.0]).stored()), restored_mass(Identity().stored())
        (Diagonal(d = 2), Identity())
    """
    if stored is None:
        return Identity()
    if isinstance(stored, Tensor):
        return as_mass(stored)
    if set(stored) != set(LowRank.PARTS):
        raise BadInput(f"a mass of low rank is made of {', '.join(LowRank.PARTS)}, got {sorted(map(str, stored))}")
    return LowRank(stored["diagonal"], stored["directions"], stored["values"])
