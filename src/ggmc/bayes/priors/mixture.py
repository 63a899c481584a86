"""Mixtures: each element comes from one of several distributions; which one is summed out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution

from ggmc.bayes.priors.assign import as_prior
from ggmc.bayes.priors.fields import Converted
from ggmc.bayes.priors.prior import NO_LATENTS, Elementwise, Latents, Prior
from ggmc.errors import BadInput, require_positive


def _weights(name: str, given: Iterable[float]) -> tuple[float, ...]:
    weights = tuple(given)
    for k, weight in enumerate(weights):
        require_positive(f"{name}[{k}]", weight)
    return tuple(float(weight) for weight in weights)


def _components(name: str, given: Iterable[Prior | Distribution]) -> tuple[Elementwise, ...]:
    components: list[Elementwise] = []
    for component in map(as_prior, given):
        if not isinstance(component, Elementwise):
            raise BadInput(
                f"the {name} of a Mixture must be priors with independent elements and no latents, got {component}: "
                "mix families such as priors.Gaussian or priors.Laplace"
            )
        components.append(component)
    return tuple(components)


@dataclass(frozen=True)
class Mixture(Elementwise):
    """Each element, independently, has the distribution of component k with probability `weights[k]`.

    Args:
        weights: Positive numbers that sum to one.
        components: As many priors with independent elements and no latents, or scalar torch distributions.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> spike_and_slab = priors.Mixture([0.9, 0.1], [priors.Gaussian(0.01), priors.Gaussian(1.0)])
        >>> spike_and_slab.log_densities(torch.tensor([0.0, 1.0]))      # mostly the spike; only the slab
        tensor([ 3.5820, -3.7215])
    """

    weights: Converted[Iterable[float], tuple[float, ...]] = Converted(_weights)
    components: Converted[Iterable[Prior | Distribution], tuple[Elementwise, ...]] = Converted(_components)

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.components) or not self.weights:
            raise BadInput(
                f"a Mixture needs one weight per component, got {len(self.weights)} and {len(self.components)}"
            )
        total = math.fsum(self.weights)
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise BadInput(f"the weights of a Mixture must sum to one, got {self.weights} with sum {total:g}")

    @cached_property
    def _log_weights(self) -> tuple[float, ...]:
        # Divided by their sum: what the weights lack of one would be missing from every element's density.
        return tuple(math.log(weight / math.fsum(self.weights)) for weight in self.weights)

    def log_densities(self, value: Tensor) -> Tensor:
        parts = [log + part.log_densities(value) for log, part in zip(self._log_weights, self.components, strict=True)]
        return torch.stack(parts).logsumexp(0)

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        which = Categorical(torch.tensor(self.weights, dtype=torch.float64, device="cpu")).sample(shape)
        draws = torch.stack([component.sample(shape) for component in self.components])
        return draws.gather(0, which[None])[0]
