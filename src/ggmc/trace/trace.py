"""Trace: what `ggmc.sample` returns, the draws with what each trajectory did and the settings that made them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.targets.base import DataTarget, PredictiveTarget, Target
from ggmc.trace.arviz import datatree, inference_data
from ggmc.trace.record import Record
from ggmc.trace.store import Store

if TYPE_CHECKING:
    import xarray

    from ggmc.bayes.predict import Prediction


class Trace(Record):
    """The draws of a run. The record is the chains' unconstrained positions; named values are computed from them.

    A trace reads its store once, when something is first asked of it.

    Args:
        store: The positions and statistics of the run.
        kernel: The kernel that made the draws, with everything that warm-up found.
        target: What was sampled. Without it (None), named values and predictions are not available: set `trace.target`.
        attributes: Seed, versions and times, stored with the draws; by default none.
        warnings: What a reader should know before trusting the draws; empty is good, and the default.
        remarks: Those of the warnings that are about how the draws were made, such as a chain that warm-up moved; by
            default none.

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
        remarks: Sequence[str] = (),
    ):
        super().__init__(store, target)
        self.kernel = kernel  # of any kind: which settings it has, its class says
        self.attributes: dict[str, Tree] = {} if attributes is None else attributes
        self.warnings: list[str] = [] if warnings is None else warnings
        self.remarks = list(remarks)

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

        features = self.by_chain(self._predictive().prediction_features(self.stacked_rows(), x))
        return arviz.summary({"prediction": features}, **options)

    def log_likelihood(self, data: Tree = None, thin: int = 1) -> np.ndarray:
        """The log likelihood of each example under each draw.

        Args:
            data: Examples in the form of the target's data; by default those data.
            thin: Use every `thin`-th draw of each chain.

        Returns:
            [chains, draws, examples].
        """
        target = self.needed_target("log likelihoods")
        if not isinstance(target, DataTarget):
            raise BadInput(f"log likelihoods need a target such as ggmc.DataDensity, got {target!r}")
        return self.by_chain(target.log_likelihoods(self.stacked_rows(thin), data))

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

    def save(self, path: str | Path) -> None:
        """Write the trace to a folder, for `ggmc.load` and for everything that reads zarr.

        Args:
            path: The folder; it must not hold anything yet.
        """
        from ggmc.trace.save_load import save

        save(self, path)

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
        what = ", ".join(self.target.layout.shapes) if self.target is not None else "values"
        if self.target is None and self.store.keeps_rows:
            what = f"{self.positions.shape[-1]} numbers"
        return f"Trace({self.num_chains} chains × {self.num_draws} draws of {what}; {self.kernel})"

    def _predictive(self) -> PredictiveTarget:
        target = self.needed_target("predictions")
        if not isinstance(target, PredictiveTarget):
            raise BadInput(f"predictions need a target such as ggmc.Posterior, got {target!r}")
        return target
