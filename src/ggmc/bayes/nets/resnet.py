"""ResNet-20 (He et al., CVPR 2016), and by name the three forms in which it was sampled and published.

A 3×3 convolution to 16 channels, three stacks of three blocks with 16, 32 and 64 channels, the mean over the image, and
a linear layer. A block adds to its input what two 3×3 convolutions make of it:

    y = outer activation(shortcut(x) + norm(conv(activation(norm(conv(x))))))

The shortcut is x itself, except in the first block of stacks two and three, which halves the image: there it is a 1×1
convolution with a norm. Convolutions have biases. Those that halve the image put one zero on each side of it, where
TensorFlow and JAX put it on one side only.

| form          | norm                   | stem and inside blocks | after additions | parameters | exact |
|---------------|------------------------|------------------------|-----------------|------------|-------|
| `"batchnorm"` | BatchNorm              | ReLU                   | ReLU            | 273,258    | no    |
| `"frn"`       | FRN with its threshold | ReLU                   | TLU             | 274,378    | yes   |
| `"frn-swish"` | FRN with its threshold | swish                  | swish           | 274,042    | yes   |

- `"batchnorm"`: Garriga-Alonso & Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", AABI 2020.
- `"frn"`: Wenzel et al., "How Good is the Bayes Posterior in Deep Neural Networks Really?", ICML 2020.
- `"frn-swish"`: Izmailov et al., "What Are Bayesian Neural Network Posteriors Really Like?", ICML 2021.

In the code of the last two, every FRN layer ends in a learnt threshold, max(y, τ), those before an addition too; the
activation comes after it. So the form with swish is not quite smooth: `ResNet20(norm="frn", activation="swish")` is.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from ggmc.bayes.nets.normalisation import TLU, FilterResponseNorm, group_norm
from ggmc.errors import BadInput, require_count

NORMS = ("frn", "frn-tlu", "group", "batch", None)
ACTIVATIONS = ("tlu", "relu", "swish")


class _Form(NamedTuple):
    norm: str
    activation: str
    outer_activation: str


FORMS = {
    "batchnorm": _Form("batch", "relu", "relu"),
    "frn": _Form("frn-tlu", "relu", "tlu"),
    "frn-swish": _Form("frn-tlu", "swish", "swish"),
}


def resnet20(form: str, classes: int = 10, channels_in: int = 3) -> ResNet20:
    """ResNet-20 as it was published, by name.

    Args:
        form: "batchnorm" (Garriga-Alonso & Fortuin 2020: BatchNorm and ReLU, 273,258 parameters; in training mode an
            example depends on the others in its batch, so it runs with `adjust=False` only), "frn" (Wenzel et al. 2020:
            FRN with its threshold, ReLU inside blocks, TLU after additions, 274,378 parameters; can be sampled exactly)
            or "frn-swish" (Izmailov et al. 2021: FRN with its threshold, swish, 274,042 parameters; can be sampled
            exactly). The numbers are for ten classes and three channels.
        classes: The number of outputs. Default 10.
        channels_in: The channels of the images. Default 3.

    Returns:
        A net for images [n, channels_in, H, W], with logits [n, classes].

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> [sum(p.numel() for p in nets.resnet20(form).parameters()) for form in ("batchnorm", "frn", "frn-swish")]
        [273258, 274378, 274042]
        >>> nets.resnet20("frn", classes=7)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 7])
    """
    if form not in FORMS:
        raise BadInput(f"form must be one of {list(FORMS)}, got {form!r}")
    norm, activation, outer = FORMS[form]
    return ResNet20(classes, norm, activation, channels_in, outer_activation=outer)


class ResNet20(nn.Module):
    """ResNet-20 for images [n, channels_in, H, W], with logits [n, classes], in forms of one's own choice.

    Convolutions and the linear layer start from He's normal distribution (variance 2 / fan-in), biases from zero.
    The published forms are `ggmc.nets.resnet20`.

    Args:
        classes: The number of outputs. Default 10.
        norm: "frn" (`FilterResponseNorm`, the default), "frn-tlu" (the same with a threshold of its own, `TLU`),
            "group", "batch" or None. BatchNorm in training mode makes an example depend on the others in its batch, so
            it cannot be sampled exactly.
        activation: "tlu", "relu" or "swish". Default: the learnt threshold (`TLU`) with "frn", else ReLU.
        channels_in: The channels of the images. Default 3.
        outer_activation: Likewise, after the addition that ends a block. Default: as `activation`, which is then that
            of the stem and inside blocks only.

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
        self,
        classes: int = 10,
        norm: str | None = "frn",
        activation: str | None = None,
        channels_in: int = 3,
        *,
        outer_activation: str | None = None,
    ):
        super().__init__()
        require_count("classes", classes)
        require_count("channels_in", channels_in)
        if norm not in NORMS:
            raise BadInput(f"norm must be one of {list(NORMS)}, got {norm!r}")
        if activation is None:
            activation = "tlu" if norm == "frn" else "relu"
        outer = activation if outer_activation is None else outer_activation
        for name, given, default in (
            ("activation", activation, "the norm's own"),
            ("outer_activation", outer, "the same as activation"),
        ):
            if given not in ACTIVATIONS:
                raise BadInput(f"{name} must be one of {list(ACTIVATIONS)}, or None for {default}, got {given!r}")
        self.stem = nn.Sequential(
            nn.Conv2d(channels_in, 16, 3, padding=1), _norm(norm, 16), _activation(activation, 16)
        )
        self.stacks = nn.Sequential(
            _stack(16, 16, 1, norm, activation, outer),
            _stack(16, 32, 2, norm, activation, outer),
            _stack(32, 64, 2, norm, activation, outer),
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
    def __init__(self, channels_in: int, channels: int, stride: int, norm: str | None, activation: str, outer: str):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1)
        self.norm1 = _norm(norm, channels)
        self.activation1 = _activation(activation, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm2 = _norm(norm, channels)
        self.activation2 = _activation(outer, channels)
        self.shortcut = (
            nn.Identity()
            if stride == 1
            else nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride), _norm(norm, channels))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation1(self.norm1(self.conv1(x)))
        return self.activation2(self.shortcut(x) + self.norm2(self.conv2(y)))


def _stack(
    channels_in: int, channels: int, stride: int, norm: str | None, activation: str, outer: str
) -> nn.Sequential:
    return nn.Sequential(
        _Block(channels_in, channels, stride, norm, activation, outer),
        _Block(channels, channels, 1, norm, activation, outer),
        _Block(channels, channels, 1, norm, activation, outer),
    )


def _norm(name: str | None, channels: int) -> nn.Module:
    if name == "frn":
        return FilterResponseNorm(channels)
    if name == "frn-tlu":
        return nn.Sequential(FilterResponseNorm(channels), TLU(channels))
    if name == "group":
        return group_norm(channels)
    return nn.BatchNorm2d(channels) if name == "batch" else nn.Identity()


def _activation(name: str, channels: int) -> nn.Module:
    if name == "tlu":
        return TLU(channels)
    return nn.SiLU() if name == "swish" else nn.ReLU()
