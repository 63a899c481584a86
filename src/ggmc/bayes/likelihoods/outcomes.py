"""Checks of outcomes against outputs: their shapes, and the message for the first one that does not fit."""

from __future__ import annotations

import torch
from torch import Tensor

from ggmc.errors import BadInput


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


def refuse_truths(likelihood: object, y: Tensor) -> None:
    """Refuse True and False where real numbers are wanted."""
    if y.dtype == torch.bool:
        name = type(likelihood).__name__
        raise BadInput(f"{name} needs numbers as outcomes, got torch.bool: use likelihoods.Bernoulli, or y.double()")


def refuse(bad: Tensor, y: Tensor, wanted: str) -> None:
    """Raise `BadInput` if `bad` is true anywhere, and name the first row where it is."""
    if bad.any():
        row = int(bad.nonzero()[0, 0])
        raise BadInput(f"{wanted}, got {y[row].tolist()} in row {row}")
