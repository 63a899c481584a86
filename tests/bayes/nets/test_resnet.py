"""ResNet-20: shapes, counts and formula against plain functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ggmc.bayes.nets import TLU, ResNet20
from ggmc.errors import BadInput
from tests.support.nets import count, resnet


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"norm": "batch"}, 273_258),
        ({"norm": "batch", "activation": "swish"}, 273_258),
        ({"norm": "group"}, 273_258),
        ({"norm": "frn", "activation": "swish"}, 273_258),
        ({"norm": "frn"}, 273_258 + 688),  # a threshold for each channel of stem and blocks
        ({"norm": None}, 273_258 - 2 * (688 + 96)),  # 96 channels in the norms of the two shortcuts
        ({"norm": "batch", "classes": 100}, 273_258 + 90 * 65),
        ({"norm": "batch", "channels_in": 1}, 273_258 - 2 * 9 * 16),
    ],
)
def test_resnet_counts(settings: dict[str, Any], parameters: int) -> None:
    assert count(ResNet20(**settings)) == parameters


def test_resnet_shapes_block_by_block() -> None:
    net, x = ResNet20(), torch.randn(2, 3, 32, 32)
    x = net.stem(x)
    assert x.shape == (2, 16, 32, 32)
    for stack, channels, image in zip(net.stacks, (16, 32, 64), (32, 16, 8), strict=True):
        assert isinstance(stack, nn.Sequential)
        assert len(stack) == 3
        for block in stack:
            x = block(x)
            assert x.shape == (2, channels, image, image)
    assert net(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def plain_resnet(p: Mapping[str, Tensor], x: Tensor, norm: Callable[[str, Tensor], Tensor]) -> Tensor:
    def conv(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = p[f"{name}.weight"]
        return F.conv2d(x, weight, p[f"{name}.bias"], stride, padding=weight.shape[-1] // 2)

    x = norm("stem.1", conv("stem.0", x)).relu()
    for i in range(3):
        for j in range(3):
            block, stride = f"stacks.{i}.{j}", 2 if i and not j else 1
            y = norm(f"{block}.norm1", conv(f"{block}.conv1", x, stride)).relu()
            y = norm(f"{block}.norm2", conv(f"{block}.conv2", y))
            if stride == 2:
                x = norm(f"{block}.shortcut.1", conv(f"{block}.shortcut.0", x, 2))
            x = (x + y).relu()
    return F.linear(x.flatten(2).mean(2), p["linear.weight"], p["linear.bias"])


def test_resnet_against_plain_functions() -> None:
    net, x = resnet(norm="batch"), torch.randn(3, 3, 16, 16).double()
    p = dict(net.named_parameters())
    expected = plain_resnet(
        p, x, lambda name, y: F.batch_norm(y, None, None, p[f"{name}.weight"], p[f"{name}.bias"], training=True)
    )
    torch.testing.assert_close(net(x), expected)
    bare = resnet(norm=None)
    torch.testing.assert_close(bare(x), plain_resnet(dict(bare.named_parameters()), x, lambda _, y: y))


def test_resnet_activations() -> None:
    def kinds(**settings: Any) -> set[type[nn.Module]]:
        return {type(m) for m in ResNet20(**settings).modules()} & {TLU, nn.ReLU, nn.SiLU}

    assert kinds() == kinds(norm="frn") == {TLU}
    assert kinds(norm="batch") == kinds(norm="group") == kinds(norm=None) == {nn.ReLU}
    assert kinds(norm="frn", activation="swish") == kinds(norm="batch", activation="swish") == {nn.SiLU}
    assert kinds(norm="frn", activation="relu") == {nn.ReLU}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"norm": "layer"}, "'layer'"),
        ({"norm": "frn", "activation": "gelu"}, "'gelu'"),
        ({"classes": 0}, "classes"),
        ({"channels_in": 0}, "channels_in"),
    ],
)
def test_resnet_refuses_settings(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        ResNet20(**settings)


def test_resnet_starts_from_hes_distribution() -> None:
    """Six standard errors in each of 22 means and variances, and in one fourth moment: a false alarm in 10⁷ seeds."""
    net = ResNet20(classes=100)
    standardised = []
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            assert layer.bias is not None
            assert not layer.bias.any()
            fan_in = layer.weight[0].numel()
            z = (layer.weight.detach().double() / math.sqrt(2 / fan_in)).flatten()
            assert abs(z.mean()) < 6 / math.sqrt(len(z))
            # A variance from n draws has a relative error of √(2/n), and a tail that reaches further for small n.
            assert abs(z.square().mean() - 1) < 6 * math.sqrt(2 / len(z)) + 36 / len(z)
            standardised.append(z)
    assert len(standardised) == 1 + 18 + 2 + 1
    z = torch.cat(standardised)
    assert abs((z**4).mean() - 3) < 6 * math.sqrt(96 / len(z))
