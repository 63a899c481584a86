"""Layers whose output is not a function of the parameters and one example: what they do to exactness.

The one list of them, for posteriors and for training loops alike.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.dropout import _DropoutNd  # pyright: ignore[reportPrivateUsage]


def restless_layers(module: nn.Module | None) -> Iterator[tuple[str, nn.Module]]:
    """Layers that normalise over the batch, or throw dice, in training mode at least.

    Example:
        >>> from torch import nn
        >>> from ggmc.bayes.random_layers import restless_layers
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Dropout(0.0))
        >>> [name for name, _ in restless_layers(net)]
        ['1', '2']
    """
    for name, layer in module.named_modules() if module is not None else ():
        dice = (isinstance(layer, _DropoutNd) and layer.p > 0) or isinstance(layer, nn.RReLU)
        dice = dice or (isinstance(layer, nn.RNNBase | nn.MultiheadAttention) and layer.dropout > 0)
        if dice or isinstance(layer, _BatchNorm):
            yield name, layer


def restless_now(layer: nn.Module) -> bool:
    """Whether such a layer's present mode voids a test: training, or BatchNorm that has no statistics to fall back on.

    Example:
        >>> from torch import nn
        >>> from ggmc.bayes.random_layers import restless_now
        >>> restless_now(nn.Dropout()), restless_now(nn.Dropout().eval())
        (True, False)
        >>> restless_now(nn.BatchNorm1d(2, track_running_stats=False).eval())
        True
    """
    return layer.training or (isinstance(layer, _BatchNorm) and layer.running_mean is None)


def normalises_over_batch(layer: nn.Module) -> bool:
    """Whether it is BatchNorm, of whatever dimension."""
    return isinstance(layer, _BatchNorm)
