"""Norms that use each example alone, and the replacement of BatchNorm by one of them.

BatchNorm in training mode divides by statistics of the batch, so an example's log likelihood depends on the others in
its batch, and the potential is not a sum over examples. Filter response normalisation (Singh & Krishnan, CVPR 2020)
takes the statistics from the example alone: for each example and channel, over the spatial dimensions,

    ν² = mean of x²,    y = γ x / √(ν² + ε) + β,    z = max(y, τ)

with γ, β and τ learnt for each channel. `FilterResponseNorm` gives y, `TLU` (the thresholded linear unit) gives z. As
the mean is not subtracted, y may be far from zero, which is what the learnt threshold τ is for.
"""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

from ggmc.errors import BadInput, require_count, require_positive

NORMS = ("frn", "group")

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
LAZY_BATCH_NORMS = (nn.LazyBatchNorm1d, nn.LazyBatchNorm2d, nn.LazyBatchNorm3d)


class FilterResponseNorm(nn.Module):
    """y = γ x / √(ν² + ε) + β, where ν² is the mean of x² over the spatial dimensions of one example and channel.

    Inputs are [n, channels, ...] with one spatial dimension or more, and at least two values in each channel: of a
    single value only its sign would be left. γ and β are called `weight` and `bias`, as in BatchNorm, and start at one
    and zero.

    Args:
        channels: The number of channels.
        eps: ε, positive. Default 1e-6.
        affine: Whether there are γ and β. Default True.

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> norm = nets.FilterResponseNorm(2)
        >>> norm(torch.tensor([[[1.0, 7.0], [0.3, -0.4]]]))          # one example, two channels of two values
        tensor([[[ 0.2000,  1.4000],
                 [ 0.8485, -1.1314]]], grad_fn=<AddBackward0>)
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, channels: int, eps: float = 1e-6, affine: bool = True):
        super().__init__()
        require_count("channels", channels)
        require_positive("eps", eps)
        self.channels, self.eps = channels, eps
        self.register_parameter("weight", nn.Parameter(torch.ones(channels)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(channels)) if affine else None)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[1] != self.channels:
            raise BadInput(f"this FilterResponseNorm takes [n, {self.channels}, ...], got shape {list(x.shape)}")
        if x.shape[2:].numel() < 2:
            raise BadInput(
                f"FilterResponseNorm needs more than one value per channel, got shape {list(x.shape)}: use GroupNorm "
                "there, as in replace_batchnorm(net, norm='group') or ResNet20(norm='group')"
            )
        scale = (x.square().mean(tuple(range(2, x.dim())), keepdim=True) + self.eps).rsqrt()
        if self.weight is not None:
            scale = scale * per_channel(self.weight, x)  # γ goes into the small factor: one pass over x less
        return x * scale if self.bias is None else x * scale + per_channel(self.bias, x)

    def extra_repr(self) -> str:
        return f"{self.channels}, eps={self.eps}, affine={self.weight is not None}"


class TLU(nn.Module):
    """The thresholded linear unit, max(y, τ), with τ learnt for each channel; it starts at τ = 0, as ReLU.

    Args:
        channels: The number of channels of its inputs [n, channels, ...].

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> unit = nets.TLU(2)
        >>> unit.threshold.data = torch.tensor([-1.0, 1.0])
        >>> unit(torch.tensor([[-3.0, -3.0], [2.0, 2.0]]))
        tensor([[-1.,  1.],
                [ 2.,  2.]], grad_fn=<AddBackward0>)
    """

    threshold: nn.Parameter

    def __init__(self, channels: int):
        super().__init__()
        require_count("channels", channels)
        self.threshold = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[1] != len(self.threshold):
            raise BadInput(f"TLU takes [n, {len(self.threshold)}, ...], got shape {list(x.shape)}")
        # max(x, τ) up to rounding: torch.maximum gives the same, but its gradient takes several times as long.
        threshold = per_channel(self.threshold, x)
        return torch.relu(x - threshold) + threshold

    def extra_repr(self) -> str:
        return str(len(self.threshold))


def per_channel(values: Tensor, x: Tensor) -> Tensor:
    """One value per channel in a shape that broadcasts against x = [n, channels, ...]."""
    return values.reshape(-1, *(1 for _ in range(x.dim() - 2)))


def group_norm(channels: int, eps: float = 1e-5, affine: bool = True) -> nn.GroupNorm:
    """GroupNorm with as many groups, up to 32, as allow four channels or more in each.

    A group of one channel would be instance normalisation, under which a channel's mean no longer matters.

    Args:
        channels: The number of channels.
        eps: What is added to the variance. Default 1e-5.
        affine: Whether there are a weight and a bias. Default True.

    Example:
        >>> from ggmc.bayes.nets.normalisation import group_norm
        >>> [group_norm(channels).num_groups for channels in (3, 16, 64, 50, 256)]
        [1, 4, 16, 10, 32]
    """
    groups = max(g for g in range(1, 33) if channels % g == 0 and (channels >= 4 * g or g == 1))
    return nn.GroupNorm(groups, channels, eps=eps, affine=affine)


def replace_batchnorm(module: nn.Module, norm: str = "frn") -> nn.Module:
    """A deep copy of a module with every BatchNorm replaced by a norm that uses each example alone.

    γ and β are kept, as are device, dtype and what is shared or frozen; running means and variances are dropped, so a
    trained net has to be trained again. The net keeps its own activations: FRN comes without its `TLU`.

    Args:
        module: The module; it is not changed.
        norm: "frn" (`FilterResponseNorm`, the default) or "group" (`nn.GroupNorm` with four channels or more in each
            group). With either, BatchNorm1d becomes GroupNorm with a single group: it mostly follows a linear layer,
            whose outputs [n, channels] have no spatial dimensions for FRN to average over. SyncBatchNorm is replaced
            as if it were BatchNorm2d.

    Example:
        >>> from torch import nn
        >>> from ggmc.bayes import nets
        >>> net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
        >>> nets.replace_batchnorm(net)[1]
        FilterResponseNorm(16, eps=1e-06, affine=True)
        >>> nets.replace_batchnorm(net, norm="group")[1].num_groups
        4
    """
    if norm not in NORMS:
        raise BadInput(f"norm must be one of {list(NORMS)}, got {norm!r}")
    if not isinstance(module, nn.Module):
        raise BadInput(f"module must be a torch.nn.Module, got {type(module).__name__}")
    for name, layer in module.named_modules():
        _check_replaceable(name, layer)
    copy = deepcopy(module)
    if isinstance(copy, BATCH_NORMS):
        return _replacement(copy, norm)
    old = [layer for layer in copy.modules() if isinstance(layer, BATCH_NORMS)]
    replacements: dict[nn.Module, nn.Module] = {layer: _replacement(layer, norm) for layer in old}
    # With duplicates: a shared layer has several names, and its replacement must go under all of them.
    for name, layer in list(copy.named_modules(remove_duplicate=False)):
        if layer in replacements:
            copy.set_submodule(name, replacements[layer])
    return copy


def _check_replaceable(name: str, layer: nn.Module) -> None:
    where = f"{type(layer).__name__} {name!r}" if name else f"this {type(layer).__name__}"
    if isinstance(layer, LAZY_BATCH_NORMS):
        raise BadInput(f"{where} does not know its channels yet: run one batch through the net first")
    if isinstance(layer, nn.BatchNorm1d) and layer.num_features == 1:
        raise BadInput(
            f"{where} has one channel: normalised within each example, a single value is always zero. Remove "
            "the layer (nn.Identity), or use FilterResponseNorm(1) there if its input has a length"
        )


def _replacement(old: nn.Module, norm: str) -> nn.Module:
    assert isinstance(old, BATCH_NORMS)
    channels, affine = old.num_features, old.affine
    if isinstance(old, nn.BatchNorm1d):
        new = nn.GroupNorm(1, channels, eps=old.eps, affine=affine)
    elif norm == "group":
        new = group_norm(channels, eps=old.eps, affine=affine)
    else:
        new = FilterResponseNorm(channels, affine=affine)
    # The parameters themselves, not their values: device, dtype, requires_grad and ties to other layers come along.
    new.weight, new.bias = old.weight, old.bias
    return new.train(old.training)
