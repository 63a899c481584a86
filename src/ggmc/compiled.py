"""Functions of tensors, traced and compiled by torch.compile at their first call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from torch import Tensor, compile
from torch.fx.experimental.proxy_tensor import make_fx
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils._pytree import tree_flatten

log = logging.getLogger("ggmc")


class Compiled:
    """A function of tensors, compiled anew for arguments of another form, shape or precision.

    It is traced down to its tensor operations first, its own derivatives included: what runs is one program, with no
    Python in it. Where that cannot be done (no C++ compiler, an operation that cannot be traced) the function runs as
    it is, and a notice says why.

    Example:
        >>> import torch
        >>> from ggmc.compiled import Compiled
        >>> Compiled(lambda x: (x**2).sum())(torch.ones(3))
        tensor(3.)
    """

    def __init__(self, function: Callable[..., Any]):
        self._function = function
        self._programs: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        leaves, form = tree_flatten(arguments)
        key = (form, *((leaf.shape, leaf.dtype, leaf.device) for leaf in leaves if isinstance(leaf, Tensor)))
        if key not in self._programs:
            self._programs[key] = self._compile(arguments)
        return self._programs[key](*arguments)

    def _compile(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        log.info("compiling: some seconds, once")
        try:
            program = compile(make_fx(self._function)(*arguments), dynamic=False)
            program(*arguments)
        except LinAlgError:  # the arguments' fault
            raise
        except Exception as error:  # whatever the compiler cannot do, Python can
            log.warning("cannot be compiled, so it runs as it is: %s", str(error).split("\n")[0])
            return self._function
        return program
