"""What a function of tensors does, as the list of its operations.

What is recorded lies below vmap, autograd and torch.distributions: their tensor operations alone. What the function
reads besides its arguments, and a branch on values that torch cannot see, is fixed in such a record: so whoever uses
one compares it with its function before it is trusted.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ggmc.plain import Tree

Function = Callable[..., Tree]


class CannotRecord(Exception):
    """Why the operations of a function depend on more than the form of its arguments."""


def record(function: Callable[[], Tree]) -> tuple[list[Call], Tree]:
    """The operations of one call, in order, and what it returned.

    Args:
        function: Of no arguments: what it reads is as it is now.

    Example:
        >>> import torch
        >>> from ggmc.programs.record import record
        >>> x = torch.ones(3)
        >>> calls, _ = record(lambda: 2 * x.exp())
        >>> [str(call.function) for call in calls]
        ['aten.exp.default', 'aten.mul.Tensor']
    """
    recorder, before = _Recorder(), _thread.recording
    _thread.recording = True
    try:
        with as_written(), recorder:
            result = function()
    finally:
        _thread.recording = before
    return recorder.calls, result


@contextmanager
def as_written() -> Iterator[None]:
    """Within this block functions are carried out as they were written, even where there is a record of them."""
    before, _thread.as_written = _thread.as_written, True
    try:
        yield
    finally:
        _thread.as_written = before


def is_recording() -> bool:
    """Whether this thread is within `record`."""
    return _thread.recording


def is_as_written() -> bool:
    """Whether this thread is within `as_written`, or within `record`."""
    return _thread.as_written


class _Thread(threading.local):
    recording = as_written = False


_thread = _Thread()


class Call(NamedTuple):
    """An operation that was carried out."""

    function: OpOverload
    args: tuple[Tree, ...]
    kwargs: dict[str, Tree]
    result: Tree


class Observer(TorchDispatchMode, ABC):
    """Sees every operation that is carried out within its block."""

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Tree, ...] = (), kwargs: dict[str, Tree] | None = None
    ) -> Tree:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.saw(Call(func, args, kwargs, result))
        return result

    @abstractmethod
    def saw(self, call: Call) -> None:
        """Called after each operation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Where torch asks, spares the import of its compiler, which takes seconds and is not needed here."""
        return False


class Sizes(Observer):
    """Counts operations and the numbers that they make."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = self.numbers = 0

    def saw(self, call: Call) -> None:
        self.operations += 1
        self.numbers += sum(leaf.numel() for leaf in tree_leaves(call.result) if isinstance(leaf, Tensor))


class _Recorder(Observer):
    """Notes every operation."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def saw(self, call: Call) -> None:
        leaves = tree_leaves(call.result)
        if torch.Tag.nondeterministic_seeded in call.function.tags:
            raise CannotRecord(f"{call.function} draws random numbers")
        if any(not isinstance(leaf, Tensor | None) for leaf in leaves):
            raise CannotRecord(f"its operations depend on values ({call.function})")
        if any(leaf is not None and leaf._is_zerotensor() for leaf in leaves):
            raise CannotRecord("it uses derivatives in forward mode")  # of which torch would crash in the next step
        self.calls.append(call)  # which keeps all tensors alive, and so their ids apart


_aten = torch.ops.aten
OF_SHAPES_ALONE = {_aten.ones_like.default, _aten.zeros_like.default, _aten.full_like.default}
_VIEWS = {_aten.detach.default, _aten.alias.default, _aten.view.default, _aten.expand.default}
_TIMES_ONE = {_aten.mul.Tensor, _aten.mul.Scalar, _aten.div.Tensor, _aten.div.Scalar, _aten.pow.Tensor_Scalar}


def is_a_copy(call: Call) -> bool:
    """Whether it gives its first argument as it is: precision, shape, strides and numbers."""
    if call.function not in _VIEWS and not (call.function in _TIMES_ONE and _is_one(call.args[1])):
        return False
    first, result = call.args[0], call.result
    return (first.dtype, first.shape, first.stride()) == (result.dtype, result.shape, result.stride())


def _is_one(number: object) -> bool:
    return isinstance(number, int | float) and number == 1
