"""Nets to try, and plain references."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ggmc.bayes.nets import ResNet20


def count(net: nn.Module) -> int:
    """The number of parameters."""
    return sum(p.numel() for p in net.parameters())


def shaken(net: nn.Module) -> nn.Module:
    """Biases, norms and thresholds moved away from zeros and ones, which would hide what is left out."""
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return net


def resnet(**settings: Any) -> nn.Module:
    """A float64 ResNet-20, shaken."""
    return shaken(ResNet20(**settings).double())


def plain_frn(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Filter response normalisation, the long way."""
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            values = x[i, c]
            out[i, c] = weight[c] * values / math.sqrt((values**2).sum() / values.numel() + eps) + bias[c]
    return out
