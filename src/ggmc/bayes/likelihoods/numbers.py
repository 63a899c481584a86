"""Outcomes that are numbers: real ones with noise, and counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution
from torch.nn import functional

from ggmc.bayes.likelihoods.likelihood import Latents, Likelihood
from ggmc.bayes.likelihoods.noise import Noisy
from ggmc.bayes.likelihoods.outcomes import outcomes_each, per_example, refuse, refuse_truths, shaped_like, squeezed
from ggmc.errors import BadInput, require_positive

LEAST_SCALE = 1e-4  # added to a heteroscedastic scale: near zero the likelihood would be a spike


@dataclass(frozen=True)
class Gaussian(Noisy):
    """A real outcome: the output plus normal noise.

    Args:
        noise: The standard deviation of the noise. A positive number is known noise. A torch distribution on positive
            numbers, such as `HalfNormal(1.0)`, is its prior, and the noise is sampled with the weights. "learnt" finds
            the noise by optimisation, with the weights, before sampling, and keeps it fixed. Default 1.

    Example:
        >>> from torch.distributions import HalfNormal
        >>> from ggmc.bayes import likelihoods
        >>> list(likelihoods.Gaussian(noise=HalfNormal(1.0)).latents())
        ['noise']
    """

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.Normal(squeezed(output), self.noise_scale(output, latents))


@dataclass(frozen=True)
class StudentT(Noisy):
    """A real outcome with outliers: the output plus Student-t noise.

    Args:
        noise: The scale of the noise, given as in `Gaussian`. Default 1.
        df: The degrees of freedom, positive: the smaller, the heavier the tails. Default 4.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> far = torch.zeros(1), torch.tensor([10.0])
        >>> bool(likelihoods.StudentT(1.0).log_prob(*far, {}) > likelihoods.Gaussian(1.0).log_prob(*far, {}))
        True
    """

    df: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("df", self.df)

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.StudentT(self.df, squeezed(output), self.noise_scale(output, latents))


@dataclass(frozen=True)
class Heteroscedastic(Likelihood):
    """A real outcome whose noise the module predicts too.

    For k outcomes the module gives 2k outputs: the k means first, then k numbers whose softplus are the scales.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> normal = likelihoods.Heteroscedastic().distribution(torch.tensor([[1.0, 0.0]]), {})
        >>> normal.mean, normal.stddev
        (tensor([1.]), tensor([0.6932]))
    """

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        mean, raw = output.chunk(2, dim=-1)
        return distributions.Normal(squeezed(mean), squeezed(functional.softplus(raw) + LEAST_SCALE))

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        terms = self.distribution(output, latents).log_prob(shaped_like(y, output.chunk(2, dim=-1)[0]))
        return per_example(terms)

    def check(self, output: Tensor, y: Tensor) -> None:
        refuse_truths(self, y)
        wanted = 2 * outcomes_each(y)
        if output.dim() != 2 or output.shape[1] != wanted:
            raise BadInput(
                f"Heteroscedastic needs a mean and a scale for each outcome, [n, {wanted}], the module gives "
                f"{list(output.shape)}"
            )


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts with a Poisson distribution; the output is the logarithm of the rate.

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
