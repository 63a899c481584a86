"""ResNet-20, as used in the study of cold posteriors (Wenzel et al., ICML 2020) and of exact Langevin dynamics.

A 3×3 convolution to 16 channels, three stacks of three blocks with 16, 32 and 64 channels, the mean over the image, and
a linear layer. A block adds to its input what two 3×3 convolutions make of it:

    y = activation(shortcut(x) + norm(conv(activation(norm(conv(x))))))

The shortcut is x itself, except in the first block of stacks two and three, which halves the image: there it is a 1×1
convolution with a norm. Convolutions have biases.
"""

from __future__ import annotations

from torch import Tensor, nn

from ggmc.bayes.nets.normalisation import TLU, FilterResponseNorm, group_norm
from ggmc.errors import BadInput, require_count

NORMS = ("frn", "group", "batch", None)
ACTIVATIONS = ("tlu", "relu", "swish")


class ResNet20(nn.Module):
    """ResNet-20 for images [n, channels_in, H, W], with logits [n, classes].

    Convolutions and the linear layer start from He's normal distribution (variance 2 / fan-in), biases from zero.
    `norm="frn", activation="swish"` is the smooth net of Izmailov et al. (ICML 2021).

    Args:
        classes: The number of outputs. Default 10.
        norm: "frn" (`FilterResponseNorm`, the default), "group", "batch" or None. BatchNorm is the original, with
            273,258 parameters for ten classes, but in training mode makes an example depend on the others in its batch,
            so it cannot be sampled exactly.
        activation: "tlu", "relu" or "swish". Default: the learnt threshold (`TLU`) with FRN, else ReLU.
        channels_in: The channels of the images. Default 3.

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> net = nets.ResNet20(norm="frn", activation="swish")
        >>> net(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 10])
        >>> sum(p.numel() for p in net.parameters())
        273258
    """

    def __init__(
        self, classes: int = 10, norm: str | None = "frn", activation: str | None = None, channels_in: int = 3
    ):
        super().__init__()
        require_count("classes", classes)
        require_count("channels_in", channels_in)
        if norm not in NORMS:
            raise BadInput(f"norm must be one of {list(NORMS)}, got {norm!r}")
        if activation is None:
            activation = "tlu" if norm == "frn" else "relu"
        if activation not in ACTIVATIONS:
            raise BadInput(
                f"activation must be one of {list(ACTIVATIONS)}, or None for the norm's own, got {activation!r}"
            )
        self.stem = nn.Sequential(
            nn.Conv2d(channels_in, 16, 3, padding=1), _norm(norm, 16), _activation(activation, 16)
        )
        self.stacks = nn.Sequential(
            _stack(16, 16, 1, norm, activation),
            _stack(16, 32, 2, norm, activation),
            _stack(32, 64, 2, norm, activation),
        )
        self.linear = nn.Linear(64, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        return self.linear(self.stacks(self.stem(images)).mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int, norm: str | None, activation: str):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1)
        self.norm1 = _norm(norm, channels)
        self.activation1 = _activation(activation, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = _norm(norm, channels)
        self.activation2 = _activation(activation, channels)
        self.shortcut = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride), _norm(norm, channels))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation1(self.norm1(self.conv1(x)))
        return self.activation2(self.shortcut(x) + self.norm2(self.conv2(y)))


def _stack(channels_in: int, channels: int, stride: int, norm: str | None, activation: str) -> nn.Sequential:
    return nn.Sequential(
        _Block(channels_in, channels, stride, norm, activation),
        _Block(channels, channels, 1, norm, activation),
        _Block(channels, channels, 1, norm, activation),
    )


def _norm(name: str | None, channels: int) -> nn.Module:
    if name == "frn":
        return FilterResponseNorm(channels)
    if name == "group":
        return group_norm(channels)
    return nn.BatchNorm2d(channels) if name == "batch" else nn.Identity()


def _activation(name: str, channels: int) -> nn.Module:
    if name == "tlu":
        return TLU(channels)
    return nn.SiLU() if name == "swish" else nn.ReLU()
