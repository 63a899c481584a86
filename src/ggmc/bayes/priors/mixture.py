"""Mixtures: each element comes from one of several laws, which one being summed out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ggmc.bayes.priors.assign import as_prior
from ggmc.bayes.priors.prior import NO_LATENTS, Elementwise, Latents
from ggmc.errors import BadInput, require_positive


@dataclass(frozen=True)
class Mixture(Elementwise):
    """Each element, independently, has the law of component k with probability `weights[k]`.

    The components are priors with independent elements and no latents, or scalar torch distributions.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> spike_and_slab = priors.Mixture([0.9, 0.1], [priors.Gaussian(0.01), priors.Gaussian(1.0)])
        >>> spike_and_slab.log_densities(torch.tensor([0.0, 1.0]))      # mostly the spike; only the slab
        tensor([ 3.5820, -3.7215])
    """

    weights: Sequence[float]
    components: Sequence[Any]

    def __post_init__(self) -> None:
        weights = tuple(self.weights)
        for k, weight in enumerate(weights):
            require_positive(f"weights[{k}]", weight)
        weights = tuple(float(weight) for weight in weights)
        components = tuple(as_prior(component) for component in self.components)
        if len(weights) != len(components) or not weights:
            raise BadInput(f"a Mixture needs one weight per component, got {len(weights)} and {len(components)}")
        if not math.isclose(math.fsum(weights), 1.0, abs_tol=1e-6):
            raise BadInput(f"the weights of a Mixture must sum to one, got {weights} with sum {math.fsum(weights):g}")
        for component in components:
            if not isinstance(component, Elementwise):
                raise BadInput(
                    f"a Mixture is of priors with independent elements and no latents, got {component}: mix families "
                    "such as priors.Gaussian or priors.Laplace"
                )
        # The little that weights may miss from one would be missed from every element's density.
        object.__setattr__(self, "weights", tuple(weight / math.fsum(weights) for weight in weights))
        object.__setattr__(self, "components", components)

    def log_densities(self, value: Tensor) -> Tensor:
        parts = [math.log(w) + c.log_densities(value) for w, c in zip(self.weights, self.components, strict=True)]
        return torch.stack(parts).logsumexp(0)

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        which = torch.distributions.Categorical(torch.tensor(self.weights, dtype=torch.float64)).sample(shape)
        draws = torch.stack([component.sample(shape) for component in self.components])
        return draws.gather(0, which[None])[0]
