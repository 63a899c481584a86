"""What a guide is, and the field it becomes once bound to a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass
from ggmc.guides.orders import Order
from ggmc.targets.density import Target


class Field:
    """A guide bound to a target: g(θ; ζ). The defaults are those of a field without a tape."""

    deterministic: bool = True
    """Whether ζ plays no part, so that the gradient at one trajectory's end serves the next one's start."""
    exact: bool = False
    """Whether g = ∇U."""
    order: Order | None = None
    """The law of the tape, where there is one."""
    epoch: int = 1
    """Gradients that make one pass over the data."""
    sweep: int = 1
    """Gradients after which the tape has come round."""

    whole_sweeps: bool = False
    """Whether trajectories had better be whole sweeps."""

    @property
    def default_steps(self) -> int:
        """The steps of a trajectory where nobody says otherwise."""
        return self.sweep

    def __call__(self, position: Tensor, entry: Any) -> tuple[Tensor, Tensor | None]:
        """g at each row for one entry ζ of the tape, and the exact U there if it came for free, else None."""
        raise NotImplementedError

    def tape(self, gradients: int, chains: int, generator: torch.Generator) -> Sequence[Any]:
        """ζ₁…ζ_K, fresh, one entry for each gradient of a trajectory."""
        return (None,) * gradients

    def tape_of(self, tape: Any, chains: Tensor) -> Any:
        """The part of a tape that some of the chains read."""
        return tape[:, chains] if isinstance(tape, Tensor) else tape

    def frozen(self) -> Sequence[Tensor]:
        """What must not change while sampling."""
        return ()

    def mass(self, temperature: float) -> Mass | None:
        """A mass that suits the target, where the guide knows one."""
        return None

    def starts(self, chains: int, temperature: float, generator: torch.Generator) -> Tensor | None:
        """Where chains had better begin, where the guide knows: [chains, d]."""
        return None


class Guide(Protocol):
    """The settings of a gradient field."""

    def bind(self, target: Target) -> Field: ...
