"""Outcomes beside outputs: their shapes, their noise, and what is refused of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, LogNormal

from ggmc.errors import BadInput, require_positive


def check_noise(noise: Any) -> None:
    """Refuse what is no noise: neither a positive number, nor the law of one, nor "learnt"."""
    if isinstance(noise, Distribution):
        if noise.batch_shape or noise.event_shape:
            raise BadInput(f"the law of the noise must be of one number, got {noise}")
        if not noise.support.check(torch.tensor(-1.0)):  # pyright: ignore[reportOptionalMemberAccess]
            return
        raise BadInput(f"the law of the noise must be positive, such as HalfNormal(1.0), got {noise}")
    if isinstance(noise, str):
        if noise != "learnt":
            raise BadInput(f'noise must be a positive number, a torch law of it, or "learnt", got {noise!r}')
        return
    require_positive("noise", noise)


def latent_noise(noise: Any) -> dict[str, Distribution]:
    """The unknown noise with its law, where it is unknown."""
    if isinstance(noise, Distribution):
        return {"noise": noise}
    return {"noise": LogNormal(0.0, 3.0)} if noise == "learnt" else {}


def noise_scale(noise: Any, output: Tensor, latents: dict[str, Tensor]) -> Tensor:
    """The noise as a tensor."""
    return latents["noise"] if "noise" in latents else torch.full((), noise, dtype=output.dtype, device=output.device)


def outcomes_each(y: Tensor) -> int:
    """How many numbers each example has."""
    return y[0].numel()


def per_example(terms: Tensor) -> Tensor:
    """One term for each example, summed over its outcomes: [n, ...] as [n]."""
    return terms.flatten(1).sum(1) if terms.dim() > 1 else terms


def squeezed(output: Tensor) -> Tensor:
    """[n, 1] as [n]."""
    return output.squeeze(-1) if output.dim() > 1 and output.shape[-1] == 1 else output


def shaped_like(y: Tensor, output: Tensor) -> Tensor:
    """Outcomes in the shape of the output: [n] and [n, 1] must never be broadcast against each other."""
    return squeezed(y) if y.dim() > 1 and squeezed(output).dim() == 1 else y


def refuse(bad: Tensor, y: Tensor, wanted: str) -> None:
    """Refuse outcomes where `bad` is true, and name the first."""
    if bad.any():
        row = int(bad.nonzero()[0, 0])
        raise BadInput(f"{wanted}, got {y[row].tolist()} in row {row}")
