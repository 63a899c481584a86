"""ResNet-20: shapes, counts and formula against plain functions; the published forms, and that each can be sampled."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import ggmc
from ggmc.bayes.nets import TLU, FilterResponseNorm, ResNet20, resnet20
from ggmc.errors import BadInput, NotExact
from tests.support.nets import count, plain_frn, resnet, shaken


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"norm": "batch"}, 273_258),
        ({"norm": "batch", "activation": "swish"}, 273_258),
        ({"norm": "group"}, 273_258),
        ({"norm": "frn", "activation": "swish"}, 273_258),
        ({"norm": "frn"}, 273_258 + 688),  # a threshold for each channel of stem and blocks
        ({"norm": "frn", "activation": "relu", "outer_activation": "tlu"}, 273_258 + 336),
        ({"norm": "frn-tlu"}, 273_258 + 688 + 96),
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


def relu(name: str, x: Tensor) -> Tensor:
    return x.relu()


def plain_resnet(
    p: Mapping[str, Tensor],
    x: Tensor,
    norm: Callable[[str, Tensor], Tensor],
    inner: Callable[[str, Tensor], Tensor] = relu,
    outer: Callable[[str, Tensor], Tensor] = relu,
) -> Tensor:
    def conv(name: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = p[f"{name}.weight"]
        return F.conv2d(x, weight, p[f"{name}.bias"], stride, padding=weight.shape[-1] // 2)

    x = inner("stem.2", norm("stem.1", conv("stem.0", x)))
    for i in range(3):
        for j in range(3):
            block, stride = f"stacks.{i}.{j}", 2 if i and not j else 1
            y = inner(f"{block}.activation1", norm(f"{block}.norm1", conv(f"{block}.conv1", x, stride)))
            y = norm(f"{block}.norm2", conv(f"{block}.conv2", y))
            if stride == 2:
                x = norm(f"{block}.shortcut.1", conv(f"{block}.shortcut.0", x, 2))
            x = outer(f"{block}.activation2", x + y)
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
    assert kinds(norm="frn", activation="relu", outer_activation="swish") == {nn.ReLU, nn.SiLU}
    assert kinds(norm="frn-tlu", activation="swish") == {TLU, nn.SiLU}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"norm": "layer"}, "'layer'"),
        ({"norm": "frn", "activation": "gelu"}, "^activation must be .* 'gelu'"),
        ({"outer_activation": "gelu"}, "^outer_activation must be .* 'gelu'"),
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


# The published forms


@pytest.mark.parametrize(("form", "parameters"), [("batchnorm", 273_258), ("frn", 274_378), ("frn-swish", 274_042)])
def test_counts_of_the_published_forms(form: str, parameters: int) -> None:
    assert count(resnet20(form)) == parameters
    assert count(resnet20(form, classes=100)) == parameters + 90 * 65
    assert count(resnet20(form, channels_in=1)) == parameters - 2 * 9 * 16


def layers(module: Any) -> list[type[nn.Module]]:
    """The kinds of layers, a norm of two as two."""
    return [type(layer) for layer in module] if isinstance(module, nn.Sequential) else [type(module)]


@pytest.mark.parametrize(
    ("form", "norm", "inner", "outer"),
    [
        ("batchnorm", [nn.BatchNorm2d], nn.ReLU, nn.ReLU),
        ("frn", [FilterResponseNorm, TLU], nn.ReLU, TLU),
        ("frn-swish", [FilterResponseNorm, TLU], nn.SiLU, nn.SiLU),
    ],
)
def test_which_layers_stand_where(form: str, norm: Any, inner: Any, outer: Any) -> None:
    net: Any = resnet20(form)
    assert type(net.stem[0]) is nn.Conv2d
    assert layers(net.stem[1]) == norm
    assert type(net.stem[2]) is inner
    for i, stack in enumerate(net.stacks):
        for j, block in enumerate(stack):
            assert layers(block.norm1) == layers(block.norm2) == norm
            assert (type(block.activation1), type(block.activation2)) == (inner, outer)
            if i and not j:
                assert type(block.shortcut[0]) is nn.Conv2d
                assert layers(block.shortcut[1]) == norm
            else:
                assert type(block.shortcut) is nn.Identity
    assert all(layer.bias is not None for layer in net.modules() if isinstance(layer, nn.Conv2d))


@pytest.mark.parametrize("form", ["batchnorm", "frn", "frn-swish"])
def test_the_published_forms_against_plain_functions(form: str) -> None:
    net = shaken(resnet20(form, classes=4).double()).requires_grad_(False)
    x, p = torch.randn(3, 3, 16, 16).double(), dict(net.named_parameters())

    def norm(name: str, y: Tensor) -> Tensor:
        if form == "batchnorm":
            return F.batch_norm(y, None, None, p[f"{name}.weight"], p[f"{name}.bias"], training=True)
        y = plain_frn(y, p[f"{name}.0.weight"], p[f"{name}.0.bias"], 1e-6)
        return torch.maximum(y, p[f"{name}.1.threshold"][:, None, None])

    def tlu(name: str, y: Tensor) -> Tensor:
        return torch.maximum(y, p[f"{name}.threshold"][:, None, None])

    def swish(name: str, y: Tensor) -> Tensor:
        return y * y.sigmoid()

    inner, outer = {"batchnorm": (relu, relu), "frn": (relu, tlu), "frn-swish": (swish, swish)}[form]
    torch.testing.assert_close(net(x), plain_resnet(p, x, norm, inner, outer))


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(BadInput, match=r"form must be one of .*'frn-swish'.*, got 'group'"):
        resnet20("group")


def tiny(form: str) -> ggmc.Posterior:
    images, labels = torch.rand(8, 1, 8, 8), torch.randint(2, (8,))
    net = resnet20(form, classes=2, channels_in=1)
    return ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(1.0), images, labels, vectorise=False)


SHORT: dict[str, Any] = {"draws": 3, "warmup": 0, "chains": 2, "progress": False}


@pytest.mark.parametrize("form", ["frn", "frn-swish"])
def test_the_forms_with_frn_are_sampled_exactly_from_minibatches(form: str) -> None:
    target = tiny(form)
    assert target.not_exact is None
    trace = ggmc.sample(target, ggmc.GGMC(1e-3, steps=2, guide=ggmc.Minibatch(4)), **SHORT)
    assert np.isfinite(trace.stats["log_accept"]).all()
    assert trace.stats["is_accepted"].any()
    assert np.isfinite(np.asarray(trace.predict(torch.rand(3, 1, 8, 8)).probabilities)).all()


def test_the_form_with_batchnorm_is_sampled_without_the_test_only() -> None:
    target = tiny("batchnorm")
    with pytest.raises(NotExact, match=r"BatchNorm2d.* ggmc.replace_batchnorm"):
        ggmc.sample(target, ggmc.GGMC(1e-3, steps=2, guide=ggmc.Minibatch(4)), **SHORT)
    trace = ggmc.sample(target, ggmc.GGMC(1e-3, steps=2, guide=ggmc.Minibatch(4), adjust=False), **SHORT)
    assert np.isfinite(trace.positions).all()
    assert np.isfinite(np.asarray(trace.predict(torch.rand(3, 1, 8, 8)).probabilities)).all()
