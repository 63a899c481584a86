"""A record carried out again: the flat list of its operations, with no Python between.

In the same order they give the same numbers, to the last bit, in less than half of the time where tensors are small.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_leaves

from ggmc.plain import Tree
from ggmc.programs.record import OF_SHAPES_ALONE, Call, CannotRecord, Function, is_a_copy, record

FOLDED = 2**20  # numbers in the largest constant that is computed once and kept


def program_of(function: Function, arguments: tuple[Tree, ...]) -> Function:
    """The operations of one call, as a function of arguments of the same form. Its results carry no graph.

    Args:
        function: Of tensors, in tuples, lists and dicts.
        arguments: For which it is recorded.

    Example:
        >>> import torch
        >>> from ggmc.programs.replay import program_of
        >>> program = program_of(lambda x: torch.func.grad(lambda y: (y**3).sum())(x), (torch.ones(2),))
        >>> program(torch.tensor([2.0, 3.0]))
        tensor([12., 27.])
        >>> print(program.source)
        def program(a0):
            t2 = pow_Tensor_Scalar(a0, 2.0)
            t3 = mul_Scalar(t2, 3.0)
            del t2
            t4 = mul_Tensor(c0, t3)
            del t3
            return [t4]
    """
    leaves = tree_leaves(arguments)
    tensors = [id(leaf) for leaf in leaves if isinstance(leaf, Tensor)]
    if len(set(tensors)) < len(tensors):
        raise CannotRecord("one tensor is several of its arguments")  # which it would tell apart at no later call
    calls, result = record(lambda: function(*arguments))
    return Program(calls, leaves, result)


class Program:
    """Recorded operations as one function.

    What gives nothing new is left out: numbers that are the same at each call, copies, repetitions and unused results.
    Where an operation changes a tensor in place, nothing is left out.

    Args:
        calls: The operations, in order.
        arguments: The tensors among the arguments of the function.
        result: What it returned.
    """

    def __init__(self, calls: Sequence[Call], arguments: Sequence[object], result: Tree):
        self._tidy = not any(call.function._schema.is_mutable for call in calls)
        self._names = {id(leaf): f"a{i}" for i, leaf in enumerate(arguments) if isinstance(leaf, Tensor)}
        self._known: dict[str, Tree] = {}
        """What the source refers to: operations and constants, by name."""
        self._constants: dict[int, str] = {}
        self._lines: list[tuple[str, str, list[str]]] = []
        """Of each line the name of its result, its expression, and the names in it."""
        self._seen: dict[str, str] = {}
        self._checks: set[str] = set()
        """Lines that give nothing but an error, such as that of a matrix without a Cholesky factor."""
        for call in calls:
            self._add(call)
        leaves, self._form = tree_flatten(result)
        self.source = self._text(len(arguments), [self._own(leaf) for leaf in leaves])
        exec(self.source, self._known)  # the text above alone: names of torch's operations, and numbers
        self._run = self._known["program"]

    @torch.no_grad()
    def __call__(self, *arguments: Tree) -> Tree:
        return self._form.unflatten(self._run(*tree_leaves(arguments)))

    def _add(self, call: Call) -> None:
        function, args, kwargs, result = call
        first = args[0] if args else None
        if self._tidy:
            varies = any(id(leaf) in self._names for leaf in tree_leaves((args, kwargs)))
            small = sum(leaf.numel() for leaf in tree_leaves(result) if leaf is not None) <= FOLDED
            if small and (not varies or function in OF_SHAPES_ALONE):
                return  # a constant, known by what it was, or a check that was passed
            if id(first) in self._names and is_a_copy(call):
                self._names[id(result)] = self._names[id(first)]
                return
        used: list[str] = []
        parts = [self._expression(arg, used) for arg in args]
        parts += [f"{name}={self._expression(arg, used)}" for name, arg in kwargs.items()]
        expression = f"{self._operation(function)}({', '.join(parts)})"
        name = self._seen.get(expression) if self._tidy else None
        if name is None:
            name = f"t{len(self._lines)}"
            self._lines.append((name, expression, used))
            self._seen[expression] = name
        if result is None:
            self._checks.add(name)
        elif isinstance(result, Tensor):
            self._names[id(result)] = name
        else:
            for i, part in enumerate(result):
                self._names[id(part)] = f"{name}[{i}]"

    def _operation(self, function: OpOverload) -> str:
        name = str(function).removeprefix("aten.").removesuffix(".default").replace(".", "_")
        self._known[name] = function._op  # what calling it calls, and a fifth quicker where tensors are small
        return name

    def _expression(self, value: Tree, used: list[str]) -> str:
        if isinstance(value, Tensor):
            name = self._names.get(id(value)) or self._constant(value)
            used.append(name.partition("[")[0])
            return name
        if isinstance(value, list | tuple):
            inside = [self._expression(part, used) for part in value]
            return f"[{', '.join(inside)}]"
        if value is None or isinstance(value, bool | int):
            return repr(value)
        if isinstance(value, float) and value - value == 0.0:  # finite
            return repr(value)
        return self._constant(value)

    def _constant(self, value: Tree) -> str:
        if id(value) not in self._constants:
            name = self._constants[id(value)] = f"c{len(self._constants)}"
            self._known[name] = value
        return self._constants[id(value)]

    def _own(self, leaf: Tree) -> str:
        """A result, which is the caller's to change as it likes."""
        name = self._names.get(id(leaf))
        if name is None or name[0] == "a":
            return f"{name or self._constant(leaf)}.clone()"
        return name

    def _text(self, arguments: int, results: list[str]) -> str:
        needed = {result.partition("[")[0].partition(".")[0] for result in results}
        kept: list[str] = []
        for name, expression, used in reversed(self._lines):
            if self._tidy and name not in needed and name not in self._checks:
                continue
            last = [one for one in dict.fromkeys(used) if one[0] == "t" and one not in needed]
            if last:  # not needed again: its memory is free at once
                kept.append(f"del {', '.join(last)}")
            kept.append(f"{name} = {expression}")
            needed.update(used)
        names = ", ".join(f"a{i}" for i in range(arguments))
        lines = [*reversed(kept), f"return [{', '.join(results)}]"]
        return "\n    ".join([f"def program({names}):", *lines])
