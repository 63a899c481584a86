"""A record as statements and buffers, with what gives nothing new left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ggmc.plain import Tree
from ggmc.programs.loops import TYPES, Buffer, CannotCompile, Extern, Place, Pointwise, Statement, written
from ggmc.programs.operations import statements_of
from ggmc.programs.record import OF_SHAPES_ALONE, Call, is_a_copy


@dataclass(frozen=True)
class Lowered:
    """Statements over buffers.

    Args:
        buffers: All of them; a `Place` names its buffer by number.
        statements: In order.
        results: Where the results are: contiguous buffers of their own.
    """

    buffers: list[Buffer]
    statements: list[Statement]
    results: list[Place]


def lower(calls: Sequence[Call], inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Lowered:
    """A record as statements.

    Args:
        calls: The operations, in order.
        inputs: The tensors that differ from call to call: contiguous, and each with memory of its own.
        results: The tensors that are wanted.

    Example:
        >>> import torch
        >>> from ggmc.programs.lowering import lower
        >>> from ggmc.programs.record import record
        >>> x = torch.ones(3)
        >>> calls, result = record(lambda: 2 * x.exp() + 1)
        >>> [statement.expression for statement in lower(calls, [x], [result]).statements]
        ['expf({0})', '{0} * 2.0f', '{0} + 1.0f', '{0}']
    """
    return _Lowering(calls, inputs).with_results(results)


class _Lowering:
    def __init__(self, calls: Sequence[Call], inputs: Sequence[Tensor]):
        self._buffers: list[Buffer] = []
        self._of_storage: dict[int, int] = {}
        self._seen: dict[object, Tensor] = {}
        self._statements: list[Statement] = []
        made = {_storage(tensor) for call in calls if not changed(call) for tensor in _tensors(call.result)}
        self._varying = {_storage(tensor) for call in calls for tensor in changed(call)}
        """Storages whose numbers differ from call to call, or within one."""
        if self._varying - made:
            raise CannotCompile("it changes a tensor that it did not make")
        for number, tensor in enumerate(inputs):
            if _storage(tensor) in self._of_storage or not tensor.is_contiguous() or tensor.storage_offset():
                raise CannotCompile("its inputs share memory")
            self._varying.add(_storage(tensor))
            self._new_buffer(tensor, Buffer(tensor.numel(), tensor.dtype, argument=number))
        for call in calls:
            self._add(call)

    def with_results(self, results: Sequence[Tensor]) -> Lowered:
        places: list[Place] = []
        for tensor in results:
            self._buffers.append(Buffer(tensor.numel(), tensor.dtype))
            own = Place(len(self._buffers) - 1, 0, tuple(tensor.shape), _contiguous(tensor.shape), tensor.dtype)
            self._statements.append(Pointwise(own, "{0}", (self._place(tensor),)))
            places.append(own)
        return Lowered(self._buffers, _without_unused(self._statements, places), places)

    def _add(self, call: Call) -> None:
        read, made = _tensors((call.args, call.kwargs)), _tensors(call.result)
        storages = {_storage(tensor) for tensor in read}
        in_place = changed(call)
        known = not storages & self._varying or call.function in OF_SHAPES_ALONE
        if known and not in_place and not {_storage(tensor) for tensor in made} & self._varying:
            return  # a constant, known by what it was
        self._varying.update(_storage(tensor) for tensor in made)
        if made and not in_place and all(_storage(tensor) in storages for tensor in made):
            return  # views
        for tensor in in_place:
            self._copy_first(tensor)
        if len(made) == 1 and not in_place:
            before = read[0] if is_a_copy(call) else self._seen.setdefault(self._key(call), made[0])
            if before is not made[0] and self._shares(made[0], before):
                return
        new = statements_of(call, self._place)
        self._statements += [self._called_back(call, read, made)] if new is None else new

    def _copy_first(self, tensor: Tensor) -> None:
        """Give a tensor that is about to be changed memory of its own: what it was before may still be read."""
        before = self._place(tensor).buffer
        old = self._buffers[before]
        self._buffers.append(Buffer(old.numbers, old.dtype))
        number = self._of_storage[_storage(tensor)] = len(self._buffers) - 1
        whole = Place(number, 0, (old.numbers,), (1,), old.dtype)
        self._statements.append(Pointwise(whole, "{0}", (whole._replace(buffer=before),), fills=True))

    def _key(self, call: Call) -> object:
        """What an operation computes: the same for two calls of the same numbers."""

        def of(value: object) -> object:
            if isinstance(value, Tensor):
                return self._place(value)
            if isinstance(value, list | tuple):
                return tuple(map(of, value))
            return (type(value), value)

        return call.function, of(call.args), tuple((name, of(value)) for name, value in call.kwargs.items())

    def _called_back(self, call: Call, read: list[Tensor], made: list[Tensor]) -> Extern:
        results = tuple((self._place(tensor), number) for number, tensor in enumerate(made))
        kept = tuple(one for one in results if not any(made[one[1]] is tensor for tensor in changed(call)))
        return Extern(call, kept, tuple(map(self._place, read)), tuple(map(self._place, changed(call))))

    def _shares(self, tensor: Tensor, other: Tensor) -> bool:
        """Let a tensor be the memory of another one with the same numbers, if they lie there in the same way."""
        place = self._place(other)
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        alike = (place.offset, place.strides, place.dtype) == (tensor.storage_offset(), tensor.stride(), tensor.dtype)
        if alike and size <= self._buffers[place.buffer].numbers:
            self._of_storage[_storage(tensor)] = place.buffer
            return True
        return False

    def _place(self, tensor: Tensor) -> Place:
        if tensor.dtype not in TYPES or tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise CannotCompile(f"it has numbers of {tensor.dtype} on {tensor.device}")
        if tensor.is_neg() or tensor.is_conj():
            raise CannotCompile("it has views that change numbers")
        if _storage(tensor) not in self._of_storage:
            numbers = tensor.untyped_storage().nbytes() // tensor.element_size()
            known = None if _storage(tensor) in self._varying else tensor
            self._new_buffer(tensor, Buffer(numbers, tensor.dtype, constant=known))
        number = self._of_storage[_storage(tensor)]
        if self._buffers[number].dtype != tensor.dtype:
            raise CannotCompile("it reads memory as another kind of number")
        return Place(number, int(tensor.storage_offset()), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    def _new_buffer(self, tensor: Tensor, buffer: Buffer) -> None:
        self._of_storage[_storage(tensor)] = len(self._buffers)
        self._buffers.append(buffer)


def changed(call: Call) -> list[Tensor]:
    """The arguments that an operation changes in place."""
    schema = call.function._schema.arguments
    given = [*zip(schema, call.args, strict=False), *((arg, call.kwargs.get(arg.name)) for arg in schema)]
    return [value for arg, value in given if arg.is_write and isinstance(value, Tensor)]


def _tensors(tree: Tree) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= max(1, size)
    return tuple(strides)


def _without_unused(statements: list[Statement], results: Sequence[Place]) -> list[Statement]:
    needed = {place.buffer for place in results}
    kept: list[Statement] = []
    for statement in reversed(statements):
        own = {place.buffer for place in written(statement)}
        if own and not own & needed:  # what gives nothing at all is a check
            continue
        needed.update(place.buffer for place in statement.reads)
        kept.append(statement)
    return kept[::-1]
