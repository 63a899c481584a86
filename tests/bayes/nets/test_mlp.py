"""The fully connected net against its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ggmc.bayes.nets import MLP
from ggmc.errors import BadInput
from tests.support.nets import count


def test_mlp_against_its_formula() -> None:
    net, x = MLP([12, 7, 5, 1], activation=nn.Tanh).double(), torch.randn(6, 3, 2, 2).double()
    (a, b, c, d, e, f) = net.parameters()
    expected = torch.tanh(torch.tanh(x.reshape(6, 12) @ a.T + b) @ c.T + d) @ e.T + f
    assert net(x).shape == (6, 1)
    torch.testing.assert_close(net(x), expected)


def test_mlp_counts_and_default_activation() -> None:
    net = MLP([13, 50, 10])
    assert count(net) == 13 * 50 + 50 + 50 * 10 + 10
    assert [type(m) for m in net.activations] == [nn.ReLU]
    assert [type(m) for m in MLP([13, 1]).modules()].count(nn.Linear) == 1


@pytest.mark.parametrize("sizes", [[], [3], 5, "13", [3, 0], [3, 2.5, 1], [3, -1]])
def test_mlp_refuses_sizes(sizes: Any) -> None:
    with pytest.raises(BadInput, match="sizes"):
        MLP(sizes)


def test_mlp_refuses_a_row_without_a_batch() -> None:
    with pytest.raises(BadInput, match=r"shape \[13\]"):
        MLP([13, 1])(torch.zeros(13))
