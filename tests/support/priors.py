"""Priors of every family, and tensors to try them on."""

from __future__ import annotations

import scipy.stats
import torch
from torch.distributions import AffineTransform, Gumbel, HalfCauchy, Normal, TransformedDistribution

from ggmc.bayes import priors

MIXTURE = priors.Mixture([0.3, 0.7], [priors.Gaussian(0.1), priors.Laplace(2.0)])

# Each with SciPy's distribution of one element of a tensor without fan-in.
ELEMENTWISE = [
    (priors.Gaussian(0.7), scipy.stats.norm(0, 0.7)),
    (priors.Gaussian(0.7, loc=-1.5), scipy.stats.norm(-1.5, 0.7)),
    (priors.Laplace(1.3), scipy.stats.laplace(0, 1.3)),
    (priors.StudentT(3, 0.4), scipy.stats.t(3, 0, 0.4)),
    (priors.Cauchy(0.2), scipy.stats.cauchy(0, 0.2)),
    (priors.GeneralisedNormal(0.5, 0.3), scipy.stats.gennorm(0.5, 0, 0.3)),
    (priors.GeneralisedNormal(1.5, 2.0), scipy.stats.gennorm(1.5, 0, 2.0)),
    (priors.GeneralisedNormal(8.0), scipy.stats.gennorm(8.0)),
    (priors.Of(Gumbel(0.5, 2.0)), scipy.stats.gumbel_r(0.5, 2.0)),
    (priors.Of(TransformedDistribution(Normal(0.0, 1.0), [AffineTransform(1.0, 2.0)])), scipy.stats.norm(1, 2)),
]
NAMES = [str(prior) for prior, _ in ELEMENTWISE]
SCALED = [
    priors.Gaussian(0.7, fan_in=True),
    priors.Laplace(1.3, fan_in=True),
    priors.StudentT(3, 0.4, fan_in=True),
    priors.Cauchy(0.2, fan_in=True),
    priors.GeneralisedNormal(1.5, 2.0, fan_in=True),
    priors.Of(Gumbel(0.5, 2.0), fan_in=True),
    priors.Mixture([0.5, 0.5], [priors.Gaussian(0.1, fan_in=True), priors.StudentT(2.0, fan_in=True)]),
]
EVERY = [
    *(prior for prior, _ in ELEMENTWISE),
    *SCALED,
    MIXTURE,
    priors.Improper(),
    priors.CorrelatedFilters(0.5, 2.0, fan_in=True),
    priors.Hierarchical(priors.Laplace(), HalfCauchy(1.0), fan_in=True),
    priors.Horseshoe(0.1),
]


def kernel(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Normal numbers, the same at every call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=dtype)


def latents_for(prior, shape: torch.Size, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """A draw of the prior's latents, the same at every call."""
    torch.manual_seed(6)
    return {name: distribution.sample().to(dtype) for name, distribution in prior.latents(shape).items()}
