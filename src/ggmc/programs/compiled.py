"""A record compiled to C, by a C compiler of the machine's own, and carried out many times by one call.

No header of torch is needed, so compiling takes a tenth of a second. Sums are added up in another order and functions
such as exp are vectorised, so numbers differ from torch's in the last digits; they are the same at each call.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ggmc.programs.c_source import source_of
from ggmc.programs.loops import CannotCompile, Extern, Place
from ggmc.programs.lowering import lower
from ggmc.programs.record import Call

FLAGS = ["-O2", "-march=native", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC", "-w"]
MOST_RESULTS = 256  # of a program that takes turns
SECONDS = 120  # a compiler that takes longer is stopped


def compiler() -> str:
    """The machine's C compiler."""
    found = next(
        (path for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and (path := shutil.which(name))), None
    )
    if found is None:
        raise CannotCompile("there is no C compiler: install gcc or clang")
    return found


class Compiled:
    """A record as one function in C that goes on from where it ended, n times.

    Args:
        calls: The operations of one time.
        inputs: The tensors that it read, contiguous.
        results: The tensors that it made.
        carried: For each input that is carried on, by number, the result that it becomes.
        each: The numbers of the inputs that are given anew for each time, stacked along a first dimension.

    Example:
        >>> import torch
        >>> from ggmc.programs.compiled import Compiled
        >>> from ggmc.programs.record import record
        >>> x, factor = torch.ones(3), torch.full((), 2.0)
        >>> calls, result = record(lambda: x * factor)
        >>> double = Compiled(calls, [x, factor], [result], carried={0: 0})
        >>> double(3, [torch.ones(3), torch.full((), 2.0)])
        [tensor([8., 8., 8.])]
        >>> double(3, [torch.ones(3), torch.full((), 2.0)], observed={0})[0][:, 0]
        tensor([2., 4., 8.])
    """

    def __init__(
        self,
        calls: Sequence[Call],
        inputs: Sequence[Tensor],
        results: Sequence[Tensor],
        carried: Mapping[int, int],
        each: frozenset[int] = frozenset(),
    ):
        self._program = lower(calls, inputs, results)
        self._forms = [(tuple(x.shape), x.dtype) for x in inputs]
        self.made = [(tuple(x.shape), x.dtype) for x in results]
        """Shapes and precisions of the results."""
        self._each = each
        self.source = source_of(self._program, len(inputs), carried)
        self._run = built(self.source.text, "run", RUN)
        self._workspace = torch.zeros(self.source.workspace + 64, dtype=torch.uint8, device="cpu")
        self._start = -self._workspace.data_ptr() % 64
        constants = [self._program.buffers[number].constant for number in self.source.pointers[len(inputs) :]]
        self._constants = [constant for constant in constants if constant is not None]
        known = [x.untyped_storage().data_ptr() for x in self._constants]
        self._given = (ctypes.c_void_p * max(1, len(self.source.pointers)))(*([0] * len(inputs) + known))
        self._steps = (ctypes.c_long * max(1, len(inputs)))(
            *(x.numel() * x.element_size() if number in each else 0 for number, x in enumerate(inputs))
        )
        self._out = (ctypes.c_void_p * max(1, len(results)))()
        self._out_steps = (ctypes.c_long * max(1, len(results)))()
        self._externs = [_Called(one, self._tensor) for one in self.source.externs]
        self._last: list[Tensor | None] = [None] * len(inputs)
        """What was given last, which is often given again."""
        self._call_back = CALLBACK(self._called)
        self._error: BaseException | None = None

    @torch.no_grad()
    def __call__(self, times: int, inputs: Sequence[Tensor], observed: Collection[int] = ()) -> list[Tensor]:
        """The results of the last time.

        Args:
            times: How often.
            inputs: As they were recorded; those of `each` with a first dimension of `times`.
            observed: The numbers of the results that are wanted of every time, with a first dimension.
        """
        for number, tensor in enumerate(inputs):
            if tensor is not self._last[number] or number in self._each:
                self._give(number, tensor, times)
        results: list[Tensor] = []
        for number, (shape, dtype) in enumerate(self.made):
            result = torch.empty((times, *shape) if number in observed else shape, dtype=dtype, device="cpu")
            self._out[number] = result.data_ptr()
            self._out_steps[number] = result[0].numel() * result.element_size() if number in observed else 0
            results.append(result)
        place = self._workspace.data_ptr() + self._start
        if self._run(times, place, self._given, self._steps, self._out, self._out_steps, self._call_back):
            self.raise_error()
        return results

    def raise_error(self) -> None:
        """Raise what a call back raised, if one did."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def turn(
        self,
        times: Tensor | None,
        inputs: Sequence[Tensor],
        each: Collection[int],
        results: Sequence[Tensor],
        observed: Collection[int],
    ) -> Turn:
        """The program as one of several that take turns.

        Args:
            times: How often at each turn, [turns]; None for once.
            inputs: As they were recorded; those of `each` with a first dimension, one for each time of all turns.
            each: The numbers of the inputs that are given anew.
            results: Where the results go; those of `observed` with a first dimension of turns.
            observed: The numbers of the results that are wanted of every turn.
        """
        if len(results) > MOST_RESULTS:
            raise CannotCompile(f"it has {len(results)} results")
        inputs = [tensor.contiguous() for tensor in inputs]
        self._keep = times, inputs, results  # as long as C has their addresses
        given = (ctypes.c_void_p * len(self._given))(*self._given)
        steps, out_steps = (ctypes.c_long * len(self._steps))(), (ctypes.c_long * len(self._out_steps))()
        out = (ctypes.c_void_p * len(self._out))()
        for number, tensor in enumerate(inputs):
            given[number] = tensor.data_ptr()
            steps[number] = tensor[0].numel() * tensor.element_size() if number in each else 0
        for number, tensor in enumerate(results):
            assert tensor.is_contiguous()
            out[number] = tensor.data_ptr()
            out_steps[number] = tensor[0].numel() * tensor.element_size() if number in observed else 0
        function = ctypes.cast(self._run, _POINTER)  # pyright: ignore[reportArgumentType]
        place, called = self._workspace.data_ptr() + self._start, None if times is None else times.data_ptr()
        return Turn(function, place, given, steps, out, out_steps, self._call_back, called, len(inputs), len(results))

    def _give(self, number: int, tensor: Tensor, times: int) -> None:
        shape, dtype = self._forms[number]
        wanted = (times, *shape) if number in self._each else shape
        if tensor.shape != wanted or tensor.dtype != dtype:
            raise ValueError(f"input {number} must be {dtype} {list(wanted)}, got {tensor.dtype} {list(tensor.shape)}")
        self._last[number] = kept = tensor.contiguous()
        self._given[number] = kept.data_ptr()

    def _called(self, number: int) -> int:
        try:
            self._externs[number]()
        except BaseException as error:  # which C cannot pass on
            self._error = error
            return 1
        return 0

    def _tensor(self, place: Place) -> Tensor:
        """A place as a tensor."""
        buffer = self._program.buffers[place.buffer]
        if buffer.constant is not None:
            whole = buffer.constant
        else:
            first = self._start + self.source.places[place.buffer]
            whole = self._workspace[first : first + buffer.numbers * buffer.dtype.itemsize].view(buffer.dtype)
            return torch.as_strided(whole, place.shape, place.strides, whole.storage_offset() + place.offset)
        return torch.as_strided(whole, place.shape, place.strides, place.offset)


class Turn(ctypes.Structure):
    """A program and its arguments, as `chained.py` has them in C."""

    _fields_ = (
        ("run", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("given", ctypes.POINTER(ctypes.c_void_p)),
        ("step", ctypes.POINTER(ctypes.c_long)),
        ("out", ctypes.POINTER(ctypes.c_void_p)),
        ("out_step", ctypes.POINTER(ctypes.c_long)),
        ("call", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)),
        ("times", ctypes.c_void_p),
        ("inputs", ctypes.c_long),
        ("outputs", ctypes.c_long),
    )


class _Called:
    """An operation of torch on tensors in the workspace."""

    def __init__(self, extern: Extern, tensor: Callable[[Place], Tensor]):
        call = extern.call
        self._function = call.function._op
        places = iter(extern.reads)
        self._args, self._kwargs = tree_map(
            lambda leaf: tensor(next(places)) if isinstance(leaf, Tensor) else leaf, (call.args, call.kwargs)
        )
        self._results = [(tensor(place), number) for place, number in extern.results]

    @torch.no_grad()
    def __call__(self) -> None:
        found = [leaf for leaf in tree_leaves(self._function(*self._args, **self._kwargs)) if isinstance(leaf, Tensor)]
        for into, number in self._results:
            into.copy_(found[number])


CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
_LONG, _POINTER, _POINTERS = ctypes.c_long, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
_LONGS = ctypes.POINTER(ctypes.c_long)
RUN = [_LONG, _POINTER, _POINTERS, _LONGS, _POINTERS, _LONGS, CALLBACK]
"""The arguments of a program: times, workspace, what is given, its steps, results, their steps, call back."""


def built(text: str, name: str, arguments: list[type]) -> Callable[..., int]:
    """A function of a source in C, which returns a whole number.

    Args:
        text: The source.
        name: Of the function.
        arguments: Their types, as ctypes has them.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ggmc-") as folder:
            source, library = Path(folder) / "program.c", Path(folder) / "program.so"
            source.write_text(text)
            command = [compiler(), *FLAGS, "-o", str(library), str(source), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode:
                raise CannotCompile(f"{command[0]} failed: {done.stderr.strip()[:200]}")
            function = ctypes.CDLL(str(library))[name]
    except (OSError, subprocess.TimeoutExpired) as error:  # such as a folder from which nothing may be run
        raise CannotCompile(str(error)) from error
    function.argtypes, function.restype = arguments, ctypes.c_int
    return function
