"""A function written for one chain, run for all chains, and its gradient: by vmap, in a loop, or traced."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils._pytree import tree_map

from ggmc.plain import Tree
from ggmc.programs.record import Sizes, is_recording
from ggmc.targets.layout import Layout
from ggmc.targets.traced import Traced, form_of

log = logging.getLogger("ggmc")

# Measured with one thread and 2 to 16 chains, on dense and convolutional nets: all at once is quicker while the tensors
# of one chain's gradient have up to 10,000 or 20,000 numbers on average; beyond that the loop is.
AT_ONCE = 2**14  # numbers in an operation's result, on average

Chained = tuple[int | None, ...]
"""Which further arguments have a leading dimension of chains (0), and which all chains share (None)."""


class OverChains:
    """A function of one chain's tensors by name, and of further arguments, for all rows of [chains, d].

    `vectorised` says how: all chains at once by `torch.func.vmap`, or one after another, where the function sees leaves
    that are views of their row, and autograd adds into views of one flat gradient. None decides by the size of the
    tensors that it makes for one chain: where they are large, as in wide layers, the loop is quicker.

    What runs at once, or for one chain, is recorded after some calls and then carried out as its tensor operations
    alone, which gives the same numbers to the last bit (`traced.py`).

    Example:
        >>> import torch
        >>> from ggmc.targets.batched import OverChains
        >>> from ggmc.targets.layout import Layout
        >>> square = OverChains(lambda p: (p["x"] ** 2).sum(), Layout({"x": (3,)}), (), vectorised=False)
        >>> square.with_gradient(torch.ones(2, 3))
        (tensor([3., 3.]), tensor([[2., 2., 2.],
                [2., 2., 2.]]))
    """

    def __init__(self, function: Callable[..., Tensor], layout: Layout, chained: Chained, vectorised: bool | None):
        self._function, self._layout, self._chained = function, layout, chained
        self._vectorised = vectorised
        self._chosen: dict[object, bool] = {}
        what = f"the density (d = {layout.size:,})"
        self._traced = {
            (False, True): Traced(what, self._at_once),
            (True, True): Traced(what, self._gradient_at_once),
            (False, False): Traced(what, self._one_by_one, self._of_one),
            (True, False): Traced(what, self._gradient_one_by_one, self._gradient_of_one),
        }
        """By whether the gradient is asked for, and whether of several chains at once."""

    def check_again(self) -> None:
        """Compare what was recorded with the function again: what it reads may have changed since the last run."""
        for traced in self._traced.values():
            traced.check_again()

    def __call__(self, position: Tensor, *rest: Tree) -> Tensor:
        """The function's value in each row; differentiable."""
        at_once = self._is_at_once(position, rest)
        if not torch.is_grad_enabled() and self._is_recorded(position, at_once):
            return self._traced[False, at_once](position, *rest)
        return (self._at_once if at_once else self._one_by_one)(position, *rest)

    def with_gradient(self, position: Tensor, *rest: Tree) -> tuple[Tensor, Tensor]:
        """Its value, and its gradient in each row."""
        at_once = self._is_at_once(position, rest)
        if self._is_recorded(position, at_once):
            return self._traced[True, at_once](position, *rest)
        return (self._gradient_at_once if at_once else self._gradient_one_by_one)(position, *rest)

    def _is_recorded(self, position: Tensor, at_once: bool) -> bool:
        """What has to run in a loop may change its own buffers."""
        return self._vectorised is not False and (at_once or len(position) == 1)

    def _at_once(self, position: Tensor, *rest: Tree) -> Tensor:
        return torch.func.vmap(self._of_row, in_dims=(0, *self._chained))(position, *rest)

    def _of_row(self, row: Tensor, *rest: Tree) -> Tensor:
        return self._function(self._layout.views(row), *rest)

    def _one_by_one(self, position: Tensor, *rest: Tree) -> Tensor:
        return torch.stack([self._of_row(row, *own) for row, own in self._rows(position, rest)])

    def _gradient_at_once(self, position: Tensor, *rest: Tree) -> tuple[Tensor, Tensor]:
        position = position.detach().requires_grad_()
        with torch.enable_grad():
            values = self._at_once(position, *rest)
            if not values.requires_grad:  # a flat prior
                return values, torch.zeros_like(position)
            (gradient,) = torch.autograd.grad(values.sum(), position)
        return values.detach(), gradient

    def _gradient_one_by_one(self, position: Tensor, *rest: Tree) -> tuple[Tensor, Tensor]:
        gradient = torch.zeros_like(position)
        values: list[Tensor] = []
        for (row, own), slope in zip(self._rows(position.detach(), rest), gradient, strict=True):
            leaves = {name: view.requires_grad_() for name, view in self._layout.views(row).items()}
            for leaf, into in zip(leaves.values(), self._layout.views(slope).values(), strict=True):
                leaf.grad = into
            with torch.enable_grad():
                value = self._function(leaves, *own)
                if value.requires_grad:
                    value.backward()
            values.append(value.detach())
        return torch.stack(values), gradient

    def _of_one(self, position: Tensor, *rest: Tree) -> Tensor:
        """As `_one_by_one`, of a single chain, in one piece."""
        ((row, own),) = self._rows(position, rest)
        return self._of_row(row, *own)[None]

    def _gradient_of_one(self, position: Tensor, *rest: Tree) -> tuple[Tensor, Tensor]:
        """As `_gradient_one_by_one`, of a single chain, in one piece."""
        ((row, own),) = self._rows(position.detach(), rest)
        row = row.requires_grad_()
        with torch.enable_grad():
            value = self._of_row(row, *own)
            if not value.requires_grad:
                return value[None], torch.zeros_like(position)
            (gradient,) = torch.autograd.grad(value, row)
        return value.detach()[None], gradient[None]

    def _rows(self, position: Tensor, rest: tuple[Tree, ...]) -> Iterator[tuple[Tensor, tuple[Tree, ...]]]:
        for i, row in enumerate(position):
            yield row, tuple(_own(tree, chained, i) for tree, chained in zip(rest, self._chained, strict=True))

    def _is_at_once(self, position: Tensor, rest: tuple[Tree, ...]) -> bool:
        if len(position) == 1 or self._vectorised is False:
            return False
        if self._vectorised:
            return True
        form = form_of((position, *rest))
        if form not in self._chosen:
            sizes = Sizes()
            with sizes, torch.no_grad():
                self._one_by_one(
                    position[:1], *(_first(tree, chained) for tree, chained in zip(rest, self._chained, strict=True))
                )
            self._chosen[form] = sizes.numbers <= AT_ONCE * sizes.operations
        return self._chosen[form]


