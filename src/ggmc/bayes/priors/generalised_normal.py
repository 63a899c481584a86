"""The generalised normal distribution: p(x) = power / (2 scale Γ(1/power)) exp(−(|x − loc|/scale)^power).

Power 1 is the Laplace distribution, power 2 a normal one of standard deviation scale/√2. Below 1 the peak is sharp and
the tails are heavy; large powers are nearly uniform on ±scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Gamma, constraints
from torch.distributions.utils import broadcast_all


class GeneralisedNormalDistribution(Distribution):
    """The generalised normal as a torch distribution; as a prior of weights, see `GeneralisedNormal`.

    A draw is loc ± scale G^(1/power) with G ~ Gamma(1/power, 1) and a fair sign; its gradients reach all parameters.

    Args:
        loc: The mean, a number or tensor.
        scale: The scale, positive.
        power: The exponent, positive. The three are broadcast against each other.
        validate_args: Whether to check parameters and values, as in every torch distribution.

    Example:
        >>> import torch
        >>> from torch.distributions import Laplace
        >>> from ggmc.bayes.priors import GeneralisedNormalDistribution
        >>> x = torch.tensor([-1.0, 0.0, 2.0])
        >>> GeneralisedNormalDistribution(loc=0.5, scale=2.0, power=1.0).log_prob(x)
        tensor([-2.1363, -1.6363, -2.1363])
        >>> Laplace(0.5, 2.0).log_prob(x)
        tensor([-2.1363, -1.6363, -2.1363])
    """

    # Torch declares these two as properties, and overrides them by plain attributes in every distribution of its own.
    arg_constraints: Any = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "power": constraints.positive,
    }
    support: Any = constraints.real
    has_rsample = True

    def __init__(
        self, loc: float | Tensor, scale: float | Tensor, power: float | Tensor, validate_args: bool | None = None
    ):
        self.loc, self.scale, self.power = broadcast_all(loc, scale, power)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: object = None) -> GeneralisedNormalDistribution:
        shape = torch.Size(batch_shape)
        parameters = (p.expand(shape) for p in (self.loc, self.scale, self.power))
        return GeneralisedNormalDistribution(*parameters, validate_args=self._validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        normaliser = (2 * self.scale / self.power).log() + (1 / self.power).lgamma()
        return -self._distance(value).pow(self.power) - normaliser

    def rsample(self, sample_shape: Sequence[int] = torch.Size()) -> Tensor:
        shape = self._extended_shape(torch.Size(sample_shape))
        power = self.power.expand(shape)
        radius = Gamma(1 / power, torch.ones_like(power)).rsample().pow(1 / power)
        sign = torch.randint(2, shape, device=power.device, dtype=power.dtype) * 2 - 1
        return self.loc + self.scale * sign * radius

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        within = torch.special.gammainc(1 / self.power, self._distance(value).pow(self.power))
        return (1 + (value - self.loc).sign() * within) / 2

    def entropy(self) -> Tensor:
        return 1 / self.power + (2 * self.scale / self.power).log() + (1 / self.power).lgamma()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * ((3 / self.power).lgamma() - (1 / self.power).lgamma()).exp()

    def _distance(self, value: Tensor) -> Tensor:
        # At a power below 1 the slope at the peak is infinite, and autograd would make it NaN: the clamp makes it 0.
        # Biases often start there.
        distance = ((value - self.loc) / self.scale).abs()
        return distance.clamp_min(torch.finfo(distance.dtype).tiny)
