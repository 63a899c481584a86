"""A Pyro model as a target. Pyro is an optional extra: `pip install ggmc[pyro]`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import biject_to

from ggmc.errors import BadInput
from ggmc.plain import PlainDict
from ggmc.targets.density import Density

PRIOR_DRAWS = 100  # tried as a start, before giving up


def from_pyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Density:
    """The posterior of a Pyro model given its arguments, over the model's own latent names and supports.

    Sites must be continuous and observed data fixed: discrete latents and subsampling plates are refused.

    Args:
        model: A Pyro model.
        args: Its arguments.
        kwargs: Its keyword arguments.

    Example:
        >>> import pyro, pyro.distributions as dist, torch, ggmc
        >>> def model(y):
        ...     mu = pyro.sample("mu", dist.Normal(0.0, 5.0))
        ...     sigma = pyro.sample("sigma", dist.HalfNormal(2.0))
        ...     pyro.sample("y", dist.Normal(mu, sigma).expand(y.shape).to_event(1), obs=y)
        >>> ggmc.from_pyro(model, torch.tensor([1.2, 0.7, 1.9]))
        Density(mu: (), sigma: (); d = 2)
    """
    try:
        import pyro
        from pyro import poutine
    except ImportError as error:
        raise ImportError("from_pyro needs Pyro: pip install ggmc[pyro]") from error
    if not callable(model):
        raise BadInput(f"from_pyro needs a Pyro model, a function that calls pyro.sample, got {model!r}")

    def prior_draw(seed: int) -> Any:
        with torch.random.fork_rng(), pyro.validation_enabled(False):
            torch.manual_seed(seed)
            return poutine.trace(model).get_trace(*args, **kwargs)

    def is_possible(draw: Any) -> bool:
        with pyro.validation_enabled(False):
            return math.isfinite(float(draw.log_prob_sum()))

    prior = prior_draw(0)
    for seed in range(1, PRIOR_DRAWS):  # a draw from the prior may lie where the data are impossible
        if is_possible(prior):
            break
        prior = prior_draw(seed)
    start: dict[str, Tensor] = {}
    constraints: PlainDict = {}
    for name in prior.stochastic_nodes:
        site: Any = prior.nodes[name]
        if type(site["fn"]).__name__ == "_Subsample":
            if site["fn"].subsample_size not in (None, site["fn"].size):
                raise BadInput(f"the plate {name} subsamples its data at random: the density must see all of it")
            continue
        if site["fn"].support.is_discrete:
            raise BadInput(f"the latent {name} is discrete ({site['fn']}): sum it out of the model first")
        start[name] = site["value"].detach()
        constraints[name] = site["fn"].support
    _refuse_moving_supports(start, constraints, prior_draw(PRIOR_DRAWS))
    if not start:
        raise BadInput("the Pyro model has no latent variables: nothing to sample")

    def log_prob(values: dict[str, Tensor]) -> Tensor:
        with pyro.validation_enabled(False):
            conditioned = poutine.condition(model, data=values)
            return torch.as_tensor(poutine.trace(conditioned).get_trace(*args, **kwargs).log_prob_sum())

    return Density(log_prob, start, constraints)


def _refuse_moving_supports(start: dict[str, Tensor], constraints: PlainDict, other: Any) -> None:
    """A bijection is made once, so a support must be the same in another draw from the prior."""
    for name, constraint in constraints.items():
        site: Any = other.nodes.get(name)
        if site is not None and site["value"].shape == start[name].shape:
            free = biject_to(constraint).inv(start[name])
            if torch.equal(biject_to(constraint)(free), biject_to(site["fn"].support)(free)):
                continue
        raise BadInput(
            f"the latent {name} has a support or shape that depends on other draws: write it as a fixed one, scaled"
        )
