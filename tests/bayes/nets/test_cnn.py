"""The convolutional net against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from ggmc.bayes.nets import CNN
from ggmc.errors import BadInput
from tests.support.nets import count


def test_cnn_against_its_formula() -> None:
    net, x = CNN(channels_in=2, classes=3, image=7, widths=(4, 5)).double(), torch.randn(6, 2, 7, 7).double()
    (a, b, c, d, e, f) = net.parameters()
    hidden = F.conv2d(x, a, b, stride=2, padding=1).relu()
    hidden = F.conv2d(hidden, c, d, stride=2, padding=1).relu()
    assert hidden.shape == (6, 5, 2, 2)
    torch.testing.assert_close(net(x), F.linear(hidden.flatten(1), e, f))


def test_cnn_shapes_and_counts() -> None:
    assert count(CNN()) == (9 * 16 + 16) + (9 * 16 * 32 + 32) + (32 * 2 * 2 * 10 + 10)
    large = CNN(channels_in=3, classes=7, image=32)
    assert large(torch.randn(2, 3, 32, 32)).shape == (2, 7)
    assert large.linear.in_features == 32 * 8 * 8


@pytest.mark.parametrize(
    "settings", [{"channels_in": 0}, {"classes": 0}, {"image": 0}, {"widths": ()}, {"widths": (3, 0)}, {"widths": 16}]
)
def test_cnn_refuses_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(settings))):
        CNN(**settings)


@pytest.mark.parametrize("shape", [(1, 8, 8), (2, 1, 8, 9), (2, 3, 8, 8), (2, 1, 32, 32)])
def test_cnn_refuses_other_images(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"\[n, 1, 8, 8\]"):
        CNN()(torch.zeros(shape))
