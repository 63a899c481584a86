"""Norms against plain loops, and the replacement of BatchNorm."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from ggmc.bayes.nets import MLP, TLU, FilterResponseNorm, ResNet20, replace_batchnorm
from ggmc.bayes.nets.normalisation import BATCH_NORMS
from ggmc.errors import BadInput
from tests.support.nets import count, plain_frn, resnet, shaken


@pytest.mark.parametrize("eps", [1e-6, 0.5])
@pytest.mark.parametrize("spatial", [(7,), (4, 3), (2, 3, 4)])
def test_frn_against_a_plain_loop(spatial: tuple[int, ...], eps: float) -> None:
    norm = shaken(FilterResponseNorm(5, eps=eps).double())
    assert isinstance(norm.weight, Tensor)
    assert isinstance(norm.bias, Tensor)
    x = torch.randn(3, 5, *spatial).double() + 0.3
    torch.testing.assert_close(norm(x), plain_frn(x, norm.weight.detach(), norm.bias.detach(), eps))
    bare = FilterResponseNorm(5, eps=eps, affine=False)
    assert count(bare) == 0
    torch.testing.assert_close(bare(x), plain_frn(x, torch.ones(5), torch.zeros(5), eps))


def test_frn_is_finite_at_zero() -> None:
    x = torch.zeros(1, 2, 3, 3, requires_grad=True)
    FilterResponseNorm(2)(x).sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full_like(x, 1e3))  # 1 / √ε


def test_frn_and_tlu_keep_channels_last() -> None:
    x = torch.randn(2, 16, 8, 8)
    for layer in (shaken(FilterResponseNorm(16)), shaken(TLU(16))):
        out = layer(x.to(memory_format=torch.channels_last))
        assert out.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(out, layer(x))
    net, x = ResNet20(), torch.randn(2, 3, 8, 8)
    expected = net(x)
    net.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    torch.testing.assert_close(net(x.to(memory_format=torch.channels_last)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 1), (4, 3, 1, 1), (4, 2, 8, 8), (3, 8, 8), (3,)])
def test_frn_refuses_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="FilterResponseNorm"):
        FilterResponseNorm(3)(torch.zeros(shape))


@pytest.mark.parametrize("settings", [{"channels": 0}, {"channels": 3, "eps": 0.0}, {"channels": 3, "eps": -1e-6}])
def test_frn_refuses_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=list(settings)[-1]):
        FilterResponseNorm(**settings)


@pytest.mark.parametrize("spatial", [(), (4,), (4, 3)])
def test_tlu_against_a_plain_loop(spatial: tuple[int, ...]) -> None:
    unit, x = TLU(3), torch.randn(5, 3, *spatial)
    assert torch.equal(unit(x), x.relu())
    unit.threshold.data = torch.tensor([-0.5, 0.0, 0.5])
    expected = torch.stack([x[:, c].clamp_min(t) for c, t in enumerate([-0.5, 0.0, 0.5])], 1)
    torch.testing.assert_close(unit(x), expected)
    unit(x).sum().backward()
    assert unit.threshold.grad is not None
    below = (x < unit.threshold.detach().reshape(-1, *(1 for _ in spatial))).transpose(0, 1).flatten(1)
    torch.testing.assert_close(unit.threshold.grad, below.sum(1).float())


def test_tlu_refuses_shapes() -> None:
    with pytest.raises(BadInput, match=r"\[n, 3, ...\]"):
        TLU(3)(torch.zeros(2, 4))


def has_batchnorm(net: nn.Module) -> bool:
    return any(isinstance(layer, BATCH_NORMS) for layer in net.modules())


@pytest.mark.parametrize(("norm", "kind"), [("frn", FilterResponseNorm), ("group", nn.GroupNorm)])
def test_replaced_in_a_resnet(norm: str, kind: type[nn.Module]) -> None:
    net = resnet(norm="batch")
    before = deepcopy(net.state_dict())
    copy = replace_batchnorm(net, norm)
    assert not has_batchnorm(copy)
    assert sum(isinstance(layer, kind) for layer in copy.modules()) == 1 + 18 + 2
    assert not any(isinstance(layer, TLU) for layer in copy.modules())
    carried = dict(copy.named_parameters())
    assert list(carried) == [name for name, _ in net.named_parameters()]
    for name, parameter in net.named_parameters():
        assert torch.equal(carried[name], parameter)
        assert carried[name].data_ptr() != parameter.data_ptr()
    copy(torch.randn(2, 3, 8, 8).double()).sum().backward()
    assert has_batchnorm(net)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_replaced_resnet_equals_one_built_so() -> None:
    net, x = resnet(norm="batch"), torch.randn(2, 3, 8, 8).double()
    for norm in ("frn", "group"):
        built = ResNet20(norm=norm, activation="relu").double()
        built.load_state_dict(dict(net.named_parameters()))
        assert torch.equal(replace_batchnorm(net, norm)(x), built(x))


@pytest.mark.parametrize(
    ("old", "shape"),
    [(nn.BatchNorm2d(8), (3, 8, 4, 4)), (nn.BatchNorm3d(8), (3, 8, 2, 3, 4)), (nn.SyncBatchNorm(8), (3, 8, 4, 4))],
)
def test_a_batchnorm_by_itself(old: nn.Module, shape: tuple[int, ...]) -> None:
    old, x = shaken(old.double()), torch.randn(shape).double()
    new = replace_batchnorm(old)
    assert isinstance(new, FilterResponseNorm)
    assert isinstance(old.weight, Tensor)
    assert isinstance(old.bias, Tensor)
    torch.testing.assert_close(new(x), plain_frn(x, old.weight.detach(), old.bias.detach(), 1e-6))
    group = replace_batchnorm(old, "group")
    torch.testing.assert_close(group(x), F.group_norm(x, 2, old.weight, old.bias))


@pytest.mark.parametrize("norm", ["frn", "group"])
def test_batchnorm1d_becomes_layer_norm(norm: str) -> None:
    linear, old = nn.Linear(4, 6), nn.BatchNorm1d(6, eps=0.1)
    shaken(old)
    new, x = replace_batchnorm(nn.Sequential(linear, old, nn.ReLU()), norm), torch.randn(5, 4)
    torch.testing.assert_close(new(x), F.layer_norm(linear(x), (6,), old.weight, old.bias, eps=0.1).relu())
    assert replace_batchnorm(nn.BatchNorm1d(6), norm)(torch.randn(5, 6, 7)).shape == (5, 6, 7)


def test_device_dtype_mode_and_frozen_weights_are_kept() -> None:
    net = nn.Sequential(nn.BatchNorm2d(4), nn.BatchNorm2d(4, affine=False)).to("meta", torch.bfloat16)
    net[0].weight.requires_grad_(False)
    net[0].eval()
    for norm in ("frn", "group"):
        new = replace_batchnorm(net, norm)
        assert isinstance(new, nn.Sequential)
        assert new[0].weight.device.type == "meta"
        assert new[0].bias.dtype == torch.bfloat16
        assert not new[0].weight.requires_grad
        assert new[0].bias.requires_grad
        assert (new[0].training, new[1].training) == (False, True)
        assert new[1].weight is None
        assert count(new) == 8


def test_a_weight_without_a_bias_is_kept() -> None:
    old = nn.BatchNorm2d(4)
    old.bias = None  # pyright: ignore[reportAttributeAccessIssue]
    shaken(old)
    x = torch.randn(2, 4, 3, 3)
    torch.testing.assert_close(replace_batchnorm(old)(x), plain_frn(x, old.weight.detach(), torch.zeros(4), 1e-6))


def test_what_is_shared_stays_shared() -> None:
    norm, other = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    other.weight = norm.weight
    inner = nn.Sequential(norm)
    new = replace_batchnorm(nn.ModuleDict({"a": norm, "b": norm, "c": inner, "d": inner, "e": other}))
    assert isinstance(new, nn.ModuleDict)
    assert not has_batchnorm(new)
    a, b, c, d, e = (new[name] for name in "abcde")
    assert isinstance(c, nn.Sequential)
    assert a is b
    assert a is c[0]
    assert c is d
    assert e is not a
    assert e.weight is a.weight
    assert e.bias is not a.bias


def test_a_net_without_batchnorm_is_copied() -> None:
    net, x = MLP([3, 4, 2]), torch.randn(5, 3)
    copy = replace_batchnorm(net)
    assert copy is not net
    assert torch.equal(copy(x), net(x))


@pytest.mark.parametrize(
    ("module", "norm", "named"),
    [
        (nn.BatchNorm2d(4), "layer", "'layer'"),
        (nn.BatchNorm2d(4), None, "None"),
        (torch.zeros(3), "frn", "Tensor"),
        (nn.Sequential(nn.LazyBatchNorm2d()), "frn", "LazyBatchNorm2d '0'"),
        (nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1)), "group", "BatchNorm1d '1' has one channel"),
    ],
)
def test_replacing_refuses(module: Any, norm: Any, named: str) -> None:
    with pytest.raises(BadInput, match=named):
        replace_batchnorm(module, norm)


def test_batchnorm_is_replaced_where_the_net_is_whatever_the_default_device() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.BatchNorm2d(8, affine=False))
    x = torch.randn(2, 3, 6, 6)
    for norm in ("frn", "group"):
        expected = replace_batchnorm(net, norm)(x)
        with torch.device("meta"):
            assert torch.equal(replace_batchnorm(net, norm)(x), expected)
