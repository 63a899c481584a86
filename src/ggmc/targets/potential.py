"""The sum over the data: U(θ) = −log prior(θ) − Σᵢ log likelihoodᵢ(θ), for all chains at once.

All that is ever added up over examples is added up here: in chunks that fit in memory, the prior once, potentials in
float64. Where the terms have a known upper bound, the sum stops as soon as every row is certain to exceed its limit.
In a run over several ranks each sums over its share (`share.py`); the first counts the prior, and no sum stops early.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_map

from ggmc import progress
from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.targets.batched import OverChains, can_be_vectorised, no_validation, row_by_row_if_singular
from ggmc.targets.data import Data, some_examples
from ggmc.targets.layout import Layout
from ggmc.targets.share import Share, current

CHUNK_MEMORY = 64 * 2**20  # bytes on a CPU, where larger chunks are slower; on a GPU, a quarter of what is free
CHUNKS_TO_STOP_AT = 20  # a sum that may stop early is checked about this often ...
LEAST_CHUNK = 20  # ... where chunks do not become so small that the checks cost more than they save
ROUNDING = 1e-9  # relative: more than a sum in float64 can be off

log = logging.getLogger("ggmc")

Result = TypeVar("Result")

Row = dict[str, Tensor]
"""One chain's unconstrained tensors, by name."""


