"""Priors under which the elements are independent, each with the same distribution.

With `fan_in=True` the scale is divided by √fan_in (`fan_in_of`), which keeps the variance of a layer's output the same
whatever its width. Tensors of fewer than two dimensions (biases, gains) have no fan-in, and keep the scale as it is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution

from ggmc.bayes.priors.fields import finite, positive, switch
from ggmc.bayes.priors.generalised_normal import GeneralisedNormalDistribution
from ggmc.bayes.priors.prior import (
    NO_LATENTS,
    Elementwise,
    Latents,
    Prior,
    check_scalar,
    constant,
    log_densities_of,
    root_of,
    supports,
)
from ggmc.errors import BadInput


@dataclass(frozen=True)
class Gaussian(Elementwise):
    """Normal elements of mean `loc` and standard deviation `scale`, or scale/√fan_in.

    Args:
        scale: The standard deviation, positive. Default 1.
        fan_in: Whether to divide the scale, not the mean, by √fan_in. Default False.
        loc: The mean. Default 0.

    Example:
        >>> import torch
        >>> from torch.distributions import Normal
        >>> from ggmc.bayes import priors
        >>> weight = torch.ones(10, 4)
        >>> priors.Gaussian(2.0, fan_in=True).log_prob(weight)
        tensor(-56.7575, dtype=torch.float64)
        >>> Normal(0.0, 2.0 / 4**0.5).log_prob(weight).sum()
        tensor(-56.7575)
    """

    scale: float = positive(1.0)
    fan_in: bool = switch(False)
    loc: float = finite(0.0)

    def log_densities(self, value: Tensor) -> Tensor:
        factor, constant = self._terms(value.shape)
        return factor * self._centred(value).square() + constant

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        # The same as the sum of the above with two operations over the tensor, where torch's Normal takes five.
        factor, constant = self._terms(value.shape)
        return factor * self._centred(value).square().sum(dtype=torch.float64) + constant * value.numel()

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        scale = self.scale / root_of(shape, self.fan_in)
        return self.loc + scale * torch.randn(shape, dtype=torch.float64, device="cpu")

    def _centred(self, value: Tensor) -> Tensor:
        return value - self.loc if self.loc else value

    def _terms(self, shape: torch.Size) -> tuple[float, float]:
        scale = self.scale / root_of(shape, self.fan_in)
        return -0.5 / scale**2, -math.log(scale) - 0.5 * math.log(2 * math.pi)


class ScalarFamily(Elementwise):
    """Families built on one scalar torch distribution: that of an element, or, with fan-in, of element · √fan_in."""

    fan_in: bool

    @abstractmethod
    def element(self) -> Distribution:
        """The scalar distribution."""

    def __post_init__(self) -> None:
        _ = self._element  # now: made at a first call under vmap or grad, its tensors would belong to that transform

    @cached_property
    def _element(self) -> Distribution:
        return self.element()

    def log_densities(self, value: Tensor) -> Tensor:
        root = root_of(value.shape, self.fan_in)
        if root == 1.0:
            return log_densities_of(self._element, value)
        return log_densities_of(self._element, value * root) + math.log(root)

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        return self._element.sample(shape).to("cpu", torch.float64) / root_of(shape, self.fan_in)


@dataclass(frozen=True)
class Of(ScalarFamily):
    """Any scalar `torch.distributions.Distribution` on the real line, as the distribution of every element.

    A distribution given where a prior is wanted is taken this way.

    Args:
        distribution: A scalar, continuous distribution whose support is all real numbers.
        fan_in: Whether an element is a draw divided by √fan_in, its location included. Default False.

    Example:
        >>> import torch
        >>> from torch.distributions import Gumbel
        >>> from ggmc.bayes import priors
        >>> priors.Of(Gumbel(0.0, 1.0)).log_prob(torch.zeros(2, 3))
        tensor(-6., dtype=torch.float64)
    """

    distribution: Distribution
    fan_in: bool = switch(False)

    def __post_init__(self) -> None:
        check_scalar("the distribution of a weight", self.distribution)
        if not all(supports(self.distribution, number) for number in (-1e4, -1.0, 0.0, 1.0, 1e4)):
            raise BadInput(
                f"the distribution of a weight must cover all real numbers, got {self.distribution}, whose support is "
                f"{self.distribution.support}: use one such as Normal or StudentT, or priors.Hierarchical for a "
                "positive scale"
            )

    def element(self) -> Distribution:
        return self.distribution


@dataclass(frozen=True)
class Laplace(ScalarFamily):
    """Laplace elements: density exp(−|w|/scale) / (2 scale), standard deviation √2 scale.

    Args:
        scale: The scale, positive. Default 1.
        fan_in: Whether to divide the scale by √fan_in. Default False.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.Laplace(0.5).log_prob(torch.tensor([1.0]))           # −1/0.5 − log(2 · 0.5)
        tensor(-2., dtype=torch.float64)
    """

    scale: float = positive(1.0)
    fan_in: bool = switch(False)

    def element(self) -> Distribution:
        return distributions.Laplace(constant(0), constant(self.scale))


@dataclass(frozen=True)
class StudentT(ScalarFamily):
    """Student-t elements: the smaller `df`, the heavier the tails.

    Args:
        df: The degrees of freedom, positive.
        scale: What a standard t variable is multiplied by, positive. Default 1.
        fan_in: Whether to divide the scale by √fan_in. Default False.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.StudentT(df=3, scale=0.5, fan_in=True)
        StudentT(df=3.0, scale=0.5, fan_in=True)
        >>> priors.StudentT(3).log_prob(torch.zeros(1))                 # log of 2 / (π √3)
        tensor(-1.0009, dtype=torch.float64)
    """

    df: float = positive()
    scale: float = positive(1.0)
    fan_in: bool = switch(False)

    def element(self) -> Distribution:
        return distributions.StudentT(constant(self.df), constant(0), constant(self.scale))


@dataclass(frozen=True)
class Cauchy(ScalarFamily):
    """Cauchy elements: Student's t with one degree of freedom, which has no mean.

    Args:
        scale: Half the distance between the quartiles, positive. Default 1.
        fan_in: Whether to divide the scale by √fan_in. Default False.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.Cauchy().log_prob(torch.zeros(10))                   # −10 log π
        tensor(-11.4473, dtype=torch.float64)
    """

    scale: float = positive(1.0)
    fan_in: bool = switch(False)

    def element(self) -> Distribution:
        return distributions.Cauchy(constant(0), constant(self.scale))


@dataclass(frozen=True)
class GeneralisedNormal(ScalarFamily):
    """Density ∝ exp(−(|w|/scale)^power): Laplace at power 1, Gaussian of standard deviation scale/√2 at power 2.

    Args:
        power: The exponent, positive.
        scale: The scale, positive. Default 1.
        fan_in: Whether to divide the scale by √fan_in. Default False.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> weight = torch.linspace(-2, 2, 8)
        >>> priors.GeneralisedNormal(power=2, scale=2**0.5).log_prob(weight)
        tensor(-14.2087, dtype=torch.float64)
        >>> priors.Gaussian(1.0).log_prob(weight)
        tensor(-14.2087, dtype=torch.float64)
    """

    power: float = positive()
    scale: float = positive(1.0)
    fan_in: bool = switch(False)

    def element(self) -> Distribution:
        return GeneralisedNormalDistribution(constant(0), constant(self.scale), constant(self.power))


@dataclass(frozen=True)
class Improper(Prior):
    """Flat over all real numbers: log density 0, and no draws. The posterior need not exist under it.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.Improper().log_prob(torch.ones(3))
        tensor(0., dtype=torch.float64)
    """

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return 0.0 * value.sum(dtype=torch.float64)  # a gradient of zero, rather than none

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        raise BadInput(
            "Improper() is flat over all numbers, so nothing can be drawn from it: start from the module's own "
            "weights, or give a proper prior such as priors.Gaussian(1.0)"
        )
