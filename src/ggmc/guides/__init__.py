"""Guides: the gradient fields that drive the motion. Exactness does not depend on them; acceptance does.

A guide is a frozen setting; `bind(target)` makes the field that a trajectory calls once at every point it kicks from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ggmc.guides.exact import Exact
from ggmc.target import Target

__all__ = ["GUIDES", "Exact", "Field", "Guide"]

GUIDES: dict[str, Any] = {guide.__name__: guide for guide in (Exact,)}


class Field(Protocol):
    """A guide bound to a target: g(θ; ζ)."""

    deterministic: bool
    """Whether ζ plays no part, so that the gradient at one trajectory's end serves the next one's start."""

    def __call__(self, position: Tensor, entry: Any) -> tuple[Tensor, Tensor | None]:
        """g at each row for one entry ζ of the tape, and the exact U there if it came for free, else None."""
        ...

    def tape(self, gradients: int, chains: int, generator: torch.Generator) -> Sequence[Any]:
        """ζ₁…ζ_K, fresh, one entry for each gradient of a trajectory."""
        ...


class Guide(Protocol):
    """The settings of a gradient field."""

    def bind(self, target: Target) -> Field: ...
