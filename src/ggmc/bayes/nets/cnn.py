"""A small convolutional net without norms: fast on a CPU, and exact as it is."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ggmc.errors import BadInput, require_count


class CNN(nn.Module):
    """3×3 convolutions with stride 2, each followed by ReLU, then a linear layer.

    Images are [n, channels_in, image, image], outputs are logits [n, classes]. Weights start as in torch's own layers.

    Args:
        channels_in: The channels of the images. Default 1.
        classes: The number of outputs. Default 10.
        image: The height and width of the images: 8 for scikit-learn's digits, the default, 32 for CIFAR.
        widths: The channels of each convolution; each halves the image. Default (16, 32).

    Example:
        >>> import torch
        >>> from ggmc.bayes import nets
        >>> nets.CNN()(torch.randn(4, 1, 8, 8)).shape
        torch.Size([4, 10])
        >>> nets.CNN(channels_in=3, image=32, widths=(16, 32, 64))(torch.randn(4, 3, 32, 32)).shape
        torch.Size([4, 10])
    """

    def __init__(self, channels_in: int = 1, classes: int = 10, image: int = 8, widths: Sequence[int] = (16, 32)):
        super().__init__()
        require_count("channels_in", channels_in)
        require_count("classes", classes)
        require_count("image", image)
        if isinstance(widths, str | int) or not widths:
            raise BadInput(f"widths must be the channels of one convolution or more, got {widths!r}")
        for width in widths:
            require_count("each of widths", width)
        self.shape = (channels_in, image, image)
        self.convolutions = nn.ModuleList()
        for width in widths:
            self.convolutions.append(nn.Conv2d(channels_in, width, 3, stride=2, padding=1))
            channels_in, image = width, -(-image // 2)
        self.activation = nn.ReLU()
        self.linear = nn.Linear(channels_in * image * image, classes)

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or images.shape[1:] != self.shape:
            channels, height, width = self.shape
            raise BadInput(
                f"this CNN takes images [n, {channels}, {height}, {width}], got shape {list(images.shape)}: set "
                "channels_in and image to those of the data"
            )
        x = images
        for convolution in self.convolutions:
            x = self.activation(convolution(x))
        return self.linear(x.flatten(1))
