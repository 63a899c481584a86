"""Priors under which the elements are independent, each with the same law.

With `fan_in=True` the scale is divided by √fan_in (`fan_in_of`), which keeps the variance of a layer's output the same
whatever its width. Tensors of fewer than two dimensions (biases, gains) have no fan-in, and keep the scale as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributions as laws
from torch import Tensor
from torch.distributions import Distribution

from ggmc.bayes.priors.generalised_normal import GeneralisedNormalLaw
from ggmc.bayes.priors.prior import (
    NO_LATENTS,
    Elementwise,
    Latents,
    Prior,
    check_scalar_law,
    constant,
    log_densities_of,
    root_of,
    settle,
)
from ggmc.errors import BadInput


@dataclass(frozen=True)
class Gaussian(Elementwise):
    """Normal elements of mean `loc` and standard deviation `scale`, or scale/√fan_in.

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

    scale: float = 1.0
    fan_in: bool = False
    loc: float = 0.0

    def __post_init__(self) -> None:
        settle(self, "scale")
        if not (isinstance(self.loc, int | float) and math.isfinite(self.loc)):
            raise BadInput(f"loc must be a finite number, got {self.loc!r}")
        object.__setattr__(self, "loc", float(self.loc))

    def log_densities(self, value: Tensor) -> Tensor:
        factor, constant = self._terms(value.shape)
        return factor * self._centred(value).square() + constant

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        # The same as the sum of the above with two operations over the tensor, where torch's Normal takes five.
        factor, constant = self._terms(value.shape)
        return factor * self._centred(value).square().sum(dtype=torch.float64) + constant * value.numel()

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        scale = self.scale / root_of(shape, self.fan_in)
        return self.loc + scale * torch.randn(shape, dtype=torch.float64)

    def _centred(self, value: Tensor) -> Tensor:
        return value - self.loc if self.loc else value

    def _terms(self, shape: torch.Size) -> tuple[float, float]:
        scale = self.scale / root_of(shape, self.fan_in)
        return -0.5 / scale**2, -math.log(scale) - 0.5 * math.log(2 * math.pi)


class OneLaw(Elementwise):
    """What the families on one scalar torch law share: an element times √fan_in, if asked for, has that law."""

    law: Distribution
    fan_in: bool

    def log_densities(self, value: Tensor) -> Tensor:
        root = root_of(value.shape, self.fan_in)
        if root == 1.0:
            return log_densities_of(self.law, value)
        return log_densities_of(self.law, value * root) + math.log(root)

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        return self.law.sample(shape).to("cpu", torch.float64) / root_of(shape, self.fan_in)


@dataclass(frozen=True)
class Of(OneLaw):
    """Any scalar `torch.distributions.Distribution` on the real line, as the law of every element.

    A distribution given where a prior is wanted is taken this way. With `fan_in=True`, an element has the law of a draw
    divided by √fan_in, its location included.

    Example:
        >>> import torch
        >>> from torch.distributions import Gumbel
        >>> from ggmc.bayes import priors
        >>> priors.Of(Gumbel(0.0, 1.0)).log_prob(torch.zeros(2, 3))
        tensor(-6., dtype=torch.float64)
    """

    law: Distribution
    fan_in: bool = False

    def __post_init__(self) -> None:
        settle(self)
        check_scalar_law("the law of a weight", self.law)
        line = torch.tensor([-1e4, -1.0, 0.0, 1.0, 1e4], dtype=torch.float64)
        support: Any = self.law.support
        if not support.check(line).all():
            raise BadInput(
                f"the law of a weight must cover all real numbers, got {self.law}, whose support is {support}: "
                "use a law such as Normal or StudentT, or priors.Hierarchical for a positive scale"
            )


@dataclass(frozen=True)
class Laplace(OneLaw):
    """Laplace's law: density exp(−|w|/scale) / (2 scale), standard deviation √2 scale.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.Laplace(0.5).log_prob(torch.tensor([1.0]))           # −1/0.5 − log(2 · 0.5)
        tensor(-2., dtype=torch.float64)
    """

    scale: float = 1.0
    fan_in: bool = False
    law: Distribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle(self, "scale")
        object.__setattr__(self, "law", laws.Laplace(constant(0), constant(self.scale)))


@dataclass(frozen=True)
class StudentT(OneLaw):
    """Student's t with `df` degrees of freedom, times `scale`: heavier tails the smaller df is.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.StudentT(df=3, scale=0.5, fan_in=True)
        StudentT(df=3.0, scale=0.5, fan_in=True)
        >>> priors.StudentT(3).log_prob(torch.zeros(1))                 # 2 / (π √3)
        tensor(-1.0009, dtype=torch.float64)
    """

    df: float
    scale: float = 1.0
    fan_in: bool = False
    law: Distribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle(self, "df", "scale")
        object.__setattr__(self, "law", laws.StudentT(constant(self.df), constant(0), constant(self.scale)))


@dataclass(frozen=True)
class Cauchy(OneLaw):
    """Cauchy's law: Student's t with one degree of freedom, without a mean.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> priors.Cauchy().log_prob(torch.zeros(10))                   # −10 log π
        tensor(-11.4473, dtype=torch.float64)
    """

    scale: float = 1.0
    fan_in: bool = False
    law: Distribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle(self, "scale")
        object.__setattr__(self, "law", laws.Cauchy(constant(0), constant(self.scale)))


@dataclass(frozen=True)
class GeneralisedNormal(OneLaw):
    """Density ∝ exp(−(|w|/scale)^power): Laplace at power 1, Gaussian of standard deviation scale/√2 at power 2.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> weight = torch.linspace(-2, 2, 8)
        >>> priors.GeneralisedNormal(power=2, scale=2**0.5).log_prob(weight)
        tensor(-14.2087, dtype=torch.float64)
        >>> priors.Gaussian(1.0).log_prob(weight)
        tensor(-14.2087, dtype=torch.float64)
    """

    power: float
    scale: float = 1.0
    fan_in: bool = False
    law: Distribution = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle(self, "power", "scale")
        law = GeneralisedNormalLaw(constant(0), constant(self.scale), constant(self.power))
        object.__setattr__(self, "law", law)


@dataclass(frozen=True)
class Improper(Prior):
    """Flat over all numbers: log density 0, and nothing to draw from. The posterior need not exist under it.

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
