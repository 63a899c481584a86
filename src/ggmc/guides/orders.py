"""Tapes: which minibatch each kick of a trajectory reads, drawn before the trajectory starts.

The data are cut once into batches (`data.py`); a tape is a table [entries, chains] of batch numbers, every chain with
its own column. An `Order` is the law of such tapes. A trajectory driven by a tape can be corrected exactly if the joint
law of the tape is the same read backwards; equal laws of its entries one by one are not enough.

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
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

import torch
from torch import Tensor

from ggmc.errors import BadInput, NotExact


class Order(Protocol):
    """A law of tapes."""

    @property
    def name(self) -> str: ...

    @property
    def reversible(self) -> bool:
        """Whether the joint law of a tape is the same read backwards."""
        ...

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        """A fresh tape: [entries, chains] batch numbers."""
        ...

    def sweep(self, batches: int) -> int:
        """Entries after which the order has come round: the natural length of a trajectory."""
        ...


def _shuffles(count: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """Random orders of the batches: [count, batches, chains]."""
    return torch.rand((count, batches, chains), generator=generator, device=generator.device).argsort(1)


class Iid:
    """Every entry independent of all others."""

    name, reversible = "iid", True

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randint(batches, (entries, chains), generator=generator, device=generator.device)

    def sweep(self, batches: int) -> int:
        return batches


class Epoch:
    """Whole passes, each in a fresh random order."""

    name, reversible = "epoch", True

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        passes = _shuffles(math.ceil(entries / batches) + 1, batches, chains, generator).flatten(0, 1)
        if entries % batches == 0:
            return passes[:entries]
        begin = torch.randint(batches, (chains,), generator=generator, device=generator.device)
        return passes.gather(0, torch.arange(entries, device=passes.device)[:, None] + begin)

    def sweep(self, batches: int) -> int:
        return batches


class Palindrome:
    """Out in a random order and back in the reverse one, again and again."""

    name, reversible = "palindrome", True

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        half, has_centre = math.ceil(entries / 2), entries % 2
        out = _shuffles(1, batches, chains, generator)[0]
        back = torch.cat([out[:1], out[1:].flip(0)]) if has_centre else out.flip(0)
        sweep = torch.cat([out, back])
        there = sweep.repeat(math.ceil(half / len(sweep)), 1)[:half]
        return torch.cat([there, there.flip(0)[has_centre:]])

    def sweep(self, batches: int) -> int:
        return 2 * batches


@dataclass(frozen=True)
class Tape:
    """An order of your own: `draw(entries, batches, generator)` gives one chain's batch numbers.

    Say with `reversible` whether the joint law of what it draws is the same read backwards. If you say so, a
    statistical check tests it before the first trajectory; if not, only `adjust=False` is accepted.

    Example:
        >>> import torch, ggmc
        >>> def there_and_back(entries, batches, generator):
        ...     out = torch.randint(batches, (entries // 2,), generator=generator)
        ...     return torch.cat([out, out.flip(0)])
        >>> ggmc.Minibatch(100, order=ggmc.Tape(there_and_back, reversible=True)).order.name
        'there_and_back'
    """

    draw_one: Callable[[int, int, torch.Generator], Tensor]
    reversible: bool

    @property
    def name(self) -> str:
        return getattr(self.draw_one, "__name__", type(self.draw_one).__name__)

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        columns = [torch.as_tensor(self.draw_one(entries, batches, generator)) for _ in range(chains)]
        for column in columns:
            if column.shape != (entries,) or column.is_floating_point():
                raise BadInput(
                    f"the tape {self.name!r} must give {entries} batch numbers, got {column.dtype} of shape "
                    f"{list(column.shape)}"
                )
            if int(column.min()) < 0 or int(column.max()) >= batches:
                raise BadInput(
                    f"the tape {self.name!r} must give batch numbers from 0 to {batches - 1}, got {int(column.min())} "
                    f"to {int(column.max())}"
                )
        return torch.stack(columns, 1).to(generator.device)

    def sweep(self, batches: int) -> int:
        return batches


ORDERS: dict[str, Order] = {order.name: order for order in (Palindrome(), Epoch(), Iid())}


def as_order(order: Any) -> Order:
    """An order by name, or one of the user's own."""
    if isinstance(order, str):
        if order in ORDERS:
            return ORDERS[order]
    elif hasattr(order, "draw") and hasattr(order, "reversible"):
        return order
    raise BadInput(f"order must be one of {list(ORDERS)} or a ggmc.Tape, got {order!r}")


def is_known(order: Order) -> bool:
    """Whether it is one of the library's own orders, whose reversal is proved and needs no check."""
    return order in ORDERS.values()


def check_reversible(order: Order, entries: int, batches: int, tapes: int = 4000, false_alarms: float = 1e-6) -> None:
    """Refuse an order whose tapes, read backwards, are seen to have another law.

    Batches get random scores s; a reversible law gives every product of scores along the tape the same mean as its
    mirror image. Compared are single entries, pairs, and lopsided triples s²s', which see a direction of travel.
    """
    generator = torch.Generator().manual_seed(0)
    numbers = order.draw(entries, batches, tapes, generator).cpu()  # [entries, tapes]
    ramp = torch.arange(batches, dtype=torch.float64).add(0.5).div(batches).sub(0.5)
    scores = torch.stack([ramp, *torch.randn(2, batches, generator=generator, dtype=torch.float64)])
    along = scores[:, numbers]  # [scores, entries, tapes]
    back = along.flip(1)
    differences = [along - back]
    for lag in range(1, min(3, entries)):
        for one, other in ((1, 1), (2, 1), (1, 2)):
            forth, mirrored = (x[:, :-lag] ** one * x[:, lag:] ** other for x in (along, back))
            differences.append(forth - mirrored)
    seen = torch.cat([d.flatten(0, 1) for d in differences])
    z = seen.mean(1) / (seen.std(1) / math.sqrt(tapes)).clamp_min(1e-12)
    worst = z.abs().max().item()
    limit = NormalDist().inv_cdf(1 - false_alarms / 2 / len(z))
    if worst > limit:
        raise NotExact(
            f"the tape {order.name!r} is said to be reversible, but read backwards it has another law: over {tapes} "
            f"tapes of {entries} entries a mean differs from its mirror image by {worst:.1f} standard errors. "
            "Use order='palindrome', or adjust=False."
        )
