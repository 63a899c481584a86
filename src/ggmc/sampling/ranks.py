"""Ranks: the processes that carry out one run together, and all communication between them.

    split="data"      every rank has all chains, and sums over its part of the data. Noise, tapes and decisions are the
                      same everywhere, since all ranks draw them from the same seed and test the same sums.
    split="chains"    every rank has chains of its own, with a warm-up and a seed of their own. Ranks meet to join their
                      draws.

In both, ranks meet after every trajectory to agree whether to go on, and the first rank alone writes to the disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ggmc.errors import BadInput, GGMCError
from ggmc.plain import PlainDict
from ggmc.sampling.checkpoint import from_bytes, to_bytes
from ggmc.targets.share import WHOLE, Share, sharing

SPLITS = ("data", "chains")


class LostRank(GGMCError, RuntimeError):
    """Another rank has stopped, so that the run cannot go on."""


class Ranks:
    """This process among those that carry out a run.

    Args:
        rank: Which one this is, from 0.
        number: How many there are.
        split: What is shared out: "data" or "chains".
        device: Where tensors are that go from rank to rank.

    Example:
        >>> from ggmc.sampling.ranks import Ranks
        >>> alone = Ranks()
        >>> alone.first, alone.several
        (True, False)
    """

    def __init__(self, rank: int = 0, number: int = 1, split: str = "data", device: torch.device | None = None):
        if split not in SPLITS:
            raise BadInput(f"split must be one of {list(SPLITS)}, got {split!r}")
        self.rank, self.number, self.split = rank, number, split
        self._device = torch.device("cpu") if device is None else device
        self._share = WHOLE
        if self.several and split == "data":
            self._share = Share(rank, number, self._reduce(dist.ReduceOp.SUM), self._reduce(dist.ReduceOp.MIN))

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes and prints."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.number > 1

    @property
    def by_chains(self) -> bool:
        """Whether each rank has chains of its own."""
        return self.has_own_chains(self.number, self.split)

    @staticmethod
    def has_own_chains(number: int, split: str) -> bool:
        """Whether each of so many ranks, with such a split, has chains of its own."""
        return number > 1 and split == "chains"

    @staticmethod
    def described(number: int, split: str) -> str:
        """So many ranks with such a split, in words."""
        return "one process" if number == 1 else f"{number} ranks that share out the {split}"

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Within this block, sums over the data are shared out, and all ranks must ask for the same sums."""
        with sharing(self._share):
            yield

    # Where ranks meet

    def agree(self, position: Tensor, *asked: int) -> list[int]:
        """The largest of each number over all ranks; refuses to go on where chains that should agree do not.

        Args:
            position: The chains', which all ranks should have alike where the data are shared out.
            asked: Numbers that are not negative.
        """
        if not self.several:
            return list(asked)
        sum_of_bits = 0 if self.by_chains else _sum_of_bits(position)
        found = torch.tensor([*asked, sum_of_bits, -sum_of_bits], device=self._device)
        self._reduce(dist.ReduceOp.MAX)(found)
        *agreed, largest, smallest = found.tolist()
        if largest != -smallest:
            raise GGMCError(
                "the chains of the ranks have come apart, so the run was stopped: all ranks must have the same data, "
                "versions, number of threads and kind of machine"
            )
        return agreed

    def exchange(self, value: Any, everywhere: bool = True) -> list[Any]:
        """Every rank's value, in the order of the ranks.

        Args:
            value: Dicts and lists of tensors, numbers, text and None.
            everywhere: False sends them to the first rank alone; the others get an empty list.
        """
        if not self.several:
            return [value]
        content = torch.frombuffer(bytearray(to_bytes({"value": value})), dtype=torch.uint8).to(self._device)
        lengths = [torch.zeros(1, dtype=torch.int64, device=self._device) for _ in range(self.number)]
        with _connected():
            dist.all_gather(lengths, torch.tensor([len(content)], device=self._device))
            longest = max(int(length) for length in lengths)
            padded = torch.nn.functional.pad(content, (0, longest - len(content)))
            found = [torch.empty_like(padded) for _ in range(self.number)] if everywhere or self.first else []
            if everywhere:
                dist.all_gather(found, padded)
            else:
                dist.gather(padded, found or None)
        return [
            from_bytes(each[: int(length)].cpu().numpy().tobytes())["value"]
            for each, length in zip(found, lengths, strict=bool(found))
        ]

    def remarks(self, own: list[str]) -> list[str]:
        """What all ranks have to say about how the draws were made.

        Args:
            own: This rank's sentences.
        """
        if not self.by_chains:
            return own
        return [f"Rank {rank}: {remark}" for rank, each in enumerate(self.exchange(own)) for remark in each]

    def wait(self) -> None:
        """Go on when all ranks are here."""
        if self.several:
            self.agree(torch.zeros(1))

    def require_same(self, facts: PlainDict) -> None:
        """Refuse to begin where ranks were given different things.

        Args:
            facts: By name, as plain values for JSON.
        """
        if not self.several:
            return
        found = self.exchange({name: json.dumps(value, sort_keys=True, default=str) for name, value in facts.items()})
        differing = [name for name in facts if any(other.get(name) != found[0][name] for other in found)]
        if differing:
            raise BadInput(
                f"the ranks were not given the same {', '.join(differing)}: every rank must build the same target from "
                "the same data, and call ggmc.sample with the same arguments. Set seeds before anything random"
            )

    def _reduce(self, operation: Any) -> Callable[[Tensor], None]:
        def reduce(tensor: Tensor) -> None:
            with _connected():
                dist.all_reduce(tensor, operation)

        return reduce


def _sum_of_bits(position: Tensor) -> int:
    same_size = {8: torch.int64, 4: torch.int32, 2: torch.int16}[position.element_size()]
    return int(position.detach().contiguous().view(same_size).sum()) % 2**62


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # as torch.distributed calls whatever happens to a connection
        reason = str(error).strip().split("\n")[0][:200]
        raise LostRank(
            f"another rank of this run has stopped or does not answer ({reason}). Start all ranks again: a run with a "
            "folder goes on from its last checkpoint with ggmc.resume"
        ) from error


ALONE = Ranks()

_current = ALONE


def current() -> Ranks:
    """The ranks that `ggmc.distributed.init` found."""
    return _current


def use(ranks: Ranks) -> None:
    """Carry out every run from now on with these ranks.

    Args:
        ranks: The ranks.
    """
    global _current
    _current = ranks
