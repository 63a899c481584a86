"""Traces in the form that ArviZ works with."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ggmc import kernels
from ggmc.plain import PlainDict

if TYPE_CHECKING:
    import xarray

    from ggmc.trace.trace import Trace


def datatree(trace: Trace, log_likelihood: bool = False) -> xarray.DataTree:
    """A trace as an xarray DataTree with the groups `posterior` and `sample_stats`, named as in ArviZ's schema.

    Args:
        trace: The trace; its target must be set.
        log_likelihood: Whether to add the group `log_likelihood`, which takes one pass over the data for each draw.

    Returns:
        A tree whose variables have the dimensions chain, draw and `name_dim_0`, …; each group carries the settings of
        the run as attributes.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.arviz import datatree
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> tree = datatree(ggmc.sample(target, ggmc.HMC(0.5, 3), draws=10, warmup=0, progress=False))
        >>> tree["posterior"]["theta"].dims
        ('chain', 'draw', 'theta_dim_0')
    """
    import xarray

    attributes = stored_attributes(trace)
    groups = {"posterior": trace.draws, "sample_stats": trace.stats}
    if log_likelihood:
        groups["log_likelihood"] = {"y": trace.log_likelihood()}
    datasets = {f"/{name}": _dataset(arrays, attributes) for name, arrays in groups.items()}
    return xarray.DataTree.from_dict(datasets, name="ggmc")


def inference_data(trace: Trace, log_likelihood: bool = False) -> Any:
    """A trace in the type of the installed ArviZ: InferenceData before ArviZ 1.0, a DataTree from then on.

    Args:
        trace: The trace; its target must be set.
        log_likelihood: Whether to add the group `log_likelihood`, for `arviz.loo`.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.trace.arviz import inference_data
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> data = inference_data(ggmc.sample(target, ggmc.HMC(0.5, 3), draws=10, warmup=0, progress=False))
        >>> data.posterior["theta"].shape
        (4, 10, 2)
    """
    import arviz

    tree = datatree(trace, log_likelihood)
    return tree if int(version("arviz").split(".")[0]) >= 1 else arviz.from_datatree(tree)


def stored_attributes(trace: Trace) -> PlainDict:
    """What is stored with the draws: library and versions, the kernel as JSON, and the trace's own attributes."""
    from importlib.metadata import version

    settings = kernels.to_dict(trace.kernel)
    own = {
        "inference_library": "ggmc",
        "inference_library_version": version("ggmc"),
        "torch_version": str(torch.__version__),
        "kernel": json.dumps(settings, allow_nan=False),
    }
    return own | trace.attributes


def _dataset(arrays: dict[str, np.ndarray], attributes: PlainDict) -> xarray.Dataset:
    import xarray

    variables: dict[str, tuple[list[str], np.ndarray]] = {}
    coordinates: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        dims = ["chain", "draw", *(f"{name}_dim_{i}" for i in range(array.ndim - 2))]
        variables[name] = (dims, array)
        coordinates |= {dim: np.arange(length) for dim, length in zip(dims, array.shape, strict=True)}
    return xarray.Dataset(variables, coordinates, attributes)
