"""A batch of CIFAR-10 from its pickle, without trusting it.

A pickle is a program. Before this one runs, its instructions are checked: only those that write down numbers, text,
lists, dicts and arrays, and only so many. When it runs, the names that it may call stand for small classes of this
file, so that neither Python's nor NumPy's own functions are reached; any other name is refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable

import numpy as np

from ggmc.errors import BadInput

TEXT = {
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE",
}  # fmt: skip
SHAREABLE = {*TEXT, "GLOBAL", "STACK_GLOBAL", "REDUCE"}
"""What may be referred to again. Tuples that hold each other twice, many levels deep, would take too long to hash."""
TUPLES = {"EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
MEMO = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
RECALL = {"GET", "BINGET", "LONG_BINGET"}
ALLOWED = {
    *SHAREABLE, *TUPLES, *MEMO, *RECALL, "PROTO", "FRAME", "STOP", "MARK", "BUILD", "NONE", "NEWTRUE", "NEWFALSE",
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "EMPTY_DICT", "EMPTY_LIST", "DICT", "LIST",
    "SETITEM", "SETITEMS", "APPEND", "APPENDS",
}  # fmt: skip
MOST_TUPLES = 100  # that are no arguments; a batch has three. Deep nests of them overflow the stack when hashed
MOST_INSTRUCTIONS = 500_000  # a batch has some 30,000, or 90,000 where Python 3 wrote it


class _Named:
    """What a name in a pickle stands for. `__setstate__` is what the instruction BUILD calls."""

    def __init__(self, called: Callable[..., object]) -> None:
        self.called = called

    def __call__(self, *arguments: object) -> object:
        return self.called(*arguments)

    def __setstate__(self, state: object) -> None:
        raise BadInput("it changes a function")


class _Type:
    """The type of an array: bytes, or it is refused."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str | bytes) or code not in ("u1", b"u1"):
            raise BadInput("its array is not one of bytes (uint8)")

    def __setstate__(self, state: object) -> None:
        """The order of bytes, which does not matter for single ones."""


class _Array:
    """An array that the pickle fills; it is only looked at when all is read."""

    def __init__(self, *_: object) -> None:
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def values(self) -> np.ndarray:
        match self.state:
            case (int(), (int() as rows, int() as columns), _Type(), bool() as by_column, bytes() as content):
                if rows < 1 or columns != 3072 or rows * columns != len(content):
                    shape = f"[{str(rows)[:20]}, {str(columns)[:20]}]"
                    raise BadInput(f"its array has the shape {shape} and {len(content)} bytes: rows are of 3072 bytes")
                return np.frombuffer(content, np.uint8).reshape(rows, columns, order="F" if by_column else "C")
            case _:
                raise BadInput("its array is not of two dimensions")


def _encode(text: object, encoding: object) -> bytes:
    """Bytes, as Python 3 writes them for Python 2."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise BadInput("it encodes text in an unusual way")
    return text.encode("latin1")


def _refuse(*_: object) -> None:
    raise BadInput("it calls numpy.ndarray")


class _Unpickler(pickle.Unpickler):
    """Reads numbers, text, lists, dicts and arrays of bytes."""

    def find_class(self, module: str, name: str) -> object:
        match module, name:
            case (("numpy.core.multiarray" | "numpy._core.multiarray"), "_reconstruct"):
                return _Named(_Array)
            case "numpy", "dtype":
                return _Named(_Type)
            case "numpy", "ndarray":
                return _Named(_refuse)
            case "_codecs", "encode":
                return _Named(_encode)
            case _:
                raise BadInput(f"it asks for {module[:60]!r}, {name[:60]!r}, which no such file needs")

    def persistent_load(self, pid: object) -> object:
        raise BadInput("it refers to objects outside the file")


def read_batch(content: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    """The images, uint8 [examples, 3, 32, 32], and the labels, int64 [examples], of one batch of CIFAR-10.

    Args:
        content: The pickle.
        where: Its name, for errors.
    """
    try:
        _check_instructions(content)
        found = _Unpickler(io.BytesIO(content), encoding="bytes").load()
        return _examples(found)
    except BadInput as error:
        raise BadInput(f"{where} is not a batch of CIFAR-10: {error}. Nothing of it was used") from error
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise BadInput(f"{where} is damaged ({type(error).__name__}: {str(error)[:200]}): download it again") from error


def _check_instructions(content: bytes) -> None:
    """Refuse what a batch does not need, before anything runs."""
    previous, shareable, memo, tuples = "", set[int](), set[int](), 0
    for count, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        name = instruction.name
        if name not in ALLOWED:
            raise BadInput(f"it has the instruction {name}, which no such file needs")
        if count >= MOST_INSTRUCTIONS:
            raise BadInput(f"it has more than {MOST_INSTRUCTIONS} instructions")
        if name in MEMO:
            number = len(memo) if name == "MEMOIZE" else int(argument)  # pyright: ignore
            if number > MOST_INSTRUCTIONS:
                raise BadInput(f"it numbers an object {number}")
            memo.add(number)
            shareable.discard(number)
            if previous in SHAREABLE:
                shareable.add(number)
        elif name in RECALL and int(argument) not in shareable:  # pyright: ignore
            raise BadInput("it refers to one list, dict or tuple twice")
        tuples += (name in TUPLES) - (name == "REDUCE" and previous in TUPLES)
        if tuples > MOST_TUPLES:
            raise BadInput(f"it has more than {MOST_TUPLES} tuples")
        if name not in MEMO:
            previous = name


def _examples(found: object) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(found, dict):
        raise BadInput(f"it is a {type(found).__name__}, not a dict")
    named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in found.items()}
    data, labels = named.get("data"), named.get("labels")
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise BadInput("it needs an array 'data' and a list 'labels'")
    images = data.values()
    if len(labels) != len(images):
        raise BadInput(f"it has {len(images)} images and {len(labels)} labels")
    if not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise BadInput("it has labels that are not whole numbers from 0 to 9")
    return images.reshape(-1, 3, 32, 32), np.array(labels, np.int64)
