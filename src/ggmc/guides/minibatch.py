"""Minibatch gradients: g(θ; j) = ∇[−log prior(θ) − m Σ_{i in batch j} log likelihoodᵢ(θ)], m the number of batches.

The mean over all batches is ∇U exactly. The batches are cut once; the order in which a trajectory meets them is its
tape (`tape.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ggmc.errors import BadInput, require_count
from ggmc.guides.base import Field
from ggmc.guides.orders import Order, as_order
from ggmc.targets.data import Batches
from ggmc.targets.density import Target


@dataclass(frozen=True)
class Minibatch:
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

    def bind(self, target: Target) -> Field:
        return MinibatchField(target, Batches(data_of(target, self), self.known_size, self.seed), as_order(self.order))

    @property
    def known_size(self) -> int:
        return known_size(self.size)


class MinibatchField(Field):
    """Each chain reads its own batch."""

    deterministic = False
    whole_sweeps = True

    def __init__(self, target: Any, batches: Batches, order: Order):
        self._target, self._batches = target, batches
        self.order = order
        self.epoch = batches.count
        self.sweep = order.sweep(batches.count)

    def __call__(self, position: Tensor, entry: Tensor) -> tuple[Tensor, None]:
        batch, weights = self._batches[entry]
        return self._target.batch_potential_and_gradient(position, batch, weights)[1], None

    def tape(self, gradients: int, chains: int, generator: torch.Generator) -> Any:
        assert self.order is not None
        return self.order.draw(gradients, self.epoch, chains, generator)


def check_size(size: Any) -> None:
    """Refuse what is neither a number of examples nor "auto"."""
    if size != "auto":
        require_count("size", size)


def known_size(size: int | str) -> int:
    """A number of examples; refuses "auto", which only warm-up can turn into one."""
    if size == "auto":
        raise BadInput('size="auto" is found in warm-up by ggmc.sample: give a number to bind the guide by hand')
    return int(size)


def data_of(target: Any, guide: Any) -> Any:
    """The target's data; refuses a target that has none."""
    if not hasattr(target, "batch_potential_and_gradient"):
        name = type(guide).__name__
        raise BadInput(f"{name} needs a target with data, such as ggmc.DataDensity, got {target!r}")
    return target.data
