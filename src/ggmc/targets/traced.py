"""Functions that are replaced by their records where they are called often.

A record gives the same numbers to the last bit, so a run may change over to it at any call. `Traced` decides when, and
compares the two.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils._pytree import tree_flatten, tree_leaves

from ggmc.errors import Condition, NotExact
from ggmc.plain import Tree
from ggmc.programs.record import Function, is_as_written
from ggmc.programs.replay import program_of

log = logging.getLogger("ggmc")

CALLS_FIRST = 20  # with arguments of one form, before a function is recorded: fewer calls would not pay for it
LOOKS = 4  # calls in a row in which a new program is compared with its function, and as many points beside the first
MOST = 16  # programs of one function; what has more forms than this is called as it is
SMALL = 2**20  # numbers among the arguments, beyond which Python's share of a call is nothing


@dataclass
class _Known:
    """What is known of a function for arguments of one form."""

    calls: int = 0
    program: Function | None = None
    looks: int = LOOKS
    """Calls in which the program is still to be compared before it is relied on."""
    relied_on: bool = False
    """Whether it has been, in this run or an earlier one."""


class Traced:
    """A function of tensors, replaced by its program where it is called often with arguments of one form.

    Args:
        what: Its name in messages.
        function: The function. Its first argument are positions.
        recordable: The same function in a form that can be recorded; by default itself.

    Example:
        >>> import torch
        >>> from ggmc.targets.traced import Traced
        >>> square = Traced("a square", lambda x: (x**2,))
        >>> for _ in range(100):
        ...     result = square(torch.tensor([3.0]))
        >>> result, square.programs
        ((tensor([9.]),), 1)
    """

    def __init__(self, what: str, function: Function, recordable: Function | None = None):
        self._what, self._function, self._recordable = what, function, recordable or function
        self._known: dict[object, _Known] = {}
        self._given_up = False

    @property
    def programs(self) -> int:
        """How many forms of arguments have a program."""
        return sum(known.program is not None for known in self._known.values())

    def check_again(self) -> None:
        """Compare with the function at the next calls: what it reads besides its arguments may have changed since."""
        for known in self._known.values():
            known.looks = LOOKS

    def __call__(self, *arguments: Tree) -> Tree:
        if self._given_up or is_as_written():
            return self._function(*arguments)
        known = self._known.setdefault(form_of(arguments), _Known())
        known.calls += 1
        if known.program is None:
            if known.calls == CALLS_FIRST:
                self._record(known, arguments)
            return self._function(*arguments)
        if known.looks or known.calls & (known.calls - 1) == 0:  # later at powers of two
            return self._compared(known, arguments)
        return known.program(*arguments)

    def __getstate__(self) -> Tree:
        return self.__dict__ | {"_known": {}}  # a program stays in its process

    def _record(self, known: _Known, arguments: tuple[Tree, ...]) -> None:
        if self.programs >= MOST or sum(x.numel() for x in tree_leaves(arguments) if isinstance(x, Tensor)) > SMALL:
            return
        try:
            program = program_of(self._recordable, arguments)
            alike = all(_agree(program, self._function, point) for point in _points(arguments))
        except LinAlgError:  # the arguments' fault: at others it may do
            known.calls = 0
        except Exception as error:  # whatever cannot be recorded runs as it is
            self._give_up(str(error).split("\n")[0])
        else:
            if alike:
                known.program, known.looks = program, LOOKS
            else:
                self._give_up("its operations depend on values")

    def _compared(self, known: _Known, arguments: tuple[Tree, ...]) -> Tree:
        assert known.program is not None
        expected, found = self._function(*arguments), known.program(*arguments)
        if same(found, expected):
            known.looks = max(0, known.looks - 1)
            known.relied_on |= known.looks == 0
        elif not known.relied_on:  # the points of the first comparison have shown too little
            self._give_up("its operations depend on values")
        elif known.looks:  # what it reads was changed between two runs
            self._known.clear()
        elif same(found, expected, half_the_digits(expected)):
            self._give_up("it rounds differently from call to call")
        else:
            raise NotExact(
                f"{self._what} no longer gives what it gave before for the same arguments: it reads something that has "
                "changed since, or takes another path in a way that torch cannot see. It must be a function of its "
                "arguments alone: after a change, make a new target",
                Condition.POTENTIAL,
            )
        return expected

    def _give_up(self, reason: str) -> None:
        log.warning("%s runs as it is, which is slower than a record of its operations: %s", self._what, reason)
        self._given_up = True
        self._known.clear()


def form_of(arguments: tuple[Tree, ...]) -> object:
    """What a program is made for: the structure, shapes, precision and device of its arguments."""
    if all(isinstance(argument, Tensor) for argument in arguments):  # the usual case, and quick
        return tuple((tensor.shape, tensor.dtype, tensor.device) for tensor in arguments)
    leaves, form = tree_flatten(arguments)
    return form, *((leaf.shape, leaf.dtype, leaf.device) for leaf in leaves if isinstance(leaf, Tensor))


def same(a: Tree, b: Tree, tolerance: float = 0.0) -> bool:
    """Whether two results are the same numbers, NaN included.

    Args:
        a: Tensors.
        b: Tensors of the same structure.
        tolerance: Relative to the largest number of each tensor.
    """

    def alike(x: Tensor, y: Tensor) -> bool:
        if x.shape != y.shape or x.dtype != y.dtype:
            return False
        allowed = tolerance * y.nan_to_num(0.0, 0.0, 0.0).abs().amax().item() if tolerance and y.numel() else 0.0
        return torch.allclose(x, y, rtol=0.0, atol=allowed, equal_nan=True)

    return all(alike(x, y) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


def half_the_digits(result: Tree) -> float:
    """What rounding may change, relatively: two results that differ by more are those of different functions."""
    return max(torch.finfo(leaf.dtype).eps for leaf in tree_leaves(result) if leaf.is_floating_point()) ** 0.5


def _agree(program: Function, function: Function, point: tuple[Tree, ...]) -> bool:
    """Whether both give the same there, or both meet a matrix without a factor."""
    try:
        expected = function(*point)
    except LinAlgError:
        expected = None
    try:
        found = program(*point)
    except LinAlgError:
        found = None
    return found is expected if found is None or expected is None else same(found, expected)


def _points(arguments: tuple[Tree, ...]) -> list[tuple[Tree, ...]]:
    """The arguments themselves, and others whose positions lie beside theirs, far and near."""
    position, *rest = arguments
    generator = torch.Generator("cpu").manual_seed(0)
    noise = torch.randn(position.shape, generator=generator, device="cpu").to(position)
    return [arguments, *((position + 10.0 ** (1 - i) * noise, *rest) for i in range(LOOKS))]
