"""A posterior with data: U(θ) = −log prior(θ) − Σᵢ log likelihoodᵢ(θ), streamed over the data.

The exact potential adds up all data in chunks that fit in memory, all chains at once, in float64. Where the user
declares an upper bound of the terms, the sum stops as soon as rejection is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_map

from ggmc import progress
from ggmc.errors import BadInput
from ggmc.targets.batched import OverChains, can_be_vectorised, no_validation, row_by_row_if_singular
from ggmc.targets.layout import Constraints, Parameters
from ggmc.targets.data import Data, as_data
from ggmc.targets.base import Advice, DataTarget
from ggmc.targets.density import NamedTarget, check_gradients, check_scalar, check_start, probes

CHUNK_MEMORY = 64 * 2**20  # bytes on a CPU, where larger chunks are slower; on a GPU, a quarter of what is free
CHUNKS_TO_STOP_AT = 20  # a sum that may stop early is looked at about this often ...
LEAST_CHUNK = 20  # ... where chunks do not become so small that the looking costs more than it saves


class DataDensity(NamedTarget, DataTarget):
    """A log prior, and a log likelihood with one term per example.

    `log_prior(params)` returns a scalar, `log_likelihood(params, batch)` one term for each example of the batch; both
    are written for one chain. `data` is a tensor, or a tuple or dict of tensors, with one row per example; a map-style
    `Dataset`; or a `DataLoader` over one (whose order plays no part: guides draw their own). A batch has the form of
    the data. `start`, `constraints` and `jitter` are as in `ggmc.Density`.

    `bound`, if given, is an upper bound of every term (0 for discrete outcomes): the exact potentials at the ends of
    trajectories then stop adding up as soon as all chains' rejection is certain. No decision changes by it, to the last
    bit; the energy error reported is then a lower bound, and log α an upper one.

    `vectorise` runs all chains at once by `torch.func.vmap` (where that is possible; else, with a notice, one after
    another); False runs them one after another, None whichever is quicker here, measured.

    Example:
        >>> import torch, ggmc
        >>> X, y = torch.randn(1000, 3, dtype=torch.float64), torch.randint(2, (1000,)).double()
        >>> target = ggmc.DataDensity(
        ...     log_prior=lambda w: -(w**2).sum() / 2,
        ...     log_likelihood=lambda w, batch: -torch.nn.functional.softplus(-(2 * batch[1] - 1) * (batch[0] @ w)),
        ...     data=(X, y),
        ...     start=torch.zeros(3, dtype=torch.float64),
        ...     bound=0.0,
        ... )
        >>> target
        DataDensity(theta: (3,); d = 3; 1000 examples)
        >>> target.potential(torch.zeros(2, 3, dtype=torch.float64))         # 1000 log 2, twice
        tensor([693.1472, 693.1472], dtype=torch.float64)
    """

    def __init__(
        self,
        log_prior: Callable[[Any], Tensor],
        log_likelihood: Callable[[Any, Any], Tensor],
        data: Any,
        start: Parameters,
        constraints: Constraints = None,
        jitter: float = 1.0,
        bound: float | None = None,
        vectorise: bool | None = True,
        advice: Advice | None = None,
    ):
        super().__init__(start, constraints, jitter, not_exact=None, stops_early=bound is not None, advice=advice)
        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        self.data = as_data(data, self.device)
        self.num_data = len(self.data)
        self.bound: float | None = getattr(log_likelihood, "bound", None) if bound is None else float(bound)
        number = min(4, self.num_data)
        few = self.data.take((torch.arange(number) * (self.num_data - 1) // max(1, number - 1)).to(self.device))
        with no_validation():
            self._check(few)
            self.not_exact = self.data.not_exact or self._unsteady_terms(few)
            self._example_bytes = self._bytes_per_example(few)
        row, weights = self.coordinates.start, torch.ones(min(4, self.num_data), device=self.device)
        if vectorise is not False and not can_be_vectorised(
            "log_likelihood", self._batch_of_row, self.layout, row, (few, weights), (0, 0)
        ):
            vectorise = False
        self.vectorise = vectorise
        self._prior = OverChains(self._prior_of_row, self.layout, (), vectorise)
        self._chunk = OverChains(self._chunk_of_row, self.layout, (None,), vectorise)
        self._part = OverChains(self._part_of_row, self.layout, (None,), vectorise)
        self._first = OverChains(self._first_of_row, self.layout, (None,), vectorise)
        self._batch = OverChains(self._batch_of_row, self.layout, (0, 0), vectorise)
        self._terms = OverChains(self._terms_of_row, self.layout, (None,), vectorise)

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        """U of each row; if all are certain to exceed their `limit`, some value between the two.

        All chains go on together or stop together: were some to leave, the others' sums would be done in other shapes,
        and might differ in the last bit.
        """
        with torch.no_grad(), no_validation():
            return row_by_row_if_singular(lambda *rows: (self._stream(*rows),), position, limit)[0]

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        def streamed(rows: Tensor) -> tuple[Tensor, Tensor]:
            potential = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
            gradient = torch.zeros_like(rows)
            part = self._first
            for chunk, _ in self._chunks(len(rows)):
                parts, slopes = part.with_gradient(rows, chunk)
                potential, gradient = potential + parts, gradient + slopes
                part = self._part
            return potential, gradient

        with no_validation():
            potential, gradient = row_by_row_if_singular(streamed, position)
            return potential, gradient

    def batch_potential_and_gradient(self, position: Tensor, batch: Any, weights: Tensor) -> tuple[Tensor, Tensor]:
        """−log prior − Σ weight · log likelihood over each chain's own batch, [chains, size, ...], and its gradient."""
        with no_validation():
            potential, gradient = row_by_row_if_singular(self._batch.with_gradient, position, batch, weights)
            return potential, gradient

    def batch_hessian_products(self, position: Tensor, batch: Any, weights: Tensor, directions: Tensor) -> Tensor:
        """The Hessian of the same, times one direction for each row: [chains, d]."""
        position = position.detach().requires_grad_()
        with no_validation(), torch.enable_grad():
            value = self._batch(position, batch, weights).sum()
            (gradient,) = torch.autograd.grad(value, position, create_graph=True)
            along = (gradient * directions).sum()
            (products,) = torch.autograd.grad(along, position, materialize_grads=True)
        return products

    def log_likelihoods(self, position: Tensor, data: Any = None) -> Tensor:
        """The log likelihood of each example in each row, [rows, examples] float64; of other data, if given."""
        return self._streamed_terms(self._terms, position, self.data if data is None else as_data(data, self.device))

    def rows_at_once(self, examples: int) -> int:
        """How many rows, each with a batch of so many examples, fit in a chunk's memory."""
        return max(1, int(self._chunk_memory() / (self._example_bytes * examples)))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}; {self.num_data} examples)"

    def _streamed_terms(self, terms: OverChains, position: Tensor, data: Data) -> Tensor:
        size = min(len(data), self.rows_at_once(1))
        group = self.rows_at_once(size)
        found = torch.empty(len(position), len(data), dtype=torch.float64, device=self.device)
        with torch.no_grad(), no_validation(), progress.bar(range(0, len(data), size), desc="likelihoods") as begins:
            for begin in begins:
                chunk = data.slice(begin, begin + size)
                for row in range(0, len(position), group):
                    found[row : row + group, begin : begin + size] = terms(position[row : row + group], chunk)
        return found

    # For one row, given as its unconstrained tensors by name

    def _prior_of_row(self, free: dict[str, Tensor]) -> Tensor:
        values, log_jacobian = self.coordinates.values(free)
        return -(self.log_prior(values).double() + log_jacobian)

    def _terms_of_row(self, free: dict[str, Tensor], batch: Any) -> Tensor:
        return self.log_likelihood(self.coordinates.values(free)[0], batch)

    def _chunk_of_row(self, free: dict[str, Tensor], chunk: Any) -> Tensor:
        """A chunk's part of U, and its largest term."""
        terms = self._terms_of_row(free, chunk).double()
        return torch.stack([-terms.sum(), terms.detach().max()])

    def _part_of_row(self, free: dict[str, Tensor], chunk: Any) -> Tensor:
        return self._chunk_of_row(free, chunk)[0]

    def _first_of_row(self, free: dict[str, Tensor], chunk: Any) -> Tensor:
        """The first chunk's part, with the prior's: small data need no second pass for it."""
        return self._prior_of_row(free) + self._part_of_row(free, chunk)

    def _batch_of_row(self, free: dict[str, Tensor], batch: Any, weights: Tensor) -> Tensor:
        return self._prior_of_row(free) - (weights * self._terms_of_row(free, batch)).sum()

    # For all rows, over all data

    def _chunks(self, chains: int, may_stop: bool = False) -> Iterator[tuple[Any, int]]:
        """The data in consecutive chunks, each with the number of examples that come after it."""
        size = self.rows_at_once(chains)
        if may_stop:
            size = min(size, max(LEAST_CHUNK, -(-self.num_data // CHUNKS_TO_STOP_AT)))
        for begin in range(0, self.num_data, size):
            yield self.data.slice(begin, begin + size), max(0, self.num_data - begin - size)

    def _chunk_memory(self) -> float:
        return self._free_memory / 4 if self.device.type == "cuda" else CHUNK_MEMORY

    @cached_property
    def _free_memory(self) -> int:
        """Looked at once: chunks of changing size would be compiled again and again."""
        return torch.cuda.mem_get_info(self.device)[0]

    def _stream(self, position: Tensor, limit: Tensor | None) -> Tensor:
        potential = self._prior(position)
        for chunk, remaining in self._chunks(len(position), may_stop=self.bound is not None):
            part, largest = self._chunk(position, chunk).unbind(1)
            potential = potential + part
            if self.bound is None:
                continue
            if (largest > self.bound).any():
                raise BadInput(
                    f"log_likelihood gave a term of {largest.max().item():g}, above its declared bound of "
                    f"{self.bound:g}: declare a larger bound, or none"
                )
            if limit is None or not remaining:
                continue
            least = potential - self.bound * remaining
            # Rounding on either side must not decide: certain means by more than sums in float64 can be off.
            slack = 1e-9 * (potential.abs() + limit.abs() + abs(self.bound) * remaining)
            if (least > limit + slack).all():
                return least
        return potential

    # What would go wrong later is refused, or noted, now

    def _check(self, few: Any) -> None:
        check_scalar("log_prior", self.log_prior, self.coordinates)
        terms, number = self._terms_of_row(self.layout.views(self.coordinates.start), few), min(4, self.num_data)
        if not isinstance(terms, Tensor):
            raise BadInput(f"log_likelihood must return a torch tensor, got {type(terms).__name__}")
        if terms.shape != (number,):
            raise BadInput(
                f"log_likelihood must return one term per example, shape ({number},) for a batch of {number}, got "
                f"{tuple(terms.shape)}: do not sum over the batch"
            )
        check_gradients(
            "log_prior + log_likelihood",
            lambda p: self.log_prior(p) + self.log_likelihood(p, few).sum(),
            self.coordinates,
        )
        ones = torch.ones(number, device=self.device)
        check_start("log_prior + log_likelihood", lambda free: self._batch_of_row(free, few, ones), self.coordinates)

    def _unsteady_terms(self, few: Any) -> str | None:
        """Why U is not a function of the parameters alone, if it is not."""
        for row in probes(self.coordinates):
            reason = self._unsteady_terms_at(self.layout.views(row), few)
            if reason is not None:
                return reason
        return None

    def _unsteady_terms_at(self, free: dict[str, Tensor], few: Any) -> str | None:
        with torch.no_grad():
            terms = self._terms_of_row(free, few)
            if not terms.isfinite().all():
                return None
            if any(not torch.equal(terms, self._terms_of_row(free, few)) for _ in range(3)):
                return (
                    "log_likelihood gives another value each time it is asked (dropout in training mode, random "
                    "draws?), so U is not a function of the parameters. Use module.eval(), or adjust=False"
                )
            if self.num_data < 4:
                return None
            halves = [tree_map(lambda leaf, p=part: leaf[p], few) for part in (slice(0, 2), slice(2, 4))]
            apart = torch.cat([self._terms_of_row(free, half) for half in halves])
        tolerance = torch.finfo(terms.dtype).eps ** 0.5
        if not torch.allclose(terms, apart, rtol=tolerance, atol=tolerance):
            return (
                "a term of log_likelihood depends on which other examples share its batch (BatchNorm in training "
                "mode?), so U is not a sum over examples. Use module.eval(), another normalisation, or adjust=False"
            )
        return None

    def _bytes_per_example(self, few: Any) -> float:
        """What autograd keeps for each example of one chain: the memory a chunk needs."""
        kept = 0

        def weigh(tensor: Tensor) -> Tensor:
            nonlocal kept
            kept += tensor.nbytes
            return tensor

        def weight_of(number: int) -> int:
            nonlocal kept
            kept = 0
            row = self.coordinates.start.clone().requires_grad_()
            with saved_tensors_hooks(weigh, lambda tensor: tensor):
                self._terms_of_row(self.layout.views(row), tree_map(lambda leaf: leaf[:number], few))
            return kept

        # The difference leaves out what is kept once for all, such as the parameters themselves.
        return max(64.0, (weight_of(4) - weight_of(2)) / 2) if self.num_data >= 4 else 64.0
