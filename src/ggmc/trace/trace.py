"""What a run leaves behind: draws, what each trajectory did, and the settings that made them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ggmc import kernels
from ggmc.errors import BadInput, require_count

if TYPE_CHECKING:
    import xarray

    from ggmc.bayes.predict import Prediction

Arrays = dict[str, np.ndarray]

LARGEST_STORED_MASS = 10_000  # numbers; attributes are text


class Block(NamedTuple):
    """Some consecutive draws of all chains: arrays of shape [chains, draws, ...]."""

    draws: Arrays
    stats: Arrays


@dataclass
class Trace:
    """The draws of a run, on the user's constrained scale, by name: `trace["sigma"]` is [chains, draws, *shape].

    `stats` has one number per trajectory under ArviZ's names; `lp` is −U, the log density on the unconstrained scale.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> trace = ggmc.sample(target, draws=500, warmup=500, progress=False)
        >>> trace["theta"].shape
        (4, 500, 2)
        >>> list(trace.summary().index)
        ['theta[0]', 'theta[1]']
    """

    draws: Arrays
    stats: Arrays
    kernel: Any
    """The kernel that made the draws, with everything warm-up found filled in."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Seed, versions and times, stored with the draws."""
    warnings: list[str] = field(default_factory=list)
    """What a careful reader should know before trusting the draws; empty is good."""
    target: Any = field(default=None, repr=False, compare=False)
    """What was sampled: predictions and likelihoods are asked of it."""

    @classmethod
    def of(cls, blocks: Sequence[Block], kernel: Any, attributes: dict[str, Any], target: Any = None) -> Trace:
        """One trace from a run's blocks, in order."""

        def joined(parts: Sequence[Arrays]) -> Arrays:
            return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

        draws, stats = joined([b.draws for b in blocks]), joined([b.stats for b in blocks])
        return cls(draws, stats, kernel, attributes, target=target)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.draws[name]

    @property
    def num_chains(self) -> int:
        return self.stats["lp"].shape[0]

    @property
    def num_draws(self) -> int:
        return self.stats["lp"].shape[1]

    def rows(self, thin: int = 1) -> torch.Tensor:
        """Every `thin`-th draw of each chain as a row of the target's unconstrained space: [chains, draws, d]."""
        require_count("thin", thin)
        target = self._asked("unconstrain", "rows")
        return target.unconstrain({n: torch.from_numpy(array[:, ::thin]) for n, array in self.draws.items()})

    def predict(self, x: Any, thin: int = 1, seed: int = 0) -> Prediction:
        """What the module predicts for new inputs, averaged over (every `thin`-th of) the draws: a `ggmc.Prediction`.

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
        from ggmc.bayes.predict import predict

        return predict(self._asked("outputs", "predictions"), self.rows(thin).flatten(0, 1), x, seed)

    def score(self, x: Any, y: Any, thin: int = 1) -> dict[str, float]:
        """How good the predictions are: `lppd` per example; accuracy, NLL, Brier and ECE of classes; RMSE and the
        coverage of the 90 % interval of numbers."""
        from ggmc.bayes.score import score

        return score(self._asked("outputs", "predictions"), self.rows(thin).flatten(0, 1), x, y)

    def predictive_summary(self, x: Any, **options: Any) -> Any:
        """ArviZ's table of the predictions at x, with R̂ and effective draws: mixing in function space, where a
        network's chains can be compared although its weights cannot."""
        import arviz

        from ggmc.bayes.predict import watched

        rows = self.rows()
        seen = watched(self._asked("outputs", "predictions"), rows.flatten(0, 1), x).unflatten(0, rows.shape[:2])
        return arviz.summary({"prediction": seen.cpu().numpy()}, **options)

    def log_likelihood(self, data: Any = None, thin: int = 1) -> np.ndarray:
        """The log likelihood of each example under each draw, [chains, draws, examples]: of the target's data, or
        others in the same form."""
        target = self._asked("log_likelihoods", "log likelihoods")
        if data is not None and hasattr(target, "checked"):
            data = target.checked(*data) if isinstance(data, tuple | list) else target.checked(data, None)
        found = target.log_likelihoods(self.rows(thin).flatten(0, 1), data)
        return found.unflatten(0, (self.num_chains, -1)).cpu().numpy()

    def temperatures(self, draws: int = 50, level: float = 0.95) -> Any:
        """Kinetic and configurational temperature with their intervals, overall and for each tensor: a table.

        In equilibrium both are the kernel's temperature. See `ggmc.temperatures`, which does the work.
        """
        from ggmc.trace.temperatures import temperatures

        return temperatures(self, draws, level)

    def to_datatree(self, log_likelihood: bool = False) -> xarray.DataTree:
        """The groups `posterior` and `sample_stats`, and `log_likelihood` if asked for, as an xarray DataTree, named
        as in ArviZ's schema."""
        import xarray

        attributes = self._stored_attributes()

        def dataset(arrays: Arrays) -> xarray.Dataset:
            coordinates = {"chain": np.arange(self.num_chains), "draw": np.arange(self.num_draws)}
            variables = {
                name: (["chain", "draw", *(f"{name}_dim_{i}" for i in range(array.ndim - 2))], array)
                for name, array in arrays.items()
            }
            for name, array in arrays.items():
                coordinates |= {f"{name}_dim_{i}": np.arange(n) for i, n in enumerate(array.shape[2:])}
            return xarray.Dataset(variables, coordinates, attributes)

        groups = {"/posterior": dataset(self.draws), "/sample_stats": dataset(self.stats)}
        if log_likelihood:
            groups["/log_likelihood"] = dataset({"y": self.log_likelihood()})
        return xarray.DataTree.from_dict(groups, name="ggmc")

    def to_arviz(self, log_likelihood: bool = False) -> Any:
        """What the installed ArviZ works with: InferenceData before ArviZ 1.0, a DataTree from then on.

        `log_likelihood=True` adds the group of that name, for `arviz.loo`; it takes a pass over the data per draw.
        """
        import arviz

        tree = self.to_datatree(log_likelihood)
        return arviz.from_datatree(tree) if hasattr(arviz, "InferenceData") else tree

    def summary(self, **options: Any) -> Any:
        """ArviZ's table of every parameter: mean, sd, interval, Monte Carlo errors, effective draws and R̂."""
        import arviz

        return arviz.summary(self.to_arviz(), **options)

    def __repr__(self) -> str:
        return f"Trace({self.num_chains} chains × {self.num_draws} draws of {', '.join(self.draws)}; {self.kernel})"

    def _asked(self, method: str, what: str) -> Any:
        """The target, which must know how to answer."""
        if self.target is None:
            raise BadInput(f"{what} need the target, which this trace does not have: set trace.target")
        if not hasattr(self.target, method):
            kind = "ggmc.Posterior" if method == "outputs" else "ggmc.DataDensity"
            raise BadInput(f"{what} need a target such as {kind}, got {self.target!r}")
        return self.target

    def _stored_attributes(self) -> dict[str, Any]:
        import ggmc

        settings = kernels.to_dict(self.kernel)
        if self.kernel.mass is not None and np.size(settings["mass"]) > LARGEST_STORED_MASS:
            settings["mass"] = repr(self.kernel.mass)
        own = {
            "inference_library": "ggmc",
            "inference_library_version": ggmc.__version__,
            "torch_version": str(torch.__version__),
            "kernel": json.dumps(settings, allow_nan=False),
        }
        return own | self.attributes
