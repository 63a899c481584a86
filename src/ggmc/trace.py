"""What a run leaves behind: draws, what each trajectory did, and the settings that made them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ggmc import kernels

if TYPE_CHECKING:
    import xarray

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

    @classmethod
    def of(cls, blocks: Sequence[Block], kernel: Any, attributes: dict[str, Any]) -> Trace:
        """One trace from a run's blocks, in order."""

        def joined(parts: Sequence[Arrays]) -> Arrays:
            return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

        return cls(joined([b.draws for b in blocks]), joined([b.stats for b in blocks]), kernel, attributes)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.draws[name]

    @property
    def num_chains(self) -> int:
        return self.stats["lp"].shape[0]

    @property
    def num_draws(self) -> int:
        return self.stats["lp"].shape[1]

    def to_datatree(self) -> xarray.DataTree:
        """The groups `posterior` and `sample_stats` as an xarray DataTree, named as in ArviZ's schema."""
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

        return xarray.DataTree.from_dict(
            {"/posterior": dataset(self.draws), "/sample_stats": dataset(self.stats)}, name="ggmc"
        )

    def to_arviz(self) -> Any:
        """What the installed ArviZ works with: InferenceData before ArviZ 1.0, a DataTree from then on."""
        import arviz

        tree = self.to_datatree()
        return arviz.from_datatree(tree) if hasattr(arviz, "InferenceData") else tree

    def summary(self, **options: Any) -> Any:
        """ArviZ's table of every parameter: mean, sd, interval, Monte Carlo errors, effective draws and R̂."""
        import arviz

        return arviz.summary(self.to_arviz(), **options)

    def __repr__(self) -> str:
        return f"Trace({self.num_chains} chains × {self.num_draws} draws of {', '.join(self.draws)}; {self.kernel})"

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
