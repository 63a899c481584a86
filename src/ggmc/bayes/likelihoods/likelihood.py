"""What a likelihood is, and any function as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Distribution

from ggmc.bayes.likelihoods.outcomes import per_example, shaped_like, squeezed
from ggmc.errors import BadInput

Latents = dict[str, Tensor]


class Likelihood(ABC):
    """The distribution of each example's outcome, given the module's output. A new one needs `distribution`.

    All methods but `check` and `bound` run under `torch.func.vmap` and must not branch on values.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> class Exponential(likelihoods.Likelihood):
        ...     def distribution(self, output, latents):
        ...         return torch.distributions.Exponential(output[..., 0].exp())
        >>> Exponential().log_prob(torch.zeros(2, 1), torch.tensor([1.0, 2.0]), {})
        tensor([-1., -2.])
    """

    classifies: ClassVar[bool] = False
    """Whether outcomes are classes, so that predictions are probabilities."""

    predicts: ClassVar[bool] = True
    """Whether `distribution` is known, so that outcomes can be drawn and predictions scored."""

    def latents(self) -> dict[str, Distribution]:
        """Further unknowns, by name, each with its prior distribution. By default none."""
        return {}

    @abstractmethod
    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        """The distribution of the outcomes.

        Args:
            output: The module's output, [..., n, outputs] or [n].
            latents: The unknowns of `latents`, by name.

        Returns:
            A distribution of batch shape [..., n], or [..., n, k] for k outcomes of each example.
        """

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        """The log likelihood of each example, summed over its outcomes where there are several.

        Args:
            output: The module's output, [n, outputs] or [n].
            y: The outcomes, [n] or [n, k].
            latents: The unknowns of `latents`, by name.

        Returns:
            One term per example, [n].
        """
        terms = self.distribution(output, latents).log_prob(shaped_like(y, output))
        return per_example(terms)

    def class_probabilities(self, output: Tensor, latents: Latents) -> Tensor:
        """The probability of each class, along the last dimension; of 0 and 1, in this order, for a Bernoulli outcome.

        Args:
            output: The module's output, as in `distribution`.
            latents: The unknowns of `latents`, by name.
        """
        distribution = self.distribution(output, latents)
        if isinstance(distribution, Bernoulli):
            return torch.stack([1 - distribution.probs, distribution.probs], -1)
        if isinstance(distribution, Categorical):
            return distribution.probs
        raise BadInput(
            f"the outcomes of {type(self).__name__} are not classes: class probabilities need a Bernoulli or "
            f"Categorical distribution, got {type(distribution).__name__}"
        )

    def bound(self, y: Tensor) -> float | None:
        """An upper bound of every example's term, or None. By default 0 for classes, whose terms are probabilities.

        Args:
            y: Outcomes of the shape of the data's, [n, ...]; only the shape is used.
        """
        return 0.0 if self.classifies else None

    def noise_to_learn(self) -> Distribution | None:
        """The prior of a noise that is found by optimisation before sampling, or None if there is none to find."""
        return None

    def with_noise(self, noise: float | Distribution) -> Likelihood:
        """The same likelihood with another noise.

        Args:
            noise: A known scale, or its prior.
        """
        raise BadInput(f"{type(self).__name__} has no noise to set: use likelihoods.Gaussian or likelihoods.StudentT")

    def check(self, output: Tensor, y: Tensor) -> None:
        """Raise `BadInput` for outputs and outcomes that do not fit together. By default: one output per outcome.

        Args:
            output: The module's output for the first few examples.
            y: The outcomes of all examples.
        """
        if squeezed(output).shape[1:] != shaped_like(y, output).shape[1:]:
            raise BadInput(
                f"{type(self).__name__} needs one output per outcome: the module gives {list(output.shape[1:])} for "
                f"each example, but y has {list(y.shape[1:])}"
            )


@dataclass(frozen=True)
class Given(Likelihood):
    """Any function as a likelihood. Outcomes cannot be predicted from it, only outputs.

    Args:
        terms: A function of output and outcomes that returns the log likelihood of each example, [n].
        upper_bound: A number that no term exceeds, if one is known. With it a test can stop early. Default None.

    Example:
        >>> import torch
        >>> from ggmc.bayes import likelihoods
        >>> absolute = likelihoods.Given(lambda output, y: -(output[:, 0] - y).abs(), upper_bound=0.0)
        >>> absolute.log_prob(torch.zeros(1, 1), torch.ones(1), {})
        tensor([-1.])
    """

    predicts = False

    terms: Callable[[Tensor, Tensor], Tensor]
    upper_bound: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.terms):
            raise BadInput(f"a likelihood given as a function must be one of output and y, got {self.terms!r}")
        if self.upper_bound is not None and not isinstance(self.upper_bound, float | int):
            raise BadInput(f"upper_bound must be a number, got {self.upper_bound!r}")

    def distribution(self, output: Tensor, latents: Latents) -> Distribution:
        raise BadInput(
            "a likelihood given as a function has no distribution of outcomes to predict from: subclass "
            "likelihoods.Likelihood and write `distribution`"
        )

    def log_prob(self, output: Tensor, y: Tensor, latents: Latents) -> Tensor:
        return self.terms(output, y)

    def bound(self, y: Tensor) -> float | None:
        return self.upper_bound

    def check(self, output: Tensor, y: Tensor) -> None:
        found: object = self.terms(output, y[: len(output)])
        if not isinstance(found, Tensor) or found.shape != (len(output),):
            shape = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise BadInput(f"the likelihood must return one term per example, [{len(output)}], got {shape}")
