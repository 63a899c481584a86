"""What a run leaves behind: positions, what each trajectory did, and the settings that made them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ggmc.errors import BadInput, require_count
from ggmc.targets.base import DataTarget, PredictiveTarget, Target
from ggmc.targets.layout import Tree
from ggmc.trace.arviz import datatree, inference_data
from ggmc.trace.store import Store

if TYPE_CHECKING:
    import xarray

    from ggmc.bayes.predict import Prediction

NUMBERS_AT_ONCE = 2**24  # constrained at a time, so that what transforms need for themselves stays small


class Trace:
    """The draws of a run. The record is the chains' unconstrained positions; named values are computed from them.

    A trace reads its store once, when something is first asked of it.

    Args:
        store: The positions and statistics of the run.
        kernel: The kernel that made the draws, with everything that warm-up found.
        target: What was sampled. Without it (None), named values and predictions are not available: set `trace.target`.
        attributes: Seed, versions and times, stored with the draws; by default none.
        warnings: What a reader should know before trusting the draws; empty is good, and the default.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> trace = ggmc.sample(target, draws=500, warmup=500, progress=False)
        >>> trace["theta"].shape
        (4, 500, 2)
        >>> list(trace.summary().index)
        ['theta[0]', 'theta[1]']
    """

    def __init__(
        self,
        store: Store,
        kernel: Any,
        target: Target | None,
        attributes: dict[str, Tree] | None = None,
        warnings: list[str] | None = None,
    ):
        self.store = store
        self.kernel = kernel  # of any kind: which settings it has, its class says
        self._target = target
        self.attributes: dict[str, Tree] = {} if attributes is None else attributes
        self.warnings: list[str] = [] if warnings is None else warnings

    @property
    def target(self) -> Target | None:
        """What was sampled: named values, predictions and likelihoods come from it."""
        return self._target

    @target.setter
    def target(self, target: Target | None) -> None:
        self._target = target
        vars(self).pop("draws", None)  # computed by the target before

    # The record

    @cached_property
    def positions(self) -> np.ndarray:
        """The chains' unconstrained positions [chains, draws, d]: the store's own array, not a copy."""
        return self.store.rows()

    @cached_property
    def stats(self) -> dict[str, np.ndarray]:
        """What each trajectory did, under ArviZ's names, [chains, draws, ...]; `lp` is −U."""
        return self.store.stats()

    @property
    def num_chains(self) -> int:
        """How many chains there are."""
        return self.positions.shape[0]

    @property
    def num_draws(self) -> int:
        """How many draws each chain has."""
        return self.positions.shape[1]

    def rows(self, thin: int = 1) -> Tensor:
        """The chains' positions, bit for bit, on the target's device.

        Args:
            thin: Take every `thin`-th draw of each chain.

        Returns:
            A copy [chains, draws, d]; `rows()[:, -1]` is where the chains ended.
        """
        require_count("thin", thin)
        return torch.tensor(self.positions[:, ::thin], device=self._device)

    def stacked_rows(self, thin: int = 1) -> Tensor:
        """The same rows with all chains below one another, [chains · draws, d]; may share memory with the record."""
        require_count("thin", thin)
        rows = np.require(self.positions[:, ::thin], requirements="W")  # torch has no read-only tensors
        return torch.from_numpy(rows).to(self._device).flatten(0, 1)

    # Named values

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """The user's constrained values by name: [chains, draws, *shape]. Computed once."""
        return self.constrained()

    def __getitem__(self, name: str) -> np.ndarray:
        return self.draws[name]

    def constrained(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Constrained values, computed anew.

        Args:
            names: Which values; by default all. Of a large network, a few take much less memory than all.

        Returns:
            {name: [chains, draws, *shape]}.
        """
        target = self._needed("named values")
        wanted = None if names is None else set(names)
        found: dict[str, np.ndarray] = {}
        chains, draws, size = self.positions.shape
        group = max(1, NUMBERS_AT_ONCE // max(1, chains * size))
        for begin in range(0, draws, group):
            some = torch.tensor(self.positions[:, begin : begin + group], device=self._device)
            with torch.no_grad():
                values = target.constrain(some)
            for name, value in values.items():
                if wanted is not None and name not in wanted:
                    continue
                part = value.detach().cpu().numpy()
                if name not in found:
                    found[name] = np.empty((chains, draws, *part.shape[2:]), part.dtype)
                found[name][:, begin : begin + group] = part
        unknown = sorted((wanted or set()) - set(found))
        if unknown:
            raise BadInput(f"the trace has no values named {unknown}: it has {sorted(target.layout.shapes)}")
        return found

    # What the target says of the draws

    def predict(self, x: Tree, thin: int = 1, seed: int = 0) -> Prediction:
        """What is predicted for new inputs, averaged over the draws.

        Args:
            x: Inputs in the form of the training inputs.
            thin: Use every `thin`-th draw of each chain.
            seed: Seed of the drawn outcomes, from which intervals come.

        Example:
            >>> import torch, ggmc
            >>> x = torch.randn(100, 2)
            >>> y = (x[:, 0] > 0).long()
            >>> posterior = ggmc.Posterior(torch.nn.Linear(2, 2), "categorical", ggmc.priors.Gaussian(1.0), x, y)
            >>> trace = ggmc.sample(posterior, draws=50, warmup=100, chains=2, progress=False)
            >>> trace.predict(torch.tensor([[3.0, 0.0]])).label
            array([1])
            >>> bool(trace.score(x, y)["accuracy"] > 0.9)
            True
        """
        return self._predictive().predict(self.stacked_rows(thin), x, seed)

    def score(self, x: Tree, y: Tree, thin: int = 1) -> dict[str, float]:
        """How good the predictions for x are.

        Args:
            x: Inputs in the form of the training inputs.
            y: Their outcomes.
            thin: Use every `thin`-th draw of each chain.

        Returns:
            `lppd` per example; accuracy, NLL, Brier score and ECE of classes; RMSE and the coverage of the 90 %
            interval of numbers.
        """
        return self._predictive().score(self.stacked_rows(thin), x, y)

    def predictive_summary(self, x: Tree, **options: Tree) -> Tree:
        """ArviZ's table of the predictions at x, with R̂ and effective draws.

        A network's chains can be compared by their predictions, although not by their weights.

        Args:
            x: Inputs in the form of the training inputs.
            options: Those of `arviz.summary`.

        Returns:
            A pandas table, or what `options` ask for.
        """
        import arviz

        features = self._by_chain(self._predictive().prediction_features(self.stacked_rows(), x))
        return arviz.summary({"prediction": features}, **options)

    def log_likelihood(self, data: Tree = None, thin: int = 1) -> np.ndarray:
        """The log likelihood of each example under each draw.

        Args:
            data: Examples in the form of the target's data; by default those data.
            thin: Use every `thin`-th draw of each chain.

        Returns:
            [chains, draws, examples].
        """
        target = self._needed("log likelihoods")
        if not isinstance(target, DataTarget):
            raise BadInput(f"log likelihoods need a target such as ggmc.DataDensity, got {target!r}")
        return self._by_chain(target.log_likelihoods(self.stacked_rows(thin), data))

    def temperatures(self, draws: int = 50, level: float = 0.95) -> Tree:
        """Kinetic and configurational temperature with their intervals, overall and for each tensor.

        In equilibrium both are the kernel's temperature.

        Args:
            draws: How many draws of each chain the configurational temperature uses, one exact gradient each.
            level: Probability of the intervals, between 0 and 1.

        Returns:
            A pandas table, see `ggmc.trace.temperatures`.
        """
        from ggmc.trace.temperatures import temperatures

        return temperatures(self, draws, level)

    # In ArviZ

    def to_datatree(self, log_likelihood: bool = False) -> xarray.DataTree:
        """The groups `posterior` and `sample_stats` as an xarray DataTree, named as in ArviZ's schema.

        Args:
            log_likelihood: Whether to add the group of that name, which takes one pass over the data for each draw.
        """
        return datatree(self, log_likelihood)

    def to_arviz(self, log_likelihood: bool = False) -> Tree:
        """What the installed ArviZ works with: InferenceData before ArviZ 1.0, a DataTree from then on.

        Args:
            log_likelihood: Whether to add the group of that name, for `arviz.loo`.
        """
        return inference_data(self, log_likelihood)

    def summary(self, **options: Tree) -> Tree:
        """ArviZ's table of every parameter: mean, sd, interval, Monte Carlo errors, effective draws and R̂.

        Args:
            options: Those of `arviz.summary`.

        Returns:
            A pandas table, or what `options` ask for.
        """
        import arviz

        return arviz.summary(self.to_arviz(), **options)

    def __repr__(self) -> str:
        what = f"{self.positions.shape[-1]} numbers" if self.target is None else ", ".join(self.target.layout.shapes)
        return f"Trace({self.num_chains} chains × {self.num_draws} draws of {what}; {self.kernel})"

    def __getstate__(self) -> dict[str, Tree]:
        """What pickle keeps: not what can be read or computed again."""
        return {name: value for name, value in vars(self).items() if name not in ("positions", "stats", "draws")}

    @property
    def _device(self) -> torch.device:
        return torch.device("cpu") if self.target is None else self.target.device

    def _by_chain(self, rows: Tensor) -> np.ndarray:
        """[chains · draws, ...] as [chains, draws, ...]."""
        return rows.detach().unflatten(0, (self.num_chains, -1)).cpu().numpy()

    def _needed(self, what: str) -> Target:
        if self.target is None:
            raise BadInput(f"{what} need the target, which this trace does not have: set trace.target")
        return self.target

    def _predictive(self) -> PredictiveTarget:
        target = self._needed("predictions")
        if not isinstance(target, PredictiveTarget):
            raise BadInput(f"predictions need a target such as ggmc.Posterior, got {target!r}")
        return target
