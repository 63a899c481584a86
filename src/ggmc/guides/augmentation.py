"""Augmentation in the guide alone: gradients of changed examples, where the tape says how each example is changed.

    g(θ; ζ) = ∇[−log prior(θ) − m Σ_{i in batch} log likelihood(θ; example i, changed as code cᵢ says)],  ζ = (batch, c)

U is that of the examples as they are, and so is the posterior: the guide may be anything, as long as it is a function
of θ and ζ, and the joint distribution of the tape is independent of the state and the same read backwards. Both hold:
the codes are drawn before the trajectory starts, for each chain one for each example, and do not depend on where in the
tape the example is read. Given the codes, an entry is a function of its batch: the tape is reversible exactly if its
order of batches is, and a palindrome stays one, so that an example of the way out is the same on the way back.

The mean of g is the gradient of the potential averaged over codes, not ∇U. What that costs is acceptance: a trajectory
follows the energy of its changed examples, U_c + K. A palindrome cancels the noise of batches around that, but not the
difference, and the energy error is at least about that of U − U_c between the two ends.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ggmc.errors import BadInput
from ggmc.guides.batches import Batches, Recut, RecutBatches
from ggmc.guides.orders import Order
from ggmc.plain import Tree
from ggmc.targets.data import Data, some_examples
from ggmc.targets.share import OwnPart, current


class Augmentation(ABC):
    """How a guide changes the examples of its minibatches: a frozen dataclass of settings.

    A code says how one example is changed. Everything random goes into the codes, and the change of an example depends
    on its own code and nothing else.

    Example:
        >>> import torch, ggmc
        >>> from dataclasses import dataclass
        >>> from ggmc.guides import Augmentation
        >>> @dataclass(frozen=True)
        ... class Mirrored(Augmentation):
        ...     '''Each example as it is, or with the opposite sign.'''
        ...     def draw(self, number, generator):
        ...         return torch.randint(2, (number,), generator=generator, device=generator.device)
        ...     def apply(self, batch, codes):
        ...         return batch * (1 - 2 * codes[:, None])
        >>> Mirrored().apply(torch.ones(2, 1), torch.tensor([0, 1])).flatten()
        tensor([ 1., -1.])
        >>> ggmc.Minibatch(10, augment=Mirrored()).augment
        Mirrored()
    """

    @abstractmethod
    def draw(self, number: int, generator: torch.Generator) -> Tensor:
        """Fresh codes, one for each of so many examples.

        Args:
            number: How many examples.
            generator: The only source of randomness; its device is the codes'.

        Returns:
            Whole numbers [number, ...].
        """

    @abstractmethod
    def apply(self, batch: Tree, codes: Tensor) -> Tree:
        """Examples changed as their codes say.

        Args:
            batch: In the form of the data: leaves [n, ...].
            codes: [n, ...], on the device of the data.

        Returns:
            The same form and shapes.
        """


class Augmented(Order):
    """Another order, where each entry also says how the examples of its batch are changed.

    Args:
        base: The order in which the batches are read.
        batches: Which examples a batch holds.
        augmentation: Draws the codes.
        examples: The number of examples in the data.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.guides.augmentation import Augmented
        >>> from ggmc.guides.batches import RecutBatches, Recut
        >>> from ggmc.guides.orders import as_order
        >>> from ggmc.targets.data import as_data
        >>> data = as_data(torch.zeros(5, 1, 8, 8), torch.device("cpu"))
        >>> order = Augmented(Recut(as_order("palindrome"), 5), RecutBatches(data, 3), ggmc.nets.GuideViews(pad=2), 5)
        >>> tape = order.draw(4, 2, 1, torch.Generator().manual_seed(0))     # 4 entries of 2 batches, one chain
        >>> tape.shape                                                       # 3 examples, and a code of 3 for each
        torch.Size([4, 1, 12])
        >>> bool((tape == tape.flip(0)).all())
        True
    """

    def __init__(self, base: Order, batches: Batches | RecutBatches, augmentation: Augmentation, examples: int):
        super().__init__(name=base.name, reversible=base.reversible)
        self.base, self.examples = base, examples
        self._batches, self._augmentation = batches, augmentation

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        """What the base draws, and behind it the codes of the batch's examples: [entries, chains, ...]."""
        read = self.base.draw(entries, batches, chains, generator)
        codes = self._augmentation.draw(chains * self.examples, generator).view(chains, self.examples, -1)
        chain = torch.arange(chains, device=codes.device)[:, None]
        of_batch = codes[chain, self._batches.examples(read)]  # [entries, chains, size, numbers in a code]
        return torch.cat([read.reshape(entries, chains, -1), of_batch.flatten(2)], -1)

    def sweep(self, batches: int) -> int:
        return self.base.sweep(batches)

    def __repr__(self) -> str:
        return f"Augmented({self.base!r}, {self._augmentation!r})"


