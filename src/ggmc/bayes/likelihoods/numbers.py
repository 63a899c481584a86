"""Outcomes that are numbers: real ones with noise, and counts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution
from torch.nn import functional

from ggmc.bayes.likelihoods.likelihood import Latents, Likelihood
from ggmc.bayes.likelihoods.outcomes import (
    check_noise,
    latent_noise,
    noise_scale,
    outcomes_each,
    per_example,
    refuse,
    shaped_like,
    squeezed,
)
from ggmc.errors import BadInput, require_positive

LEAST_SCALE = 1e-4  # below it a heteroscedastic scale is no scale but a spike in the likelihood


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """A real outcome: the output plus normal noise of a standard deviation `noise`.

    A number is known noise. A positive torch law, such as `HalfNormal(1.0)`, is its prior, and the noise is sampled
    with the weights. "learnt" finds the noise by optimisation, with the weights, before sampling, and fixes it there.

    Example:
        >>> from torch.distributions import HalfNormal
        >>> from ggmc.bayes import likelihoods
        >>> list(likelihoods.Gaussian(noise=HalfNormal(1.0)).latents())
        ['noise']
    """

    noise: float | str | Distribution = 1.0

    def __post_init__(self) -> None:
        check_noise(self.noise)

    def latents(self) -> dict[str, Distribution]:
        return latent_noise(self.noise)

    def fixed(self, noise: float) -> Gaussian:
        """The same with a known noise."""
        return replace(self, noise=noise)

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.Normal(squeezed(output), noise_scale(self.noise, output, latents))

    def bound(self, y: Tensor) -> float | None:
        return _highest(self, y) if isinstance(self.noise, int | float) else None


@dataclass(frozen=True)
class StudentT(Likelihood):
    """A real outcome with outliers: the output plus Student-t noise of a scale `noise`, given as in `Gaussian`.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> far = torch.zeros(1), torch.tensor([10.0])
        >>> bool(likelihoods.StudentT(1.0).log_prob(*far, {}) > likelihoods.Gaussian(1.0).log_prob(*far, {}))
        True
    """

    noise: float | str | Distribution = 1.0
    df: float = 4.0

    def __post_init__(self) -> None:
        check_noise(self.noise)
        require_positive("df", self.df)

    def latents(self) -> dict[str, Distribution]:
        return latent_noise(self.noise)

    def fixed(self, noise: float) -> StudentT:
        """The same with a known noise."""
        return replace(self, noise=noise)

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.StudentT(self.df, squeezed(output), noise_scale(self.noise, output, latents))

    def bound(self, y: Tensor) -> float | None:
        return _highest(self, y) if isinstance(self.noise, int | float) else None


@dataclass(frozen=True)
class Heteroscedastic(Likelihood):
    """A real outcome whose noise the module predicts too: of 2k outputs, k means and k scales (through a softplus).

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> law = likelihoods.Heteroscedastic().distribution(torch.tensor([[1.0, 0.0]]), {})
        >>> law.mean, law.stddev
        (tensor([1.]), tensor([0.6932]))
    """

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        mean, raw = output.chunk(2, dim=-1)
        return distributions.Normal(squeezed(mean), squeezed(functional.softplus(raw) + LEAST_SCALE))

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        terms = self.distribution(output, latents).log_prob(shaped_like(y, output.chunk(2, dim=-1)[0]))
        return per_example(terms)

    def check(self, output: Tensor, y: Tensor) -> None:
        wanted = 2 * outcomes_each(y)
        if output.dim() != 2 or output.shape[1] != wanted:
            raise BadInput(
                f"Heteroscedastic needs a mean and a scale for each outcome, [n, {wanted}], the module gives "
                f"{list(output.shape)}"
            )


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts, by the logarithm of their rate.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> likelihoods.Poisson().distribution(torch.zeros(1), {}).mean
        tensor([1.])
    """

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.Poisson(squeezed(output).exp())

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        y = shaped_like(y, output).to(output.dtype)
        log_rate = squeezed(output)
        terms = y * log_rate - log_rate.exp() - torch.lgamma(y + 1)
        return per_example(terms)

    def check(self, output: Tensor, y: Tensor) -> None:
        super().check(output, y)
        refuse((y < 0) | (y != y.round()), y, "Poisson needs counts 0, 1, 2, …")


def _highest(likelihood: Likelihood, y: Tensor) -> float:
    """The log density at its peak, and a little more: terms are rounded, in float32 perhaps."""
    nought = torch.zeros(1, dtype=torch.float64)
    peak = outcomes_each(y) * likelihood.distribution(nought, {}).log_prob(nought).item()
    return peak + 1e-5 * (outcomes_each(y) + abs(peak))
