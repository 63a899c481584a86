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
        self._made = [(tuple(x.shape), x.dtype) for x in results]
        self._each = each
        self.source = source_of(self._program, len(inputs), carried)
        self._run = _built(self.source.text)
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
        self._call_back = _CALLBACK(self._called)
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
        for number, (shape, dtype) in enumerate(self._made):
            result = torch.empty((times, *shape) if number in observed else shape, dtype=dtype, device="cpu")
            self._out[number] = result.data_ptr()
            self._out_steps[number] = result[0].numel() * result.element_size() if number in observed else 0
            results.append(result)
        place = self._workspace.data_ptr() + self._start
        if self._run(times, place, self._given, self._steps, self._out, self._out_steps, self._call_back):
            error, self._error = self._error, None
            assert error is not None
            raise error
        return results

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


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
_folder: tempfile.TemporaryDirectory[str] | None = None


def _built(text: str) -> Callable[..., int]:
    """The function `run` of a source, compiled in a folder that this process removes at its end."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="ggmc-")
    path = Path(tempfile.mkdtemp(dir=_folder.name))
    (path / "program.c").write_text(text)
    command = [compiler(), *FLAGS, "-o", str(path / "program.so"), str(path / "program.c"), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCompile(str(error)) from error
    if done.returncode:
        raise CannotCompile(f"{command[0]} failed: {done.stderr.strip()[:200]}")
    run = ctypes.CDLL(str(path / "program.so")).run
    pointer, numbers = ctypes.c_void_p, ctypes.POINTER(ctypes.c_long)
    pointers = ctypes.POINTER(ctypes.c_void_p)
    run.argtypes = [ctypes.c_long, pointer, pointers, numbers, pointers, numbers, _CALLBACK]
    run.restype = ctypes.c_int
    return run