class AugmentedBatches:
    """Batches whose examples are changed as the tape says.

    Args:
        batches: The batches as they are.
        augmentation: Changes them.
        code_shape: The shape of one code.
    """

    def __init__(self, batches: Batches | RecutBatches, augmentation: Augmentation, code_shape: torch.Size):
        self.sizes, self.count = batches.sizes, batches.count
        self._batches, self._augmentation, self._code_shape = batches, augmentation, code_shape

    def __getitem__(self, entry: Tensor) -> tuple[Tree, Tensor]:
        """Each chain's batch, by its entry of the tape, [chains, ...], and the examples' weights, [chains, size]."""
        shape = self._batches.entry_shape
        read, codes = entry.tensor_split([math.prod(shape)], 1)
        batch, weights = self._batches[read.reshape(-1, *shape)]
        codes = codes.to(weights.device).unflatten(1, (self.sizes[0], *self._code_shape))
        if not isinstance(batch, OwnPart):
            return self._changed(batch, codes), weights
        return OwnPart(self._changed(batch.examples, codes[:, current().part(self.sizes[0])])), weights

    def _changed(self, batch: Tree, codes: Tensor) -> Tree:
        """All chains' examples at once, which the augmentation does not tell apart."""
        examples = tree_map(lambda leaf: leaf.flatten(0, 1), batch)
        changed = self._augmentation.apply(examples, codes.flatten(0, 1))
        return tree_map(lambda leaf: leaf.unflatten(0, codes.shape[:2]), changed)


def augmented(
    augmentation: Augmentation, data: Data, batches: Batches | RecutBatches, order: Order
) -> tuple[AugmentedBatches, Augmented]:
    """Batches and their order, with an augmentation that has been tried on a few examples.

    Args:
        augmentation: The augmentation.
        data: The examples.
        batches: How they are cut.
        order: In which order the batches are read.
    """
    code_shape = _checked_code_shape(augmentation, data)
    return AugmentedBatches(batches, augmentation, code_shape), Augmented(order, batches, augmentation, len(data))


def order_of_batches(order: Order) -> Order:
    """The order in which batches are read, without the cut and the codes, which have no direction.

    Args:
        order: Any order.
    """
    while type(order) is Recut or type(order) is Augmented:
        order = order.base
    return order


def _checked_code_shape(augmentation: Augmentation, data: Data) -> torch.Size:
    """The shape of one code; refuses codes that are not the generator's alone, and changes that need other examples."""
    name, number = type(augmentation).__name__, min(4, len(data))
    codes, again = (augmentation.draw(number, torch.Generator(data.device).manual_seed(0)) for _ in range(2))
    if not isinstance(codes, Tensor) or codes.is_floating_point() or codes.is_complex() or codes.dtype == torch.bool:
        kind = codes.dtype if isinstance(codes, Tensor) else type(codes).__name__
        raise BadInput(f"{name}.draw must give a tensor of whole numbers, got {kind}")
    if codes.shape[:1] != (number,):
        raise BadInput(f"{name}.draw must give one code for each of {number} examples, got shape {list(codes.shape)}")
    if codes.device != data.device:
        raise BadInput(f"{name}.draw must give codes on its generator's device, {data.device}, got {codes.device}")
    if not torch.equal(codes, again):
        raise BadInput(
            f"{name}.draw gives other codes for the same seed: draw them from the generator that it is given, and from "
            "nothing else"
        )
    few = some_examples(data)
    together = tree_leaves(augmentation.apply(few, codes))
    shapes, changed = ([tuple(leaf.shape) for leaf in tree_leaves(tree)] for tree in (few, together))
    if changed != shapes:
        raise BadInput(f"{name}.apply must keep the shapes of a batch, {shapes}, got {changed}")
    for i in range(number):
        alone = augmentation.apply(tree_map(lambda leaf, i=i: leaf[i : i + 1], few), codes[i : i + 1])
        for one, all_of_them in zip(tree_leaves(alone), together, strict=True):
            if not torch.allclose(one.double(), all_of_them[i : i + 1].double(), rtol=1e-3, atol=1e-5, equal_nan=True):
                raise BadInput(
                    f"{name}.apply gave example {i} of a batch another value when it was alone: a change must depend "
                    "on the example and its code, not on other examples or chance. What is random belongs in `draw`"
                )
    return codes.shape[1:]
