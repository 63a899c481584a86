"""What a likelihood is, and any function as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from ggmc.bayes.likelihoods.outcomes import per_example, shaped_like, squeezed
from ggmc.errors import BadInput

Latents = dict[str, Tensor]


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
