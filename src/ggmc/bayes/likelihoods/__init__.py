"""Likelihoods: what is observed, given a module's output.

Each turns an output into a `torch.distributions` distribution of the outcome, one per example. Where the scale of the
noise is unknown too, it is one more unknown of the posterior, named "noise". A new one is a `Likelihood`, exported
here; an entry in `NAMES` makes it known by a word.

Example:
    >>> import torch
    >>> from ggmc.bayes import likelihoods
    >>> logits, labels = torch.zeros(2, 10), torch.tensor([3, 7])
    >>> likelihoods.Categorical().log_prob(logits, labels, {})          # log 1/10
    tensor([-2.3026, -2.3026])
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

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

NAMES: dict[str, type[Likelihood]] = {
    "categorical": Categorical,
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "heteroscedastic": Heteroscedastic,
    "poisson": Poisson,
    "student-t": StudentT,
}


def as_likelihood(given: Likelihood | str | Callable[[Tensor, Tensor], Tensor]) -> Likelihood:
    """A likelihood from itself, its name, or any function of output and outcomes.

    Args:
        given: A likelihood; one of the names "categorical", "bernoulli", "gaussian", "heteroscedastic", "poisson" and
            "student-t"; or a function of output and outcomes that returns the log likelihood of each example, [n].

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
        return Given(given)
    raise BadInput(
        f"likelihood must be one of {', '.join(NAMES)}, an object from ggmc.likelihoods, or a function of output and "
        f"y, got {given!r}"
    )
