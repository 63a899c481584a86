"""Priors whose scale is unknown too, in non-centred form.

The chain moves a value z of fixed scale, and the module sees the weight scale · z: were the weight itself to move, its
density would be a funnel, which no single step size suits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, HalfCauchy, HalfNormal

from ggmc.bayes.priors.assign import as_prior
from ggmc.bayes.priors.families import Gaussian, Improper
from ggmc.bayes.priors.prior import NO_LATENTS, Latents, Prior, check_scalar_law, constant, root_of, settle
from ggmc.errors import BadInput


def _half_normal() -> Distribution:
    return HalfNormal(constant(1.0))


@dataclass(frozen=True)
class Hierarchical(Prior):
    """weight = scale · z, with z of the law `family`, and one unknown scale per tensor, of the law `scale`.

    `family` is a prior of fixed scale, as a rule that of scale 1; `scale` is a scalar torch law of a positive number.
    With `fan_in=True` the weight is divided by √fan_in besides.

    Example:
        >>> import torch
        >>> from torch.distributions import HalfCauchy
        >>> from ggmc.bayes import priors
        >>> prior = priors.Hierarchical(priors.StudentT(4), scale=HalfCauchy(1.0), fan_in=True)
        >>> weight = torch.ones(10, 4)
        >>> prior.latents(weight.shape)
        {'scale': HalfCauchy()}
        >>> prior.encode(weight, {"scale": torch.tensor(0.5)})[0]           # 1 / (0.5 / √4)
        tensor([4., 4., 4., 4.])
    """

    family: Any = field(default_factory=Gaussian)
    scale: Any = field(default_factory=_half_normal)
    fan_in: bool = False

    def __post_init__(self) -> None:
        settle(self)
        object.__setattr__(self, "family", as_prior(self.family))
        if isinstance(self.family, Improper) or type(self.family).latents is not Prior.latents:
            raise BadInput(
                f"the family of a Hierarchical prior must be of fixed scale, got {self.family}: "
                "use one such as priors.Gaussian(1.0)"
            )
        check_scalar_law("the law of a scale", self.scale)
        if self.scale.support.check(torch.tensor([-1.0, -1e-6], dtype=torch.float64)).any():
            raise BadInput(
                f"the law of a scale must be one of positive numbers, got {self.scale}: "
                "use HalfNormal, HalfCauchy, LogNormal, Gamma or the like"
            )

    def latents(self, shape: torch.Size) -> dict[str, Distribution]:
        return {"scale": self.scale}

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return self.family.log_prob(value)

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        return self.family.sample(shape)

    def decode(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return self.family.decode(value) * (latents["scale"] / root_of(value.shape, self.fan_in))

    def encode(self, weight: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return self.family.encode(weight / (latents["scale"] / root_of(weight.shape, self.fan_in)))

    def check(self, name: str, shape: torch.Size) -> None:
        self.family.check(name, shape)


@dataclass(frozen=True)
class Horseshoe(Prior):
    """weight = local · global · z, with z normal, a half-Cauchy local scale per weight and one global scale per tensor.

    Most weights are pulled to zero, and a few are hardly touched (Carvalho, Polson and Scott 2010). The local scales
    are HalfCauchy(1), the global one HalfCauchy(`scale`): the smaller, the fewer weights escape.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> prior = priors.Horseshoe(0.1)
        >>> {name: tuple(law.batch_shape) for name, law in prior.latents(torch.Size([10, 4])).items()}
        {'local': (10, 4), 'global': ()}
        >>> prior.decode(torch.ones(2), {"local": torch.tensor([1.0, 50.0]), "global": torch.tensor(0.1)})
        tensor([0.1000, 5.0000])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        settle(self, "scale")

    def latents(self, shape: torch.Size) -> dict[str, Distribution]:
        return {"local": HalfCauchy(constant(1.0)).expand(shape), "global": HalfCauchy(constant(self.scale))}

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return Gaussian().log_prob(value)

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        return Gaussian().sample(shape)

    def decode(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return value * (latents["local"] * latents["global"])

    def encode(self, weight: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        return weight / (latents["local"] * latents["global"])
