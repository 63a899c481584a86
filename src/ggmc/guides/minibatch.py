"""Minibatch gradients: g(θ; j) = ∇[−log prior(θ) − m Σ_{i in batch j} log likelihoodᵢ(θ)], m the number of batches.

The mean over all batches is ∇U exactly. The batches are cut once; the order in which a trajectory meets them is its
tape (`tape.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ggmc.errors import BadInput, require_count
from ggmc.guides.base import BatchGuide, GradientField
from ggmc.guides.orders import Order, as_order
from ggmc.guides.batches import Batches
from ggmc.targets.base import DataTarget, Target


@dataclass(frozen=True)
class Minibatch(BatchGuide):
    """Drive the chain with batches of at most `size` examples, met in the given `order`.

    `order` is "palindrome" (out in a random order and back in reverse: much the best acceptance), "epoch" (fresh random
    orders), "iid" (independent batches) or a `ggmc.Tape`. `size="auto"` leaves the size to warm-up. If `size` does not
    divide the data, batches are made as equal as can be; no example is left out, and all have the same weight. `seed`
    is that of the cut into batches.

    Example:
        >>> import ggmc
        >>> ggmc.GGMC(step_size=0.01, guide=ggmc.Minibatch(100)).scheme      # one batch per step: friction at the ends
        'O(ABA)O'
    """

    size: int | str
    order: Any = "palindrome"
    seed: int = 0

    def __post_init__(self) -> None:
        check_size(self.size)
        as_order(self.order)

    def bind(self, target: Target) -> MinibatchField:
        target = with_data(target, self)
        batches = Batches(target.data, known_size(self.size), self.seed)
        return MinibatchField(target, batches, as_order(self.order))

    def with_size(self, size: int, field: GradientField | None = None) -> Minibatch:
        return replace(self, size=size)


class MinibatchField(GradientField):
    """Each chain reads its own batch."""

    def __init__(self, target: DataTarget, batches: Batches, order: Order):
        sweep = order.sweep(batches.count)
        super().__init__(order=order, epoch=batches.count, sweep=sweep, whole_sweeps=True)
        self._target, self._batches = target, batches

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return batch_gradient(self._target, self._batches, position, entry), None


def batch_gradient(target: DataTarget, batches: Batches, position: Tensor, entry: Tensor | None) -> Tensor:
    """∇P_j of each chain's own batch j: [chains, d]."""
    assert entry is not None
    batch, weights = batches[entry]
    return target.batch_potential_and_gradient(position, batch, weights)[1]


def check_size(size: Any) -> None:
    """Refuse what is neither a number of examples nor "auto"."""
    if size != "auto":
        require_count("size", size)


def known_size(size: int | str) -> int:
    """A number of examples; refuses "auto", which only warm-up can turn into one."""
    if size == "auto":
        raise BadInput('size="auto" is found in warm-up by ggmc.sample: give a number to bind the guide by hand')
    return int(size)


def with_data(target: Target, guide: BatchGuide) -> DataTarget:
    """The target itself; refuses one that has no data."""
    if not isinstance(target, DataTarget):
        name = type(guide).__name__
        raise BadInput(f"{name} needs a target with data, such as ggmc.DataDensity, got {target!r}")
    return target
