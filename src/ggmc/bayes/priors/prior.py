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

import torch
from torch import Tensor
from torch.distributions import Distribution

from ggmc.errors import BadInput

Latents = Mapping[str, Tensor]
NO_LATENTS: Latents = MappingProxyType({})


class Prior(ABC):
    """The distribution of one weight tensor. A new family needs `log_prob` and `sample`; the rest has defaults.

    All methods are for one chain and are vectorised with `torch.func.vmap`. So they must not branch on values, and must
    not keep a tensor that they made for a later call: it may belong to a transform that has ended by then.

    Example:
        >>> import math, torch
        >>> from ggmc.bayes import priors
        >>> class Logistic(priors.Prior):
        ...     def log_prob(self, value, latents={}):
        ...         return -(value + 2 * torch.nn.functional.softplus(-value)).sum(dtype=torch.float64)
        ...     def sample(self, shape, latents={}):
        ...         return torch.rand(shape, dtype=torch.float64, device="cpu").logit()
        >>> Logistic().log_prob(torch.zeros(2, 3)) / 6, math.log(1 / 4)
        (tensor(-1.3863, dtype=torch.float64), -1.3862943611198906)
    """

    def latents(self, shape: torch.Size) -> dict[str, Distribution]:
        """The further unknowns that this prior adds to the posterior, each with its own prior. By default none.

        `log_prob` does not include them: the posterior adds `total_log_prob` of each.

        Args:
            shape: The shape of the weight tensor.

        Returns:
            Distributions by name; the batch shape of each is the shape of its unknown.
        """
        return {}

    @abstractmethod
    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        """The normalised log density of a value given the latents.

        Args:
            value: The value that the chain moves, of the weight's shape.
            latents: The unknowns of `latents`, by name.

        Returns:
            The sum over the tensor: a float64 scalar.
        """

    @abstractmethod
    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        """A draw of the value given the latents, from torch's global generator.

        Args:
            shape: The shape of the weight tensor.
            latents: The unknowns of `latents`, by name.

        Returns:
            A tensor of this shape: float64, on the CPU whatever the default device.
        """

    def decode(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        """The weight that the module sees. By default the value itself.

        Args:
            value: The value that the chain moves.
            latents: The unknowns of `latents`, by name.
        """
        return value

    def encode(self, weight: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        """The value that stands for a weight: the inverse of `decode`.

        Args:
            weight: The weight that the module sees.
            latents: The unknowns of `latents`, by name.
        """
        return weight

    def check(self, name: str, shape: torch.Size) -> None:
        """Raise `BadInput` for a tensor that this prior cannot describe. By default it can describe any.

        Args:
            name: The tensor's name, for the message.
            shape: Its shape.
        """
        return


class Elementwise(Prior):
    """A prior under which the elements are independent, and which has no latents: what a `Mixture` can mix.

    A new family needs `log_densities` and `sample`.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> isinstance(priors.Laplace(), priors.Elementwise), isinstance(priors.Horseshoe(), priors.Elementwise)
        (True, False)
    """

    @abstractmethod
    def log_densities(self, value: Tensor) -> Tensor:
        """The log density of each element.

        Args:
            value: A tensor of the weight's shape.

        Returns:
            A tensor of the same shape.
        """

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return self.log_densities(value).sum(dtype=torch.float64)


def fan_in_of(shape: torch.Size) -> int:
    """The number of inputs of one output unit, `weight[0].numel()`; 1 for a tensor of fewer than two dimensions.

    So biases and the gains of norms are not scaled. Embeddings and transposed convolutions store their weights in
    another order: give those a scale by hand.

    Args:
        shape: The shape of the weight tensor, [outputs, inputs, ...].

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
    """What a scale is divided by: √fan_in if `fan_in` is set, else 1."""
    return math.sqrt(fan_in_of(shape)) if fan_in else 1.0


def log_densities_of(distribution: Distribution, value: Tensor) -> Tensor:
    """The log density of each element under a torch distribution, scalar or of the value's shape."""
    return _like(distribution, value).log_prob(value)


def total_log_prob(distribution: Distribution, value: Tensor) -> Tensor:
    """The log density under a torch distribution, computed in the value's precision and summed in float64.

    Args:
        distribution: A scalar distribution, or one of the value's shape; its parameters may be on another device.
        value: The tensor.

    Returns:
        A float64 scalar on the value's device.

    Example:
        >>> import torch
        >>> from torch.distributions import HalfCauchy
        >>> from ggmc.bayes.priors import total_log_prob
        >>> total_log_prob(HalfCauchy(1.0), torch.zeros(100, dtype=torch.float64))           # 100 log(2/π)
        tensor(-45.1583, dtype=torch.float64)
    """
    return log_densities_of(distribution, value).sum(dtype=torch.float64)


def _like(distribution: Distribution, value: Tensor) -> Distribution:
    """The same distribution with its parameters in the precision and on the device of the value.

    Some of torch's distributions (HalfCauchy, Gamma) would otherwise convert the value to their own precision and
    device. Arguments are not checked here: a check branches on values, which vmap cannot do.
    """
    moved = copy.copy(distribution)
    for name, held in vars(distribution).items():
        if isinstance(held, Tensor):
            vars(moved)[name] = held.to(value.device, value.dtype if held.is_floating_point() else held.dtype)
        elif isinstance(held, Distribution):
            vars(moved)[name] = _like(held, value)
    vars(moved)["_validate_args"] = False
    return moved


def constant(number: float) -> Tensor:
    """A number for a torch distribution, in full precision; being 0-dimensional, it takes on the value's precision.

    On the CPU whatever the default device: draws are made there.
    """
    return torch.tensor(float(number), dtype=torch.float64, device="cpu")


def supports(distribution: Distribution, number: float) -> bool:
    """Whether a scalar distribution's support contains a number."""
    support = distribution.support
    return bool(support.check(constant(number)))  # pyright: ignore[reportOptionalMemberAccess]


def check_scalar(what: str, given: object) -> None:
    """Raise `BadInput` for what is not the distribution of a single continuous number."""
    if not isinstance(given, Distribution):
        name = f"the class {given.__name__}: make one" if isinstance(given, type) else repr(given)
        raise BadInput(f"{what} must be a torch.distributions.Distribution, got {name}")
    if given.batch_shape or given.event_shape:
        raise BadInput(
            f"{what} must be that of a single number, got batch shape {tuple(given.batch_shape)} and event shape "
            f"{tuple(given.event_shape)}: give scalars, such as Normal(0.0, 1.0)"
        )
    if given.support is None or given.support.is_discrete:  # pyright: ignore[reportAttributeAccessIssue]
        raise BadInput(f"{what} must be continuous, got {given}")
