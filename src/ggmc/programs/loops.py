"""Recorded operations as statements over memory: what a compiler needs to know of them, and nothing of torch's objects.

Every tensor of a record is a `Place`: a buffer, and how its numbers lie in it. So a view is no operation at all. What
is changed in place gets a new buffer, so that none is written to after it was read. Statements are

    Pointwise   an expression of numbers at the same index, broadcast as in torch
    Reduction   a sum, or a largest or smallest number, over some dimensions
    Product     a small product of matrices
    Extern      whatever else: torch's own operation, called back

`fuse` puts pointwise statements over the same indices into one loop, so that what lies between needs no memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ggmc.programs.record import Call

LOOK_BACK = 64  # loops among which a statement looks for one to join


class CannotCompile(Exception):
    """Why a record cannot be compiled: no C compiler, or numbers of a kind it does not know."""


TYPES = {
    torch.float64: "double",
    torch.float32: "float",
    torch.int64: "long long",
    torch.int32: "int",
    torch.bool: "unsigned char",
}


class Place(NamedTuple):
    """Where the numbers of a tensor lie."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


@dataclass
class Buffer:
    """A piece of memory.

    Args:
        numbers: How many it holds.
        dtype: Of which kind.
        argument: Which of the inputs it is, if it is one.
        constant: The tensor that it belongs to, if its numbers are known.
    """

    numbers: int
    dtype: torch.dtype
    argument: int | None = None
    constant: Tensor | None = None

    @property
    def temporary(self) -> bool:
        """Whether the program itself makes its numbers."""
        return self.argument is None and self.constant is None


@dataclass(frozen=True)
class Pointwise:
    """result[i] = expression of operands[i], in C; `{0}` is the first operand."""

    result: Place
    expression: str
    operands: tuple[Place, ...]
    fills: bool = False
    """Whether it writes a whole buffer of which other statements write parts afterwards."""

    @property
    def reads(self) -> tuple[Place, ...]:
        return self.operands


@dataclass(frozen=True)
class Reduction:
    """One number for all along some dimensions. `kind` is "sum", "max" or "min"; a sum is multiplied by `factor`."""

    result: Place
    operand: Place
    dims: tuple[int, ...]
    kind: str
    factor: float = 1.0

    @property
    def reads(self) -> tuple[Place, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Product:
    """result[..., i, k] = Σ_j a[..., i, j] b[..., j, k]."""

    result: Place
    a: Place
    b: Place

    @property
    def reads(self) -> tuple[Place, ...]:
        return self.a, self.b


@dataclass(frozen=True)
class Extern:
    """An operation of torch, and where its results go; what it reads, and what it changes in place."""

    call: Call
    results: tuple[tuple[Place, int], ...]
    """Places, and which of the call's results goes there."""
    reads: tuple[Place, ...]
    changes: tuple[Place, ...]


Statement = Pointwise | Reduction | Product | Extern


def written(statement: Statement) -> tuple[Place, ...]:
    """The places that a statement writes to."""
    if isinstance(statement, Extern):
        return (*(place for place, _ in statement.results), *statement.changes)
    return (statement.result,)


@dataclass
class Group:
    """Statements that are carried out together: pointwise ones in one loop, or a single other one."""

    statements: list[Statement]
    stored: set[Place] = field(default_factory=set)
    """Of pointwise ones, the results that are needed outside."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The indices of its loop, if it is one that others can join."""
        first = self.statements[0]
        return first.result.shape if isinstance(first, Pointwise) else None


def fuse(statements: Sequence[Statement], results: Sequence[Place]) -> list[Group]:
    """Statements in groups, in an order that keeps what each of them reads.

    Args:
        statements: In the order of the record. No buffer is written to after it was read.
        results: What is needed at the end.
    """
    groups: list[Group] = []
    last_write: dict[int, int] = {}
    where: dict[Place, int] = {}
    """In which group a place was written as it is."""
    filled: dict[int, int] = {}
    """In which group a buffer was filled."""
    for statement in statements:
        number = _group_for(statement, groups, last_write, where, filled)
        if number == len(groups):
            groups.append(Group([]))
        groups[number].statements.append(statement)
        for place in written(statement):
            where[place] = number
            last_write[place.buffer] = max(number, last_write.get(place.buffer, 0))
            if isinstance(statement, Pointwise) and statement.fills:
                filled[place.buffer] = number
    _note_what_is_stored(groups, results)
    return groups


def _group_for(
    statement: Statement,
    groups: list[Group],
    last_write: dict[int, int],
    where: dict[Place, int],
    filled: dict[int, int],
) -> int:
    """The first loop over the same indices that comes after all that the statement reads; else a new one."""
    if not isinstance(statement, Pointwise):
        return len(groups)
    earliest = filled.get(statement.result.buffer, -1) + 1
    for place in statement.operands:
        if place.buffer in last_write:
            made = last_write[place.buffer]
            in_loop = where.get(place) == made and groups[made].shape == statement.result.shape == place.shape
            earliest = max(earliest, made if in_loop else made + 1)
    for number in range(max(earliest, len(groups) - LOOK_BACK), len(groups)):
        if groups[number].shape == statement.result.shape:
            return number
    return len(groups)


def _note_what_is_stored(groups: list[Group], results: Sequence[Place]) -> None:
    """A result is kept in memory where anything but its own loop reads its buffer."""
    readers: dict[int, set[int]] = {}
    for number, group in enumerate(groups):
        for statement in group.statements:
            for place in statement.reads:
                readers.setdefault(place.buffer, set()).add(number)
    wanted = {place.buffer for place in results}
    for number, group in enumerate(groups):
        own = {place for statement in group.statements for place in written(statement)}
        read_inside = {place for statement in group.statements for place in statement.reads}
        for place in own:
            outside = readers.get(place.buffer, set()) - {number}
            in_part = any(other.buffer == place.buffer and other != place for other in read_inside)
            if outside or in_part or place.buffer in wanted:
                group.stored.add(place)
