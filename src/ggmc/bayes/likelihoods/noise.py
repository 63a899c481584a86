"""The noise of a real outcome: known, sampled with the weights, or found by optimisation before sampling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor
from torch.distributions import Distribution, LogNormal

from ggmc.bayes.likelihoods.likelihood import Latents, Likelihood
from ggmc.bayes.likelihoods.outcomes import outcomes_each, refuse_truths
from ggmc.errors import BadInput, require_positive


@dataclass(frozen=True)
class Noisy(Likelihood):
    """What likelihoods with a noise scale share."""

    noise: float | str | Distribution = 1.0

    def __post_init__(self) -> None:
        check_noise(self.noise)

    def latents(self) -> dict[str, Distribution]:
        if isinstance(self.noise, Distribution):
            return {"noise": self.noise}
        prior = self.noise_to_learn()
        return {} if prior is None else {"noise": prior}

    def noise_to_learn(self) -> Distribution | None:
        # A wide prior, so that the optimum is all but that of the likelihood.
        return LogNormal(_constant(0.0), _constant(3.0)) if self.noise == "learnt" else None

    def with_noise(self, noise: float | Distribution) -> Self:
        return replace(self, noise=noise)

    def bound(self, y: Tensor) -> float | None:
        """The log density at its peak, and a little more, since terms are rounded, in float32 perhaps."""
        if isinstance(self.noise, str | Distribution):
            return None
        zero = torch.zeros(1, dtype=torch.float64, device="cpu")
        peak = outcomes_each(y) * self.distribution(zero, {}).log_prob(zero).item()
        return peak + 1e-5 * (outcomes_each(y) + abs(peak))

    def check(self, output: Tensor, y: Tensor) -> None:
        super().check(output, y)
        refuse_truths(self, y)

    def noise_scale(self, output: Tensor, latents: Latents) -> Tensor:
        """The noise as a tensor, in the precision and on the device of the output."""
        if "noise" in latents:
            return latents["noise"]
        if isinstance(self.noise, str | Distribution):
            raise BadInput(f"the noise is unknown, {self.noise}: give its value as latents={{'noise': …}}")
        return torch.full((), float(self.noise), dtype=output.dtype, device=output.device)


def check_noise(noise: object) -> None:
    """Raise `BadInput` for what is neither a positive number, nor a distribution of one, nor "learnt"."""
    if isinstance(noise, Distribution):
        if noise.batch_shape or noise.event_shape:
            raise BadInput(f"the distribution of the noise must be of one number, got {noise}")
        if noise.support.is_discrete:  # pyright: ignore[reportOptionalMemberAccess]
            raise BadInput(f"the distribution of the noise must be continuous, such as HalfNormal(1.0), got {noise}")
        if noise.support.check(_constant(-1.0)):  # pyright: ignore[reportOptionalMemberAccess]
            raise BadInput(f"the distribution of the noise must be positive, such as HalfNormal(1.0), got {noise}")
    elif isinstance(noise, str):
        if noise != "learnt":
            raise BadInput(f'noise must be a positive number, a torch distribution of it, or "learnt", got {noise!r}')
    else:
        require_positive("noise", noise)


def _constant(number: float) -> Tensor:
    return torch.tensor(number, dtype=torch.float64, device="cpu")
