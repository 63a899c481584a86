"""Orders to be caught by the check of reversibility, and orders that must pass it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ggmc.guides.orders import Order

DrawAll = Callable[[int, int, int, torch.Generator], Tensor]


class Vectorised(Order):
    """An order of another class than the library's, said to be reversible, from a function that draws all chains."""

    def __init__(self, draw: DrawAll, name: str | None = None):
        super().__init__(name=name or draw.__name__, reversible=True)
        self._draw = draw

    def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return self._draw(entries, batches, chains, generator)

    def sweep(self, batches: int) -> int:
        return batches


def sometimes(chains: int, generator: torch.Generator, share: float = 0.5) -> Tensor:
    return torch.rand(chains, generator=generator) < share


def independent(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    return torch.randint(batches, (entries, chains), generator=generator)


# With a direction


def successor(lag: int, share: float = 0.5) -> Order:
    """Every entry is the successor of the one `lag` before it, some of the time, and independent of all others."""

    def draw(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        tape = independent(entries, batches, chains, generator)
        for i in range(lag, entries):
            tape[i] = torch.where(sometimes(chains, generator, share), (tape[i - lag] + 1) % batches, tape[i])
        return tape

    return Vectorised(draw, f"successor at lag {lag}")


def one_successor(lag: int) -> Order:
    """The same, at one place of the tape only."""

    def draw(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        tape = independent(entries, batches, chains, generator)
        tape[lag] = torch.where(sometimes(chains, generator), (tape[0] + 1) % batches, tape[lag])
        return tape

    return Vectorised(draw, f"one successor at lag {lag}")


def first_entry(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """The first entry favours one batch, the last does not."""
    tape = independent(entries, batches, chains, generator)
    tape[0] = torch.where(sometimes(chains, generator, 0.3), 0, tape[0])
    return tape


def triple(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """Places 0, 1 and 3 are tied together; any two places are independent."""
    tape = independent(entries, batches, chains, generator)
    tape[3] = torch.where(sometimes(chains, generator), (tape[0] + tape[1]) % batches, tape[3])
    return tape


def cyclic_triple(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """a b . c, b c . a or c a . b at the places 0, 1 and 3."""
    tape = independent(entries, batches, chains, generator)
    chosen = sometimes(chains, generator)
    tape[1] = torch.where(chosen, (tape[0] + 1) % batches, tape[1])
    tape[3] = torch.where(chosen, (tape[0] + 2) % batches, tape[3])
    return tape


def quadruple(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """Four places are tied together; any three are independent."""
    tape = independent(entries, batches, chains, generator)
    tied = (tape[0] + tape[1] + tape[2]) % batches
    tape[3] = torch.where(sometimes(chains, generator, 0.8), tied, tape[3])
    return tape


def ascending(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    return independent(entries, batches, chains, generator).sort(0).values


def odd_lengths_ascend(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    tape = independent(entries, batches, chains, generator)
    return tape.sort(0).values if entries % 2 else tape


def cut_off_passes(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """Whole passes, the last one cut off: reversible only where none is."""
    passes = [torch.rand(batches, chains, generator=generator).argsort(0) for _ in range(entries // batches + 1)]
    return torch.cat(passes)[:entries]


# Without


def mirrored(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    out = independent(entries - entries // 2, batches, chains, generator)
    return torch.cat([out, out.flip(0)[entries % 2 :]])


def one_batch(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    return independent(1, batches, chains, generator).expand(entries, chains)


def in_turn_either_way(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    tape = (torch.arange(entries)[:, None] + torch.randint(batches, (chains,), generator=generator)) % batches
    return torch.where(sometimes(chains, generator), tape, tape.flip(0))


def sticky(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """A reversible Markov chain, stationary from the beginning."""
    tape = independent(entries, batches, chains, generator)
    for i in range(1, entries):
        tape[i] = torch.where(sometimes(chains, generator), tape[i - 1], tape[i])
    return tape


def rarely_another(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """Nearly always batch 0: features with very skewed distributions."""
    rare = torch.rand(entries, chains, generator=generator) < 0.002
    return torch.where(rare, independent(entries, batches, chains, generator), 0)


def always_the_same(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
    """One palindrome, not random at all."""
    place = torch.arange(entries)
    return (torch.minimum(place, entries - 1 - place) % batches)[:, None].expand(entries, chains)


REVERSIBLE = [Vectorised(f) for f in (mirrored, one_batch, in_turn_either_way, sticky, rarely_another, always_the_same)]
