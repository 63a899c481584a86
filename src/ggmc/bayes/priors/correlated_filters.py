"""Convolution kernels whose neighbouring weights are alike.

Trained filters are smooth: Fortuin et al. (2021, "Bayesian neural network priors revisited") find that a normal prior
with spatial correlation suits convolutions better than an independent one.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ggmc.bayes.priors.fields import positive, switch
from ggmc.bayes.priors.prior import NO_LATENTS, Latents, Prior, root_of
from ggmc.errors import BadInput


@dataclass(frozen=True)
class CorrelatedFilters(Prior):
    """Convolution kernels [out, in, *window] whose filters [*window] are independent and multivariate normal.

    Two weights of one filter at Euclidean distance r have the covariance scale² exp(−r/length_scale).

    Args:
        scale: The standard deviation of each weight, positive. Default 1.
        length_scale: The distance, in pixels, at which the correlation is 1/e, positive. Default 1.
        fan_in: Whether to divide the scale by √fan_in, with fan_in = input channels · window size. Default False.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> smooth, rough = torch.ones(1, 1, 3, 3), torch.tensor([[1.0, -1, 1], [-1, 1, -1], [1, -1, 1]])[None, None]
        >>> prior = priors.CorrelatedFilters(scale=1.0, length_scale=2.0)
        >>> prior.log_prob(smooth) > prior.log_prob(rough)
        tensor(True)
        >>> priors.Gaussian(1.0).log_prob(smooth) == priors.Gaussian(1.0).log_prob(rough)
        tensor(True)
    """

    scale: float = positive(1.0)
    length_scale: float = positive(1.0)
    fan_in: bool = switch(False)

    def log_prob(self, value: Tensor, latents: Latents = NO_LATENTS) -> Tensor:
        root, inverse = _roots(tuple(value.shape[2:]), self.length_scale)
        scale = self.scale / root_of(value.shape, self.fan_in)
        filters = value.reshape(-1, len(root))
        whitened = filters @ torch.as_tensor(inverse.T, dtype=value.dtype, device=value.device)
        log_determinant = filters.shape[0] * float(np.log(np.diag(root)).sum())
        normaliser = log_determinant + value.numel() * (math.log(scale) + 0.5 * math.log(2 * math.pi))
        return -0.5 / scale**2 * whitened.square().sum(dtype=torch.float64) - normaliser

    def sample(self, shape: torch.Size, latents: Latents = NO_LATENTS) -> Tensor:
        root, _ = _roots(tuple(shape[2:]), self.length_scale)
        scale = self.scale / root_of(shape, self.fan_in)
        noise = torch.randn(math.prod(shape[:2]), len(root), dtype=torch.float64, device="cpu")
        return scale * (noise @ torch.as_tensor(root.T, device="cpu")).reshape(shape)

    def check(self, name: str, shape: torch.Size) -> None:
        if len(shape) < 3:
            raise BadInput(
                f"CorrelatedFilters is for convolution kernels [out, in, *window], got {name} of shape {tuple(shape)}: "
                'give the other tensors their own prior, as in {"*.bias": priors.Gaussian(1.0), nn.Conv2d: '
                'priors.CorrelatedFilters(), "*": priors.Gaussian(1.0)}'
            )


@functools.lru_cache(maxsize=64)
def _roots(window: tuple[int, ...], length_scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The Cholesky factor of the correlation of a window's weights, and its inverse.

    In NumPy, since a tensor made under vmap or grad must not be kept.
    """
    pixels = np.array(list(itertools.product(*map(range, window))), dtype=float)
    distance = np.linalg.norm(pixels[:, None] - pixels[None], axis=-1)
    root = np.linalg.cholesky(np.exp(-distance / length_scale))
    return root, np.linalg.inv(root)
