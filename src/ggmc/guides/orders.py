"""Orders: which minibatch each gradient of a trajectory reads, drawn before the trajectory starts.

The data are cut into batches (`batches.py`); a tape is a table [entries, chains] of batch numbers, every chain with its
own column. An `Order` is the distribution of such tapes. A trajectory driven by a tape can be corrected exactly if the
joint distribution of the tape is the same read backwards; equal distributions of its entries one by one are not enough.

- `iid`: every entry independent of all others.
- `epoch`: whole passes over the batches, each in a fresh random order. Where a trajectory is not a whole number of
  passes, the place where passes begin is random too: cut off at the end only, it would not read the same backwards.
- `palindrome`: out through the batches in a random order and back through them in the reverse order, so that the noise
  of the way out cancels on the way back. Every tape, whatever its length, reads the same backwards. All sweeps of one
  trajectory go in the same order: repeating one symplectic map keeps the energy error bounded, as in HMC, where sweeps
  in fresh orders would add up their errors. Words that begin and end in half a kick read one entry more; there the
  sweeps turn round at the first batch, 1 2 3 1 3 2 1, so that all batches weigh the same and none acts twice running.

Example:
    >>> import torch
    >>> from ggmc.guides.orders import as_order
    >>> generator = torch.Generator().manual_seed(0)
    >>> as_order("palindrome").draw(8, 4, 1, generator).flatten().tolist()       # 8 entries of 4 batches, one chain
    [2, 3, 0, 1, 1, 0, 3, 2]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ggmc.errors import BadInput, require_switch


class Order(ABC):
    """The distribution of a tape. A subclass states its name and whether it is reversible; there is no default.

    Args:
        name: What messages call it.
        reversible: Whether the joint distribution of a tape is the same read backwards. True is tested statistically
            before the first trajectory (`order_check.py`), except for the orders of this file; with False only
            `adjust=False` is accepted.

    Example:
        >>> import torch
        >>> from ggmc.guides.orders import Order
        >>> class OneBatch(Order):
        ...     '''Each trajectory reads one batch only.'''
        ...     def __init__(self):
        ...         super().__init__(name="one batch", reversible=True)
        ...     def draw(self, entries, batches, chains, generator):
        ...         return torch.randint(batches, (1, chains), generator=generator).expand(entries, chains)
        ...     def sweep(self, batches):
        ...         return 1
        >>> OneBatch().draw(3, 5, 2, torch.Generator().manual_seed(0)).shape
        torch.Size([3, 2])
    """

    def __init__(self, *, name: str, reversible: bool):
        self.name = name
        self.reversible = reversible

    @abstractmethod
    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        """A fresh tape, independent of the state and of earlier tapes, every chain with its own.

        Args:
            entries: Gradients of a trajectory.
            batches: The number of batches the data are cut into.
            chains: The number of chains.
            generator: The only source of randomness; its device is the tape's.

        Returns:
            Batch numbers [entries, chains], or whatever else the field reads, [entries, chains, ...].
        """

    @abstractmethod
    def sweep(self, batches: int) -> int:
        """Entries after which the order has come round: the natural length of a trajectory."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _shuffles(count: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """Random orders of the batches: [count, batches, chains]."""
    noise = torch.rand((count, batches, chains), generator=generator, dtype=torch.float32, device=generator.device)
    return noise.argsort(1)


class Iid(Order):
    """Every entry independent of all others."""

    def __init__(self):
        super().__init__(name="iid", reversible=True)

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randint(batches, (entries, chains), generator=generator, device=generator.device)

    def sweep(self, batches: int) -> int:
        return batches


class Epoch(Order):
    """Whole passes, each in a fresh random order."""

    def __init__(self):
        super().__init__(name="epoch", reversible=True)

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        passes = _shuffles(math.ceil(entries / batches) + 1, batches, chains, generator).flatten(0, 1)
        if entries % batches == 0:
            return passes[:entries]
        begin = torch.randint(batches, (chains,), generator=generator, device=generator.device)
        return passes.gather(0, torch.arange(entries, device=passes.device)[:, None] + begin)

    def sweep(self, batches: int) -> int:
        return batches


class Palindrome(Order):
    """Out in a random order and back in the reverse one, again and again."""

    def __init__(self):
        super().__init__(name="palindrome", reversible=True)

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        half, has_centre = math.ceil(entries / 2), entries % 2
        out = _shuffles(1, batches, chains, generator)[0]
        back = torch.cat([out[:1], out[1:].flip(0)]) if has_centre else out.flip(0)
        sweep = torch.cat([out, back])
        there = sweep.repeat(math.ceil(half / len(sweep)), 1)[:half]
        return torch.cat([there, there.flip(0)[has_centre:]])

    def sweep(self, batches: int) -> int:
        return 2 * batches


class CustomOrder(Order):
    """An order of your own, from a function that draws the tape of one chain.

    Args:
        draw_one: A function of the number of entries, the number of batches and a generator that returns the batch
            numbers, from 0 to batches − 1, that one chain reads: [entries].
        reversible: Whether the joint distribution of what it draws is the same read backwards. True is tested
            statistically before the first trajectory; with False only `adjust=False` is accepted.

    Example:
        >>> import torch, ggmc
        >>> def there_and_back(entries, batches, generator):
        ...     out = torch.randint(batches, (entries // 2,), generator=generator)
        ...     return torch.cat([out, out.flip(0)])
        >>> ggmc.Minibatch(100, order=ggmc.CustomOrder(there_and_back, reversible=True)).order
        CustomOrder(there_and_back, reversible=True)
    """

    def __init__(self, draw_one: Callable[[int, int, torch.Generator], Tensor | Sequence[int]], reversible: bool):
        if not callable(draw_one):
            raise BadInput(f"CustomOrder needs a function of (entries, batches, generator), got {draw_one!r}")
        require_switch("reversible", reversible)
        super().__init__(name=getattr(draw_one, "__name__", type(draw_one).__name__), reversible=reversible)
        self.draw_one = draw_one

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        drawn = [self.draw_one(entries, batches, generator) for _ in range(chains)]
        try:
            columns = [torch.as_tensor(column, device=generator.device) for column in drawn]
        except (TypeError, ValueError, RuntimeError) as error:
            raise BadInput(f"the order {self.name!r} must give {entries} batch numbers, got {drawn[0]!r}") from error
        for column in columns:
            if column.shape != (entries,) or column.is_floating_point():
                raise BadInput(
                    f"the order {self.name!r} must give {entries} batch numbers, got {column.dtype} of shape "
                    f"{list(column.shape)}"
                )
        tape = torch.stack(columns, 1).long()
        least, most = int(tape.min()), int(tape.max())
        if least < 0 or most >= batches:
            raise BadInput(
                f"the order {self.name!r} must give batch numbers from 0 to {batches - 1}, got {least} to {most}"
            )
        return tape

    def sweep(self, batches: int) -> int:
        return batches

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomOrder):
            return NotImplemented
        return (self.draw_one, self.reversible) == (other.draw_one, other.reversible)

    def __hash__(self) -> int:
        return hash((self.draw_one, self.reversible))

    def __repr__(self) -> str:
        return f"CustomOrder({self.name}, reversible={self.reversible})"


ORDERS: dict[str, Order] = {order.name: order for order in (Palindrome(), Epoch(), Iid())}


def as_order(order: str | Order) -> Order:
    """An order by name, or the user's own.

    Args:
        order: "palindrome", "epoch", "iid", a `ggmc.CustomOrder`, or another subclass of `Order`.
    """
    if isinstance(order, Order):
        return order
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order]
    raise BadInput(f"order must be one of {list(ORDERS)} or a ggmc.CustomOrder, got {order!r}")
