"""Priors: the distribution of one named weight tensor of a module.

A prior describes the *value* that a chain moves, which is the weight itself except where a scale is unknown too: then
the weight is a scale times the value (`decode`), and the scales are the prior's `latents`. Every density is normalised.
A new one is a `Prior`, or an `Elementwise` where all weights are alike, exported here.

Example:
    >>> import torch
    >>> from ggmc.bayes import priors
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    >>> _ = net(torch.zeros(1, 3, 8, 8))
    >>> wanted = {
    ...     "*.bias": priors.Gaussian(1.0),
    ...     torch.nn.Conv2d: priors.CorrelatedFilters(1.0),
    ...     "*": priors.Horseshoe(0.1),
    ... }
    >>> for name, prior in priors.assign(wanted, dict(net.named_parameters()), net).items():
    ...     print(f"{name:9}", prior)
    0.weight  CorrelatedFilters(scale=1.0, length_scale=1.0, fan_in=False)
    0.bias    Gaussian(scale=1.0, fan_in=False, loc=0.0)
    2.weight  Horseshoe(scale=0.1)
    2.bias    Gaussian(scale=1.0, fan_in=False, loc=0.0)
"""

from ggmc.bayes.priors.assign import as_prior, assign
from ggmc.bayes.priors.correlated_filters import CorrelatedFilters
from ggmc.bayes.priors.families import Cauchy, Gaussian, GeneralisedNormal, Improper, Laplace, Of, StudentT
from ggmc.bayes.priors.generalised_normal import GeneralisedNormalDistribution
from ggmc.bayes.priors.mixture import Mixture
from ggmc.bayes.priors.prior import Elementwise, Prior, fan_in_of, total_log_prob
from ggmc.bayes.priors.scales import Hierarchical, Horseshoe

__all__ = [
    "Cauchy",
    "CorrelatedFilters",
    "Elementwise",
    "Gaussian",
    "GeneralisedNormal",
    "GeneralisedNormalDistribution",
    "Hierarchical",
    "Horseshoe",
    "Improper",
    "Laplace",
    "Mixture",
    "Of",
    "Prior",
    "StudentT",
    "as_prior",
    "assign",
    "fan_in_of",
    "total_log_prob",
]
