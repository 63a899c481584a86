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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution
from torch.nn import functional

from ggmc.bayes.outcomes import (
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

Latents = dict[str, Tensor]

LEAST_SCALE = 1e-4  # below it a heteroscedastic scale is no scale but a spike in the likelihood


class Likelihood:
    """One law per example. Subclasses say which; what is shared is said here.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> class Exponential(likelihoods.Likelihood):
        ...     def distribution(self, output, latents):
        ...         return torch.distributions.Exponential(output[..., 0].exp())
        >>> Exponential().log_prob(torch.zeros(2, 1), torch.tensor([1.0, 2.0]), {})
        tensor([-1., -2.])
    """

    classifies: bool = False
    """Whether outcomes are classes, so that predictions are probabilities."""

    def latents(self) -> dict[str, Distribution]:
        """Further unknowns, by name, each with its prior law."""
        return {}

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        """The law of the outcome: batch shape [..., n], or [..., n, k] for k outcomes of one example."""
        raise NotImplementedError

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        """One term per example, [n]."""
        terms = self.distribution(output, latents).log_prob(shaped_like(y, output))
        return per_example(terms)

    def bound(self, y: Tensor) -> float | None:
        """An upper bound of every term, where there is a useful one."""
        return 0.0 if self.classifies else None

    def check(self, output: Tensor, y: Tensor) -> None:
        """Refuse outputs of another shape than the outcomes; `y` is all of them."""
        if squeezed(output).shape[1:] != shaped_like(y, output).shape[1:]:
            raise BadInput(
                f"{type(self).__name__} needs one output per outcome: the module gives {list(output.shape[1:])} for "
                f"each example, but y has {list(y.shape[1:])}"
            )


@dataclass(frozen=True)
class Categorical(Likelihood):
    """Classes 0 … C−1, by the logits [n, C].

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> likelihoods.Categorical().distribution(torch.zeros(1, 4), {}).probs
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    classifies = True

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.Categorical(logits=output)

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        # No label is to be ignored: torch's own choice, −100, would pass for an example without a say.
        return -functional.cross_entropy(output, y.long(), reduction="none", ignore_index=-(2**62))

    def check(self, output: Tensor, y: Tensor) -> None:
        if output.dim() != 2 or output.shape[1] < 2:
            raise BadInput(f"Categorical needs logits of shape [n, classes], the module gives {list(output.shape)}")
        if y.dim() != 1 or y.is_floating_point() or y.dtype == torch.bool:
            raise BadInput(
                f"Categorical needs labels of shape [n] and an integer dtype, got {list(y.shape)} of {y.dtype}: "
                "use y.long(), and numbers in place of one-hot rows"
            )
        classes = output.shape[1]
        refuse((y < 0) | (y >= classes), y, f"labels must be 0 … {classes - 1} for a module with {classes} outputs")


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Yes or no, 1 or 0, by one logit each.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> likelihoods.Bernoulli().log_prob(torch.zeros(2, 1), torch.tensor([0, 1]), {})
        tensor([-0.6931, -0.6931])
    """

    classifies = True

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        return distributions.Bernoulli(logits=squeezed(output))

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        y = shaped_like(y, output)
        terms = -functional.binary_cross_entropy_with_logits(squeezed(output), y.to(output.dtype), reduction="none")
        return per_example(terms)

    def check(self, output: Tensor, y: Tensor) -> None:
        super().check(output, y)
        refuse((y != 0) & (y != 1), y, "Bernoulli needs outcomes 0 and 1")


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


@dataclass(frozen=True)
class Given(Likelihood):
    """Any function: `terms(output, y)` gives the log likelihood of each example, [n].

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> absolute = likelihoods.Given(lambda output, y: -(output[:, 0] - y).abs())
        >>> absolute.log_prob(torch.zeros(1, 1), torch.ones(1), {})
        tensor([-1.])
    """

    terms: Callable[[Tensor, Tensor], Tensor]

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        return self.terms(output, y)

    def bound(self, y: Tensor) -> float | None:
        return getattr(self.terms, "bound", None)

    def check(self, output: Tensor, y: Tensor) -> None:
        found: Any = self.terms(output, y[: len(output)])
        if not isinstance(found, Tensor) or found.shape != (len(output),):
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise BadInput(f"the likelihood must return one term per example, [{len(output)}], got {shape}")


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


def _highest(likelihood: Likelihood, y: Tensor) -> float:
    """The log density at its peak, and a little more: terms are rounded, in float32 perhaps."""
    nought = torch.zeros(1, dtype=torch.float64)
    peak = outcomes_each(y) * likelihood.distribution(nought, {}).log_prob(nought).item()
    return peak + 1e-5 * (outcomes_each(y) + abs(peak))
