"""A fully connected net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from ggmc.errors import BadInput, require_count


class MLP(nn.Module):
    """Linear layers with an activation between each two.

    Inputs [n, ...] are flattened from their second dimension on, so images need no reshaping. Outputs are [n, outputs];
    a single output keeps its dimension, [n, 1]. Weights start as in torch's own linear layers.

    Args:
        sizes: The sizes of the inputs, any hidden layers and the outputs. Two sizes make a linear model.
        activation: What makes an activation module when called, such as `nn.Tanh`. Default `nn.ReLU`.

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> net = nets.MLP([13, 50, 10])
        >>> net(torch.randn(8, 13)).shape
        torch.Size([8, 10])
        >>> [name for name, _ in net.named_parameters()]
        ['layers.0.weight', 'layers.0.bias', 'layers.1.weight', 'layers.1.bias']
    """

    def __init__(self, sizes: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU):
        super().__init__()
        if not isinstance(sizes, Sequence) or isinstance(sizes, str) or len(sizes) < 2:
            raise BadInput(f"sizes must be those of the inputs, any hidden layers and the outputs, got {sizes!r}")
        for size in sizes:
            require_count("each of sizes", size)
        if isinstance(activation, nn.Module) or not callable(activation):
            raise BadInput(f"activation must be what makes a module when called, such as nn.Tanh, got {activation!r}")
        self.layers = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(sizes))
        self.activations = nn.ModuleList(activation() for _ in sizes[1:-1])

    def forward(self, inputs: Tensor) -> Tensor:
        if inputs.dim() < 2:
            raise BadInput(
                f"MLP takes one row per example, [n, ...], got inputs of shape {list(inputs.shape)}: add a dimension "
                "with inputs[:, None] or inputs[None]"
            )
        x = self.layers[0](inputs.flatten(1))
        for activation, layer in zip(self.activations, self.layers[1:], strict=True):
            x = layer(activation(x))
        return x
