"""Likelihoods: what is observed, given a module's output.

Each turns an output into a `torch.distributions` law of the outcome, one per example. Where the scale of the noise is
itself unknown, it is one more unknown of the posterior, named "noise".

Example:
    >>> import torch
    >>> from ggmc.bayes import likelihoods
    >>> logits, labels = torch.zeros(2, 10), torch.tensor([3, 7])
    >>> likelihoods.Categorical().log_prob(logits, labels, {})          # log 1/10
    tensor([-2.3026, -2.3026])
"""

from __future__ import annotations

from typing import Any

from ggmc.bayes.likelihoods.classes import Bernoulli, Categorical
from ggmc.bayes.likelihoods.likelihood import Given, Likelihood
from ggmc.bayes.likelihoods.numbers import LEAST_SCALE, Gaussian, Heteroscedastic, Poisson, StudentT
from ggmc.errors import BadInput

__all__ = [
    "LEAST_SCALE",
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Given",
    "Heteroscedastic",
    "Likelihood",
    "Poisson",
    "StudentT",
    "as_likelihood",
]

NAMES = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "heteroscedastic": Heteroscedastic,
    "poisson": Poisson,
    "student-t": StudentT,
}


def as_likelihood(given: Any) -> Likelihood:
    """A likelihood, its name, or any function of output and outcomes.

    Example:
        >>> from ggmc.bayes.likelihoods import as_likelihood
        >>> as_likelihood("poisson")
        Poisson()
    """
    if isinstance(given, Likelihood):
        return given
    if isinstance(given, str) and given in NAMES:
        return NAMES[given]()
    if callable(given) and not isinstance(given, type):
        terms: Any = given
        return Given(terms)
    raise BadInput(
        f"likelihood must be one of {', '.join(NAMES)}, an object from ggmc.likelihoods, or a function of output and "
        f"y, got {given!r}"
    )