def can_be_vectorised(
    what: str, function: Callable[..., Tensor], layout: Layout, row: Tensor, rest: tuple[Tree, ...], chained: Chained
) -> bool:
    """Whether vmap can run a function of one chain for several; where it cannot, a notice says why.

    `row` and `rest` are arguments for one chain.
    """
    pairs = [
        tree_map(lambda x: torch.stack([x, x]), tree) if c == 0 else tree for tree, c in zip(rest, chained, strict=True)
    ]
    try:
        with no_validation():
            OverChains(function, layout, chained, vectorised=True).with_gradient(torch.stack([row, row]), *pairs)
        return True
    except Exception as error:  # whatever vmap cannot do, a loop can
        log.warning("%s cannot be vectorised, so chains run one after another: %s", what, str(error).split("\n")[0])
        return False


def row_by_row_if_singular(
    function: Callable[..., tuple[Tensor, ...]], position: Tensor, *rest: Tree
) -> tuple[Tensor, ...]:
    """A function of rows, +∞ with no gradient in those rows where its linear algebra fails.

    `rest` are further arguments with one row for each chain, or None.
    """
    try:
        return function(position, *rest)
    except LinAlgError:
        if is_recording():  # what is done instead would be fixed in the record
            raise
        if len(position) > 1:  # one chain's singular matrix must not stop the others
            each: list[tuple[Tensor, ...]] = []
            for i in range(len(position)):
                own = tree_map(lambda x, i=i: x[i : i + 1] if isinstance(x, Tensor) else x, (position, *rest))
                each.append(row_by_row_if_singular(function, *own))
            return tuple(map(torch.cat, zip(*each, strict=False)))
        # The density is zero where its own linear algebra does not exist.
        nowhere = torch.full((1,), torch.inf, dtype=torch.float64, device=position.device)
        return nowhere, torch.full_like(position, torch.nan)


class _NoValidation:
    """Counts who is inside: the flag of torch.distributions belongs to all threads, and the last one restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = True

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = Distribution._validate_args  # pyright: ignore[reportPrivateUsage]
                Distribution.set_default_validate_args(False)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                Distribution.set_default_validate_args(self._before)


_no_validation = _NoValidation()


@contextmanager
def no_validation() -> Iterator[None]:
    """Let torch.distributions answer NaN or −∞ outside its support: that is a rejection, not an error."""
    _no_validation.enter()
    try:
        yield
    finally:
        _no_validation.leave()


def _own(tree: Tree, chained: int | None, chain: int) -> Tree:
    return tree if chained is None else tree_map(lambda x: x[chain], tree)


def _first(tree: Tree, chained: int | None) -> Tree:
    """The same for the first chain alone."""
    return tree if chained is None else tree_map(lambda x: x[:1], tree)
