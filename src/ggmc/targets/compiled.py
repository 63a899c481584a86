"""Functions of tensors, traced and compiled by torch.compile at their first call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils._pytree import tree_flatten

log = logging.getLogger("ggmc")


class CannotCompile(Exception):
    """Why a function cannot be compiled: no C++ compiler, or an operation that cannot be traced."""


class Compiled:
    """A function of tensors, compiled anew for arguments of another form, shape or precision.

    It is traced down to its tensor operations first, its own derivatives included: what runs is one program, with no
    Python in it. Its results carry no graph.

    Example:
        >>> import torch
        >>> from ggmc.targets.compiled import Compiled
        >>> Compiled(lambda x: (x**2).sum())(torch.ones(3))
        tensor(3.)
    """

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._programs: dict[Any, Callable[..., Any]] = {}

    @torch.no_grad()
    def __call__(self, *arguments: Any) -> Any:
        leaves, form = tree_flatten(arguments)
        key = (form, *((leaf.shape, leaf.dtype, leaf.device) for leaf in leaves if isinstance(leaf, Tensor)))
        if key not in self._programs:
            self._programs[key] = self._compile(arguments)
        return self._programs[key](*arguments)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_programs": {}}  # a program stays in its process

    def _compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        log.info("compiling the gradient: some seconds, once for each number of chains and examples")
        try:
            program = torch.compile(make_fx(self._function)(*arguments), dynamic=False)
            program(*arguments)
        except LinAlgError:  # the arguments' fault
            raise
        except Exception as error:
            raise CannotCompile(str(error).split("\n")[0]) from error
        return program
