"""Networks that can be sampled exactly: what they compute for an example depends on its own input and nothing else.

BatchNorm in training mode makes an example depend on the others in its batch, and random augmentation changes the data
from one call to the next; under either, U is not a function of the parameters alone. Here are nets without them
(`MLP`, `CNN`, `ResNet20`, and `resnet20` for its published forms, of which one has BatchNorm), a norm that uses each
example alone (`FilterResponseNorm`), a function that replaces the BatchNorm of other nets (`replace_batchnorm`), and
augmentation in two exact forms and a random one (`GuideViews`, `FrozenViews`, `FreeViews`).

Example:
    >>> import torch
    >>> from ggmc.bayes import nets
    >>> nets.ResNet20(classes=10)(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 10])
"""

from __future__ import annotations

from ggmc.bayes.nets.augmentation import FreeViews, FrozenViews, GuideViews
from ggmc.bayes.nets.cnn import CNN
from ggmc.bayes.nets.mlp import MLP
from ggmc.bayes.nets.normalisation import TLU, FilterResponseNorm, replace_batchnorm
from ggmc.bayes.nets.resnet import ResNet20, resnet20

__all__ = [
    "CNN",
    "MLP",
    "TLU",
    "FilterResponseNorm",
    "FreeViews",
    "FrozenViews",
    "GuideViews",
    "ResNet20",
    "replace_batchnorm",
    "resnet20",
]
