"""What a gradient field gives over all of its batches, or over a pass of a fresh tape."""

from __future__ import annotations

import torch
from torch import Tensor

from ggmc.guides import GradientField


def over_all_batches(field: GradientField, position: Tensor) -> Tensor:
    """Every batch's gradient, by its number: [batches, chains, d]."""
    return torch.stack([field(position, torch.full((len(position),), j))[0] for j in range(field.epoch)])


def over_a_pass(field: GradientField, position: Tensor, seed: int = 0) -> Tensor:
    """The gradients at the same position of the first pass of a fresh tape of one sweep: [batches, chains, d]."""
    tape = field.tape(field.sweep, len(position), torch.Generator().manual_seed(seed))
    assert tape is not None
    return torch.stack([field(position, entry)[0] for entry in tape[: field.epoch]])
