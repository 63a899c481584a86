"""The unknowns of a module's posterior: its weights, and the scales of their priors and of the noise.

A prior may move a value other than the weight itself, such as weight / scale. So there are two forms of a row's
tensors: the *values* that chains move, and the *weights* that the module sees; `weights` and `encoded` lead from one to
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Size, Tensor
from torch.distributions import Distribution

from ggmc.bayes.priors import Prior, total_log_prob
from ggmc.targets.potential import Row


class Unknowns:
    """All unknowns, by name, and their joint prior.

    Args:
        priors: The prior of each weight.
        shapes: The shape of each weight.
        noise: The further unknowns of the likelihood, by name, with their priors.

    Example:
        >>> import torch
        >>> from torch.distributions import HalfNormal
        >>> from ggmc.bayes import priors
        >>> from ggmc.bayes.unknowns import Unknowns
        >>> weight = torch.tensor([2.0, 4.0])
        >>> unknowns = Unknowns({"w": priors.Hierarchical()}, {"w": weight.shape}, {"noise": HalfNormal(1.0)})
        >>> list(unknowns.latents)
        ['w.scale', 'noise']
        >>> unknowns.encoded({"w": weight, "w.scale": torch.tensor(2.0), "noise": torch.tensor(1.0)})["w"]
        tensor([1., 2.])
    """

    def __init__(self, priors: Mapping[str, Prior], shapes: Mapping[str, Size], noise: Mapping[str, Distribution]):
        self._priors, self._shapes = dict(priors), dict(shapes)
        self._scales = {name: prior.latents(self._shapes[name]) for name, prior in priors.items()}
        self.latents: dict[str, Distribution] = {}
        for name, scales in self._scales.items():
            self.latents |= {f"{name}.{key}": distribution for key, distribution in scales.items()}
        self.latents |= noise
        self._noise = list(noise)
        self.scaled = any(self._scales.values())
        """Whether some weight is computed from its value and an unknown scale."""

    def weights(self, values: Row) -> Row:
        """One row's weights as the module sees them."""
        return {name: prior.decode(values[name], self._own(name, values)) for name, prior in self._priors.items()}

    def encoded(self, seen: Row) -> Row:
        """One row's values, given the weights that the module sees, and the scales."""
        return seen | {name: prior.encode(seen[name], self._own(name, seen)) for name, prior in self._priors.items()}

    def noise(self, values: Row) -> Row:
        """The likelihood's own unknowns."""
        return {name: values[name] for name in self._noise}

    def log_prob(self, values: Row) -> Tensor:
        """The log prior of one row's values, a float64 scalar."""
        parts = [prior.log_prob(values[name], self._own(name, values)) for name, prior in self._priors.items()]
        parts += [total_log_prob(distribution, values[name]) for name, distribution in self.latents.items()]
        return torch.stack(parts).sum()

    def draw(self) -> Row:
        """One draw of all values from the prior; `private_random.seeded` says by which generator."""
        scales = {name: distribution.sample() for name, distribution in self.latents.items()}
        return {name: self._draw(name, scales) for name in self._priors} | scales

    def draw_of(self, name: str) -> Tensor:
        """One draw of one value, likewise."""
        if name in self.latents:
            return self.latents[name].sample()
        return self._draw(name, {f"{name}.{key}": scale.sample() for key, scale in self._scales[name].items()})

    def over_rows(self, function: Callable[[Row], Row], tensors: Row, dimensions: int) -> Row:
        """A function of one row's tensors, for tensors with so many leading dimensions."""
        if not self.scaled:  # weights are values
            return tensors
        for _ in range(dimensions):
            function = torch.func.vmap(function)
        return function(tensors)

    def _draw(self, name: str, scales: Row) -> Tensor:
        return self._priors[name].sample(self._shapes[name], self._own(name, scales))

    def _own(self, name: str, values: Row) -> Row:
        """The further unknowns of one weight's prior."""
        return {key: values[f"{name}.{key}"] for key in self._scales[name]}