class SumOverData:
    """The potential of a density with data, given for one chain.

    Args:
        prior_of_row: −log prior of one row, Jacobian included, float64.
        terms_of_row: The log likelihood of each example of a batch, in one row: [size].
        layout: The names and shapes of a row's tensors.
        start: A row [d] at which both can be evaluated.
        data: The examples.
        bound: An upper bound of every term, or None; with one, sums can stop early.
        vectorise: Whether all chains run at once (True), one after another (False), or as suits its size (None).

    Example:
        >>> import torch
        >>> from ggmc.targets.data import as_data
        >>> from ggmc.targets.layout import Layout
        >>> from ggmc.targets.potential import SumOverData
        >>> start, numbers = torch.zeros(1, dtype=torch.float64), torch.arange(4, dtype=torch.float64)
        >>> total = SumOverData(
        ...     lambda row: row["x"].square().sum() / 2,
        ...     lambda row, batch: -batch * row["x"] ** 2,
        ...     Layout({"x": (1,)}), start, as_data(numbers, start.device), bound=0.0, vectorise=True,
        ... )
        >>> total.potential(torch.tensor([[1.0], [2.0]], dtype=torch.float64))        # x²/2 + (0 + 1 + 2 + 3) x²
        tensor([ 6.5000, 26.0000], dtype=torch.float64)
    """

    def __init__(
        self,
        prior_of_row: Callable[[Row], Tensor],
        terms_of_row: Callable[[Row, Tree], Tensor],
        layout: Layout,
        start: Tensor,
        data: Data,
        *,
        bound: float | None,
        vectorise: bool | None,
    ):
        self.data, self.bound = data, bound
        self._prior_of_row, self._terms_of_row = prior_of_row, terms_of_row
        few = some_examples(data)
        number = min(4, len(data))
        with no_validation():
            self.example_bytes = self._bytes_per_example(layout, start, few)
        arguments = few, torch.ones(number, device=start.device)
        if vectorise is not False and not can_be_vectorised(
            "log_likelihood", self._batch_of_row, layout, start, arguments, (0, 0)
        ):
            vectorise = False
        self.vectorise = vectorise
        self._usable = 1.0  # share of the memory for a chunk that is really there
        self._prior = OverChains(prior_of_row, layout, (), vectorise)
        self._chunk = OverChains(self._chunk_of_row, layout, (None,), vectorise)
        self._part = OverChains(self._part_of_row, layout, (None,), vectorise)
        self._first = OverChains(self._first_of_row, layout, (None,), vectorise)
        self._batch = OverChains(self._batch_of_row, layout, (0, 0), vectorise)
        self._batch_part = OverChains(self._batch_part_of_row, layout, (0, 0), vectorise)
        self._terms = OverChains(terms_of_row, layout, (None,), vectorise)

    # Over all data

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        """U of each row, [chains] float64; if all are certain to exceed their `limit`, some value between the two.

        All chains go on together or stop together: were some to leave, the others' sums would be done in other shapes,
        and might differ in the last bit.
        """
        share = current()

        def stream(position: Tensor, limit: Tensor | None) -> tuple[Tensor]:
            return (self._stream(share, position, limit),)

        with torch.no_grad(), no_validation():
            (part,) = self._in_memory(row_by_row_if_singular, stream, position, limit)
            return share.total(part)

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """U and ∇U of each row: [chains] float64 and [chains, d]."""
        share = current()

        def stream(position: Tensor) -> tuple[Tensor, Tensor]:
            return self._stream_with_gradient(share, position)

        with no_validation():
            return share.totals(*self._in_memory(row_by_row_if_singular, stream, position))

    def terms(self, position: Tensor, data: Data | None = None, function: OverChains | None = None) -> Tensor:
        """Each example's term in each row: [rows, examples] float64.

        Args:
            position: Rows [rows, d].
            data: Other examples; by default those of the sum.
            function: Another function of a row and a batch that gives the terms.
        """
        data = self.data if data is None else data
        function = self._terms if function is None else function
        size = min(len(data), self.rows_at_once(1))
        group = self.rows_at_once(size)
        found = torch.empty(len(position), len(data), dtype=torch.float64, device=position.device)
        with torch.no_grad(), no_validation(), progress.bar(range(0, len(data), size), desc="likelihoods") as begins:
            for begin in begins:
                chunk = data.slice(begin, begin + size)
                for row in range(0, len(position), group):
                    found[row : row + group, begin : begin + size] = function(position[row : row + group], chunk)
        return found

    # Over each chain's own batch

    def batch_gradient(self, position: Tensor, batch: Tree, weights: Tensor) -> Tensor:
        """∇[−log prior − Σ weight · term] over each chain's own batch, leaves [chains, size, ...]: [chains, d]."""
        share = current()
        part = self._batch if share.first else self._batch_part
        with no_validation():
            _, gradient = row_by_row_if_singular(part.with_gradient, position, *share.of_batch(batch, weights))
            return share.total(gradient)

    def batch_hessian_products(self, position: Tensor, batch: Tree, weights: Tensor, directions: Tensor) -> Tensor:
        """The Hessian of the same, times one direction for each row: [chains, d]."""
        share = current()
        part = self._batch if share.first else self._batch_part
        position = position.detach().requires_grad_()
        with no_validation(), torch.enable_grad():
            value = part(position, *share.of_batch(batch, weights)).sum()
            (gradient,) = torch.autograd.grad(value, position, create_graph=True)
            if not gradient.requires_grad:  # linear in the parameters
                return share.total(torch.zeros_like(directions))
            along = (gradient * directions).sum()
            (products,) = torch.autograd.grad(along, position, materialize_grads=True)
        return share.total(products)

    # How it is done

    def rows_at_once(self, examples: int) -> int:
        """How many rows, each with a batch of so many examples, fit in the memory for one chunk."""
        return max(1, int(self._usable * self._chunk_memory() / (self.example_bytes * examples)))

    def over_chains(self) -> list[OverChains]:
        """The functions of which there may be records."""
        return [self._prior, self._chunk, self._part, self._first, self._batch, self._batch_part, self._terms]

    def _in_memory(self, function: Callable[..., Result], *arguments: Tree) -> Result:
        """A sum in chunks; where memory does not suffice for one, chunks become half as large, for good."""
        while True:
            try:
                return function(*arguments)
            except (MemoryError, RuntimeError) as error:
                if not _is_out_of_memory(error) or self.rows_at_once(len(arguments[1])) == 1:
                    raise
                self._usable /= 2
                log.warning("There is too little memory for a chunk of the data: chunks are half as large from now on.")

    # One process's part of a sum; ranks meet in `Share.total` alone, however each has got there

    def _stream(self, share: Share, position: Tensor, limit: Tensor | None) -> Tensor:
        potential = self._prior(position) if share.first else self._nothing(position)
        for chunk, remaining in self._chunks(share, len(position), may_stop=self.bound is not None):
            part, largest = self._chunk(position, chunk).unbind(1)
            potential = potential + part
            if self.bound is None:
                continue
            if (largest > self.bound).any():
                raise BadInput(
                    f"log_likelihood gave a term of {largest.max().item():g}, above its declared bound of "
                    f"{self.bound:g}: declare a larger bound, or none"
                )
            if limit is None or not remaining or not share.whole:
                continue
            to_come = self.bound * remaining  # at most
            least = potential - to_come
            # Rounding on either side must not decide: certain means by more than sums in float64 can be off.
            slack = ROUNDING * (potential.abs() + abs(to_come) + limit.abs())
            if (least > limit + slack).all():
                return least
        return potential

    def _stream_with_gradient(self, share: Share, position: Tensor) -> tuple[Tensor, Tensor]:
        potential, gradient = self._nothing(position), torch.zeros_like(position)
        part = self._first if share.first else self._part
        for chunk, _ in self._chunks(share, len(position)):
            parts, slopes = part.with_gradient(position, chunk)
            potential, gradient = potential + parts, gradient + slopes
            part = self._part
        return potential, gradient

    @staticmethod
    def _nothing(position: Tensor) -> Tensor:
        return torch.zeros(len(position), dtype=torch.float64, device=position.device)

    def _chunks(self, share: Share, chains: int, may_stop: bool = False) -> Iterator[tuple[Tree, int]]:
        """The share in consecutive chunks, each with the number of examples that come after it."""
        first, last = share.span(len(self.data))
        size = self.rows_at_once(chains)
        if may_stop:
            size = min(size, max(LEAST_CHUNK, -(-(last - first) // CHUNKS_TO_STOP_AT)))
        for begin in range(first, last, size):
            end = min(begin + size, last)
            yield self.data.slice(begin, end), last - end

    # For one row

    def _chunk_of_row(self, free: Row, chunk: Tree) -> Tensor:
        """A chunk's part of U, and its largest term."""
        terms = self._terms_of_row(free, chunk).double()
        return torch.stack([-terms.sum(), terms.detach().max()])

    def _part_of_row(self, free: Row, chunk: Tree) -> Tensor:
        return self._chunk_of_row(free, chunk)[0]

    def _first_of_row(self, free: Row, chunk: Tree) -> Tensor:
        """The first chunk's part, with the prior's: small data need no second pass for it."""
        return self._prior_of_row(free) + self._part_of_row(free, chunk)

    def _batch_of_row(self, free: Row, batch: Tree, weights: Tensor) -> Tensor:
        return self._prior_of_row(free) + self._batch_part_of_row(free, batch, weights)

    def _batch_part_of_row(self, free: Row, batch: Tree, weights: Tensor) -> Tensor:
        return -(weights * self._terms_of_row(free, batch)).sum()

    # Memory

    def _chunk_memory(self) -> float:
        return self._free_memory / 4 if self.data.device.type == "cuda" else CHUNK_MEMORY

    @cached_property
    def _free_memory(self) -> int:
        """Asked once: each other size of chunks would need a record of its own."""
        return torch.cuda.mem_get_info(self.data.device)[0]

    def _bytes_per_example(self, layout: Layout, start: Tensor, few: Tree) -> float:
        """What autograd keeps for each example of one chain: the memory that a chunk needs."""
        if len(self.data) < 4:
            return 64.0
        kept = 0

        def weigh(tensor: Tensor) -> Tensor:
            nonlocal kept
            kept += tensor.nbytes
            return tensor

        def bytes_for(number: int) -> int:
            nonlocal kept
            kept = 0
            row = start.clone().requires_grad_()
            with saved_tensors_hooks(weigh, lambda tensor: tensor):
                self._terms_of_row(layout.views(row), tree_map(lambda leaf: leaf[:number], few))
            return kept

        # The difference leaves out what is kept once for all, such as the parameters themselves.
        return max(64.0, (bytes_for(4) - bytes_for(2)) / 2)


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return "can't allocate memory" in str(error) or "not enough memory" in str(error)  # torch's words on a CPU
