"""Minibatch gradients: g(θ; j) = ∇[−log prior(θ) − m Σ_{i in batch j} log likelihoodᵢ(θ)], m the number of batches.

The mean over all batches is ∇U exactly. The order in which a trajectory reads the batches is its tape (`orders.py`).
With `augment`, the tape also says how each example is changed before the guide sees it (`augmentation.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ggmc.errors import BadInput, require_count, require_seed, require_switch
from ggmc.guides.augmentation import Augmentation, AugmentedBatches, augmented
from ggmc.guides.base import BatchGuide, GradientField
from ggmc.guides.batches import Batches, Recut, RecutBatches
from ggmc.guides.orders import Order, as_order
from ggmc.targets.base import DataTarget, Target


@dataclass(frozen=True)
class Minibatch(BatchGuide):
    """Drive the chain with gradients of minibatches.

    Args:
        size: The most examples in a batch, or "auto", which leaves it to warm-up. Where it does not divide the data,
            the sizes of batches differ by at most one: no example is left out, and all have the same weight.
        order: In which order a trajectory reads the batches: "palindrome" (out in a random order and back in reverse:
            the best acceptance), "epoch" (passes in fresh random orders), "iid" (independent batches), or a
            `ggmc.CustomOrder`.
        seed: The seed of the cut of the data into batches.
        recut: Whether the data are cut anew for each trajectory, every chain with its own cut. Then `seed` plays no
            part, and examples are gathered one by one, which costs more than whole batches.
        augment: How the examples of batches are changed, such as `ggmc.nets.GuideViews`. U, and with it what is
            sampled, is that of the examples as they are. Default: not at all.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.DataDensity(
        ...     log_prior=lambda w: -(w**2).sum() / 2,
        ...     log_likelihood=lambda w, x: -((x - w) ** 2).sum(-1) / 2,
        ...     data=torch.arange(10.0, dtype=torch.float64)[:, None],
        ...     start=torch.zeros(1, dtype=torch.float64),
        ... )
        >>> field = ggmc.Minibatch(4).bind(target)
        >>> field.epoch, field.sweep                     # three batches; six gradients out and back
        (3, 6)
        >>> position = torch.zeros(1, 1, dtype=torch.float64)
        >>> each = [field(position, torch.tensor([batch]))[0] for batch in range(3)]
        >>> sum(each) / 3                                # the exact gradient: −(0 + 1 + … + 9)
        tensor([[-45.]], dtype=torch.float64)
    """

    size: int | str
    order: str | Order = "palindrome"
    seed: int = 0
    recut: bool = False
    augment: Augmentation | None = None

    def __post_init__(self) -> None:
        check_size(self.size)
        as_order(self.order)
        if self.augment is not None and not isinstance(self.augment, Augmentation):
            raise BadInput(f"augment must be an Augmentation, such as ggmc.nets.GuideViews(), got {self.augment!r}")
        require_seed("seed", self.seed)
        require_switch("recut", self.recut)

    def bind(self, target: Target) -> MinibatchField:
        target, size, order = with_data(target, self), known_size(self.size), as_order(self.order)
        if self.recut:
            batches, order = RecutBatches(target.data, size), Recut(order, len(target.data))
        else:
            batches = Batches(target.data, size, self.seed)
        if self.augment is not None:
            return MinibatchField(target, *augmented(self.augment, target.data, batches, order))
        return MinibatchField(target, batches, order)

    def with_size(self, size: int, field: GradientField | None = None) -> Minibatch:
        return replace(self, size=size)


class MinibatchField(GradientField):
    """Each chain reads its own batch.

    Args:
        target: The target.
        batches: What an entry of the tape stands for.
        order: The distribution of the tape.
    """

    def __init__(self, target: DataTarget, batches: Batches | RecutBatches | AugmentedBatches, order: Order):
        sweep = order.sweep(batches.count)
        super().__init__(order=order, epoch=batches.count, sweep=sweep, whole_sweeps=True)
        self._target, self._batches = target, batches

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return batch_gradient(self._target, self._batches, position, entry), None


def batch_gradient(
    target: DataTarget, batches: Batches | RecutBatches | AugmentedBatches, position: Tensor, entry: Tensor | None
) -> Tensor:
    """The gradient of each chain's own batch.

    Args:
        target: The target.
        batches: The batches.
        position: Rows [chains, d].
        entry: An entry of the tape, which says which batch each chain reads: [chains, ...].

    Returns:
        [chains, d].
    """
    if entry is None:
        raise BadInput("a minibatch gradient needs an entry of the tape, got None: draw one with field.tape(...)")
    batch, weights = batches[entry]
    return target.batch_gradient(position, batch, weights)


def check_size(size: int | str) -> None:
    """Refuse what is neither a number of examples nor "auto"."""
    if not (isinstance(size, str) and size == "auto"):
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
