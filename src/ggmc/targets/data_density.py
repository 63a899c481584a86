"""A density with data: a log prior, and a log likelihood with one term per example."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from ggmc.errors import BadInput, require_switch
from ggmc.plain import Tree
from ggmc.targets.base import Advice, DataTarget
from ggmc.targets.batched import OverChains, no_validation
from ggmc.targets.data import as_data, some_examples, some_numbers
from ggmc.targets.density import (
    NamedTarget,
    check_gradients,
    check_real,
    check_scalar,
    check_start,
    noting_dtype,
    probes,
    require_function,
    without_gradient,
)
from ggmc.targets.layout import Constraints, Parameters
from ggmc.targets.potential import Row, SumOverData
from ggmc.targets.share import current


class DataDensity(NamedTarget, DataTarget):
    """A log prior, and a log likelihood with one term per example.

    Args:
        log_prior: The log prior of one chain's values, a scalar.
        log_likelihood: A function of one chain's values and a batch, which has the form of the data: the log likelihood
            of each example, [size].
        data: A tensor, or a tuple, list or dict of tensors, with one row per example; a map-style `Dataset`; or a
            `DataLoader` over one, whose order is not used: guides draw their own.
        start: As in `ggmc.Density`.
        constraints: As in `ggmc.Density`.
        jitter: As in `ggmc.Density`.
        bound: An upper bound of every term, such as 0 for discrete outcomes. Potentials at the ends of trajectories
            then stop adding up as soon as rejection is certain for all chains. No decision changes; the energy error
            reported is then a lower bound, and log α an upper one. Default: `log_likelihood.bound` if it exists, else
            none.
        vectorise: True runs all chains at once by `torch.func.vmap`, if possible (default); False runs them one after
            another; None decides by the size of the tensors that it makes.
        advice: What warm-up may use. Default: nothing.

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
        log_prior: Callable[[Tree], Tensor],
        log_likelihood: Callable[[Tree, Tree], Tensor],
        data: Tree,
        start: Parameters,
        constraints: Constraints = None,
        jitter: float = 1.0,
        bound: float | None = None,
        vectorise: bool | None = True,
        advice: Advice | None = None,
    ):
        require_function("log_prior", log_prior)
        require_function("log_likelihood", log_likelihood)
        if bound is None:
            bound = getattr(log_likelihood, "bound", None)
        if isinstance(bound, str) or (bound is not None and math.isnan(bound)):
            raise BadInput(f"bound must be a number that no term of log_likelihood exceeds, got {bound!r}")
        if vectorise is not None:
            require_switch("vectorise", vectorise)
        self.bound = None if bound is None else float(bound)
        super().__init__(start, constraints, jitter, not_exact=None, stops_early=bound is not None, advice=advice)
        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        self.data = as_data(data, self.device)
        self.num_data = len(self.data)
        few = some_examples(self.data)
        with no_validation():
            self._check(few)
            self.not_exact = self.data.not_exact or self._not_a_sum(few)
        self.data_sum = SumOverData(
            self._prior_of_row,
            self._terms_of_row,
            self.layout,
            self.start,
            self.data,
            bound=self.bound,
            vectorise=vectorise,
        )
        self.vectorise = self.data_sum.vectorise

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        return self.data_sum.potential(position, limit)

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        return self.data_sum.potential_and_gradient(position)

    def batch_gradient(self, position: Tensor, batch: Tree, weights: Tensor) -> Tensor:
        return self.data_sum.batch_gradient(position, batch, weights)

    def batch_hessian_products(self, position: Tensor, batch: Tree, weights: Tensor, directions: Tensor) -> Tensor:
        return self.data_sum.batch_hessian_products(position, batch, weights, directions)

    def log_likelihoods(self, position: Tensor, data: Tree = None) -> Tensor:
        return self.data_sum.terms(position, None if data is None else as_data(data, self.device))

    def rows_at_once(self, examples: int) -> int:
        return current().least(self.data_sum.rows_at_once(examples), self.device)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}; {self.num_data} examples)"

    def _over_chains(self) -> Sequence[OverChains]:
        return self.data_sum.over_chains()

    # The density, for one row

    def _prior_of_row(self, free: Row) -> Tensor:
        values, log_jacobian = self.coordinates.values(free)
        return -(self.log_prior(values).double() + log_jacobian)

    def _terms_of_row(self, free: Row, batch: Tree) -> Tensor:
        return self.log_likelihood(self.coordinates.values(free)[0], batch)

    # What would go wrong later is refused, or noted, now

    def _check(self, few: Tree) -> None:
        check_scalar("log_prior", self.log_prior, self.coordinates)
        number = min(4, self.num_data)
        with noting_dtype("log_likelihood", self.coordinates):
            terms = self._terms_of_row(self.layout.views(self.start), few)
        if not isinstance(terms, Tensor):
            raise BadInput(f"log_likelihood must return a torch tensor, got {type(terms).__name__}")
        if terms.shape != (number,):
            raise BadInput(
                f"log_likelihood must return one term per example, shape ({number},) for a batch of {number}, got "
                f"{tuple(terms.shape)}: do not sum over the batch"
            )
        check_real("log_likelihood", terms)
        bad = (~terms.isfinite()).nonzero().flatten()
        if len(bad):
            example = int(some_numbers(self.num_data)[bad[0]])
            raise BadInput(
                f"the log likelihood of example {example} is {terms[bad[0]].item():g} at the start: correct or remove "
                "that example, or give a start inside the support"
            )
        for what, part in (
            ("log_prior", self.log_prior),
            ("log_likelihood", lambda p: self.log_likelihood(p, few).sum()),
        ):
            without_gradient(what, part, self.coordinates)
        check_gradients(
            "log_prior + log_likelihood",
            lambda p: self.log_prior(p) + self.log_likelihood(p, few).sum(),
            self.coordinates,
        )
        check_start(
            "log_prior + log_likelihood",
            lambda free: self._prior_of_row(free) - self._terms_of_row(free, few).sum(),
            self.coordinates,
        )

    def _not_a_sum(self, few: Tree) -> str | None:
        """Why U is not a sum over examples of functions of the parameters alone, if it is not."""
        with torch.no_grad():
            for row in probes(self.coordinates):
                reason = self._is_random(row, few) or self._is_joint(row, few)
                if reason is not None:
                    return reason
        return None

    def _is_random(self, row: Tensor, few: Tree) -> str | None:
        terms, *again = (self._terms_of_row(self.layout.views(row), few) for _ in range(4))
        if not terms.isfinite().all() or all(torch.equal(terms, other) for other in again):
            return None
        return (
            "log_likelihood gives another value at each call (dropout in training mode, random draws?), so U is not a "
            "function of the parameters. Use module.eval(), or adjust=False"
        )

    def _is_joint(self, row: Tensor, few: Tree) -> str | None:
        terms = self._terms_of_row(self.layout.views(row), few)
        if self.num_data < 4 or not terms.isfinite().all():
            return None
        halves = [tree_map(lambda leaf, p=part: leaf[p], few) for part in (slice(0, 2), slice(2, 4))]
        apart = torch.cat([self._terms_of_row(self.layout.views(row), half) for half in halves])
        # Batches of different sizes are computed in different orders, so their terms differ by rounding. The allowance
        # is half the digits of the coarsest number that goes in or comes out: of the terms themselves, and of what such
        # a change of the parameters does to them, which is more where terms are small differences of large numbers.
        floating = [leaf for leaf in (row, terms, *tree_leaves(few)) if leaf.is_floating_point()]
        half_the_digits = max(torch.finfo(leaf.dtype).eps for leaf in floating) ** 0.5
        signs = torch.ones_like(row)
        signs[::2] = -1
        nearby = self._terms_of_row(self.layout.views(row * (1 + half_the_digits * signs)), few)
        allowed = half_the_digits * (1 + terms.abs().max()) + (nearby - terms).abs().max().nan_to_num(0.0, 0.0)
        if (apart - terms).abs().max() <= allowed:
            return None
        return (
            "a term of log_likelihood depends on which other examples share its batch (BatchNorm in training mode?), "
            "so U is not a sum over examples. Use module.eval(), another normalisation, or adjust=False"
        )
