"""Priors whose scale is unknown too, in non-centred form.

The chain moves a value z of fixed scale, and the module sees the weight scale · z. If the weight itself were moved, the
density would be a funnel, for which no single step size is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.distributions import Distribution, HalfCauchy, HalfNormal

from ggmc.bayes.priors.assign import as_prior
from ggmc.bayes.priors.families import Gaussian, Improper
from ggmc.bayes.priors.fields import Converted, positive, switch
from ggmc.bayes.priors.prior import NO_LATENTS, Latents, Prior, check_scalar, constant, root_of, supports
from ggmc.errors import BadInput


def _of_fixed_scale(name: str, given: Prior | Distribution) -> Prior:
    family = as_prior(given)
    if isinstance(family, Improper) or family.latents(torch.Size([1])):
        raise BadInput(
            f"the {name} of a Hierarchical prior must be of fixed scale, got {family}: use one such as "
            "priors.Gaussian(1.0)"
        )
    return family


def _half_normal() -> Distribution:
    return HalfNormal(constant(1.0))


@dataclass(frozen=True)
class Hierarchical(Prior):
    """weight = scale · z, with one unknown scale per tensor, sampled along with z.

    Args:
        family: The prior of z, of fixed scale, as a rule of scale 1. Default `Gaussian()`.
        scale: The prior of the scale: a scalar torch distribution on positive numbers. Default `HalfNormal(1.0)`.
        fan_in: Whether to divide the weight by √fan_in. Default False.

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

    family: Converted[Prior | Distribution, Prior] = Converted(_of_fixed_scale, Gaussian())
    scale: Distribution = field(default_factory=_half_normal)
    fan_in: bool = switch(False)

    def __post_init__(self) -> None:
        check_scalar("the distribution of a scale", self.scale)
        if supports(self.scale, -1.0) or supports(self.scale, -1e-6):
            raise BadInput(
                f"the distribution of a scale must be one of positive numbers, got {self.scale}: "
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
    """weight = local · global · z, with z normal, a HalfCauchy(1) scale per weight and a global one per tensor.

    Most weights are pulled to zero, and a few are hardly changed (Carvalho, Polson and Scott 2010).

    Args:
        scale: The global scale is HalfCauchy(scale): the smaller, the fewer weights stay away from zero. Default 1.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> prior = priors.Horseshoe(0.1)
        >>> {name: tuple(latent.batch_shape) for name, latent in prior.latents(torch.Size([10, 4])).items()}
        {'local': (10, 4), 'global': ()}
        >>> prior.decode(torch.ones(2), {"local": torch.tensor([1.0, 50.0]), "global": torch.tensor(0.1)})
        tensor([0.1000, 5.0000])
    """

    scale: float = positive(1.0)

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
