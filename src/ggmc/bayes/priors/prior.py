"""What a prior is, and what the families share.

Log densities are sums over many elements, and the Metropolis test takes differences of them: elements are computed in
the precision of the value, and added up in float64.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ggmc.errors import BadInput, require_positive

Latents = Mapping[str, Tensor]
NO_LATENTS: Latents = MappingProxyType({})


class Prior(ABC):
    """The law of one weight tensor. A new family needs `log_prob` and `sample`; the rest has defaults.

    All methods are for one chain and are vectorised with `torch.func.vmap`. So they must not branch on values, and must
    not keep a tensor they made for a later call: it may belong to a transform that is over by then.

    Example:
        >>> import math, torch
        >>> from ggmc.bayes import priors
        >>> class Logistic(priors.Prior):
        ...     def log_prob(self, value, latents={}):
        ...         return -(value + 2 * torch.nn.functional.softplus(-value)).sum(dtype=torch.float64)
        ...     def sample(self, shape, latents={}):
        ...         return torch.rand(shape, dtype=torch.float64).logit()
        >>> Logistic().log_prob(torch.zeros(2, 3)) / 6, math.log(1 / 4)
        (tensor(-1.3863, dtype=torch.float64), -1.3862943611198906)
    """

    def latents(self, shape: torch.Size) -> dict[str, Distribution]:
        """The further unknowns this prior brings for a tensor of this shape: their laws, each of its unknown's shape.

        `log_prob` does not include them: whoever puts the posterior together adds `total_log_prob` of each.
        """
        return {}

    @abstractmethod
    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        """The normalised log density of `value` given the latents, summed over the tensor: a float64 scalar."""

    @abstractmethod
    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        """A draw of `value` given the latents, from torch's global generator: float64, on the CPU."""

    def decode(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        """The weight that the module sees."""
        return value

    def encode(self, weight: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        """The value of a weight: the inverse of `decode`."""
        return weight

    def check(self, name: str, shape: torch.Size) -> None:
        """Refuse a tensor that this prior cannot serve."""
        return  # most serve any


class Elementwise(Prior):
    """A prior under which the elements are independent: what a `Mixture` can mix."""

    @abstractmethod
    def log_densities(self, value: Tensor) -> Tensor:
        """The log density of each element: of the value's shape."""

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return self.log_densities(value).sum(dtype=torch.float64)


def fan_in_of(shape: torch.Size) -> int:
    """The number of inputs of one output unit, `weight[0].numel()`; 1 for a tensor of fewer than two dimensions.

    So biases and the gains of norms are not scaled. Embeddings and transposed convolutions lay out their weights in
    another way: give those a scale by hand.

    Example:
        >>> import torch
        >>> from ggmc.bayes.priors import fan_in_of
        >>> fan_in_of(torch.nn.Linear(20, 5).weight.shape), fan_in_of(torch.nn.Conv2d(3, 8, 5).weight.shape)
        (20, 75)
        >>> fan_in_of(torch.nn.Linear(20, 5).bias.shape)
        1
    """
    return max(1, math.prod(shape[1:])) if len(shape) > 1 else 1


def root_of(shape: torch.Size, fan_in: bool) -> float:
    """What a scale is divided by: √fan_in where it is asked for."""
    return math.sqrt(fan_in_of(shape)) if fan_in else 1.0


def log_densities_of(law: Distribution, value: Tensor) -> Tensor:
    """The log density of each element under a scalar torch law, or one of the value's shape."""
    return _like(law, value).log_prob(value)


def total_log_prob(law: Distribution, value: Tensor) -> Tensor:
    """The log density under a torch law, summed in float64, in the value's own precision and on its device.

    Example:
        >>> import torch
        >>> from torch.distributions import HalfCauchy
        >>> from ggmc.bayes.priors import total_log_prob
        >>> total_log_prob(HalfCauchy(1.0), torch.zeros(100, dtype=torch.float64))           # 100 log(2/π)
        tensor(-45.1583, dtype=torch.float64)
    """
    return log_densities_of(law, value).sum(dtype=torch.float64)


def _like(law: Distribution, value: Tensor) -> Distribution:
    """The same law with its parameters where the value is.

    Some laws of torch (HalfCauchy, Gamma) would otherwise convert the value to their own precision and device. Nor do
    they check their arguments here: a check branches on values, which vmap cannot.
    """
    moved = copy.copy(law)
    for name, held in vars(law).items():
        if isinstance(held, Tensor):
            vars(moved)[name] = held.to(value.device, value.dtype if held.is_floating_point() else held.dtype)
        elif isinstance(held, Distribution):
            vars(moved)[name] = _like(held, value)
    vars(moved)["_validate_args"] = False
    return moved


def constant(number: float) -> Tensor:
    """A number for a torch law, in full precision; being 0-dimensional, it takes on the value's precision."""
    return torch.tensor(float(number), dtype=torch.float64)


def settle(prior: Any, *positive: str) -> None:
    """Check the fields that must be positive, and `fan_in`; keep the former as plain floats."""
    for name in positive:
        given = getattr(prior, name)
        require_positive(name, given)
        object.__setattr__(prior, name, float(given))
    if hasattr(prior, "fan_in") and not isinstance(prior.fan_in, bool):
        raise BadInput(f"fan_in must be True or False, got {prior.fan_in!r}")


def check_scalar_law(what: str, law: Any) -> None:
    """Refuse what is not the law of a single continuous number."""
    if not isinstance(law, Distribution):
        name = f"the class {law.__name__}: make one" if isinstance(law, type) else repr(law)
        raise BadInput(f"{what} must be a torch.distributions.Distribution, got {name}")
    if law.batch_shape or law.event_shape:
        raise BadInput(
            f"{what} must be the law of a single number, got batch shape {tuple(law.batch_shape)} and event shape "
            f"{tuple(law.event_shape)}: give scalars, such as Normal(0.0, 1.0)"
        )
    if law.support is None or law.support.is_discrete:  # pyright: ignore[reportAttributeAccessIssue]
        raise BadInput(f"{what} must be continuous, got {law}")
