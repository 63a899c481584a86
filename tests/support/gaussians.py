"""Gaussian targets, whose every answer is known."""

from __future__ import annotations

import torch

import ggmc

F64 = torch.float64

CORRELATED = torch.tensor([[1.0, 0.95], [0.95, 1.0]], dtype=F64) * torch.tensor([[1.0, 100.0], [100.0, 1e4]], dtype=F64)


def gaussian(size: int = 2) -> ggmc.Density:
    """N(0, I)."""
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(size, dtype=F64))


def normal(covariance: torch.Tensor) -> ggmc.Density:
    """N(0, covariance)."""
    precision = torch.linalg.inv(covariance)
    return ggmc.Density(lambda x: -(x @ precision @ x) / 2, torch.zeros(len(covariance), dtype=F64))
