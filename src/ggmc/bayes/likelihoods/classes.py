"""Outcomes that are classes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, distributions
from torch.distributions import Distribution
from torch.nn import functional

from ggmc.bayes.likelihoods.likelihood import Latents, Likelihood
from ggmc.bayes.likelihoods.outcomes import per_example, refuse, shaped_like, squeezed
from ggmc.errors import BadInput


@dataclass(frozen=True)
class Categorical(Likelihood):
    """One of the classes 0 … C−1; the outputs are their logits, [n, C].

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
        # No label is to be ignored: torch's default, −100, would be taken for an example without any weight.
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
    """Outcomes 1 or 0, yes or no; the output is the logit of 1, one for each outcome.

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
