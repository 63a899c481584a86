"""What a guide is, and the gradient field it becomes once bound to a target.

A guide is an immutable dataclass of settings. `bind(target)` makes the field g(θ; ζ), which a trajectory evaluates once
at every position where it kicks. ζ is an entry of the tape, which the field's order draws before the trajectory starts.
A field without an order must be deterministic: that is checked before the first tested trajectory, as is the order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.guides.orders import Order
from ggmc.targets.base import Advice, Target


class GradientField(ABC):
    """A guide bound to a target: g(θ; ζ). A subclass states its order in `super().__init__`; there is no default.

    Args:
        order: The distribution of the tape, or None for a field that uses no tape and is deterministic.
        exact: Whether g = ∇U.
        epoch: Gradients that make one pass over the data.
        sweep: Gradients after which the tape has come round.
        whole_sweeps: Whether trajectories should be whole numbers of sweeps.
        default_steps: The steps, of one gradient each, of a trajectory where none are given; by default one sweep.
        frozen: A function that returns the tensors that must not change while sampling.
        advice: What warm-up may use.
        found: What was searched for when the guide was bound, such as an anchor, by name: a run that is resumed gives
            it to `Guide.bind_again`. By default nothing.

    Example:
        >>> import torch
        >>> from ggmc.guides import GradientField
        >>> class Spring(GradientField):
        ...     def __init__(self):
        ...         super().__init__(order=None)          # no tape: g is a function of θ alone
        ...     def __call__(self, position, entry):
        ...         return position, None
        >>> field = Spring()
        >>> field.deterministic, field.tape(5, 2, torch.Generator())
        (True, None)
    """

    def __init__(
        self,
        *,
        order: Order | None,
        exact: bool = False,
        epoch: int = 1,
        sweep: int = 1,
        whole_sweeps: bool = False,
        default_steps: int | None = None,
        frozen: Callable[[], Sequence[Tensor]] = tuple,
        advice: Advice | None = None,
        found: Mapping[str, Tensor] | None = None,
    ):
        self.order = order
        self.exact = exact
        self.epoch, self.sweep = epoch, sweep
        self.whole_sweeps = whole_sweeps
        self.default_steps = sweep if default_steps is None else default_steps
        self.frozen = frozen
        self.advice = Advice() if advice is None else advice
        self.found = dict(found or {})

    @abstractmethod
    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """g at each row.

        Args:
            position: Rows [chains, d].
            entry: One entry ζ of the tape, [chains, ...], or None where the field has no order.

        Returns:
            The gradient [chains, d], and the *target's* exact U [chains] if it came for free, else None. Never the
            guide's own energy: the Metropolis test uses it.
        """

    @final
    @property
    def deterministic(self) -> bool:
        """Whether ζ plays no part, so that the gradient at one trajectory's end serves the next one's start."""
        return self.order is None

    @final
    def tape(self, entries: int, chains: int, generator: torch.Generator) -> Tensor | None:
        """ζ₁…ζ_K, fresh, one entry for each gradient of a trajectory.

        Args:
            entries: The number of gradients.
            chains: The number of chains.
            generator: The source of randomness.

        Returns:
            [entries, chains, ...], or None where the field has no order.
        """
        if self.order is None:
            return None
        tape = self.order.draw(entries, self.epoch, chains, generator)
        if tape.shape[:2] != (entries, chains):
            raise BadInput(
                f"the order {self.order.name!r} must draw a tape of shape [{entries}, {chains}, ...], got "
                f"{list(tape.shape)}"
            )
        return tape


class Guide(ABC):
    """The settings of a gradient field: a frozen dataclass.

    Example:
        >>> import torch, ggmc
        >>> from dataclasses import dataclass
        >>> from ggmc.guides import GradientField, Guide
        >>> class TemperedField(GradientField):
        ...     def __init__(self, target, factor):
        ...         super().__init__(order=None)
        ...         self._target, self._factor = target, factor
        ...     def __call__(self, position, entry):
        ...         return self._factor * self._target.potential_and_gradient(position)[1], None
        >>> @dataclass(frozen=True)
        ... class Tempered(Guide):
        ...     factor: float
        ...     def bind(self, target):
        ...         return TemperedField(target, self.factor)
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> Tempered(0.5).bind(target)(torch.ones(1, 2, dtype=torch.float64), None)[0]
        tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """

    @abstractmethod
    def bind(self, target: Target) -> GradientField:
        """The field on one target."""

    def bind_again(self, target: Target, found: Mapping[str, Tensor]) -> GradientField:
        """The same field as before, with nothing searched for again.

        Args:
            target: The target.
            found: What the field had found, from `GradientField.found`.
        """
        return self.bind(target)


class BatchGuide(Guide):
    """A guide that reads minibatches of a target's data, of a size that warm-up may choose."""

    size: int | str
    """Examples in a batch, or "auto"."""

    @abstractmethod
    def with_size(self, size: int, field: GradientField | None = None) -> BatchGuide:
        """The same guide with another size.

        Args:
            size: Examples in a batch.
            field: A field that this guide was bound to before; what it found, such as an anchor, is kept.
        """
