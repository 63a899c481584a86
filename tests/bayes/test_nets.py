"""Nets: their shapes, counts and formulas against plain references, and the swap of BatchNorm."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.nn import functional as F  # noqa: N812

from ggmc.bayes.nets import CNN, MLP, TLU, FilterResponseNorm, ResNet20, replace_batchnorm
from ggmc.bayes.nets.frn import BATCH_NORMS
from ggmc.errors import BadInput


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def count(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())


def shaken(net: nn.Module) -> nn.Module:
    """Biases, norms and thresholds moved away from zeros and ones, which would hide what is left out."""
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return net


def resnet(**settings: Any) -> nn.Module:
    return shaken(ResNet20(**settings).double())


# MLP and CNN


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


# ResNet-20


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


def test_resnet_starts_from_hes_law() -> None:
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


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (lambda: MLP([4, 6, 3]), (5, 4)),
    "CNN": (lambda: CNN(widths=(4, 6)), (5, 1, 8, 8)),
    "ResNet20 frn": (lambda: ResNet20(), (2, 3, 8, 8)),
    "ResNet20 frn swish": (lambda: ResNet20(activation="swish"), (2, 3, 8, 8)),
    "ResNet20 group": (lambda: ResNet20(norm="group"), (2, 3, 8, 8)),
    "ResNet20 none": (lambda: ResNet20(norm=None), (2, 3, 8, 8)),
    "ResNet20 replaced": (lambda: replace_batchnorm(ResNet20(norm="batch")), (2, 3, 8, 8)),
    "ResNet20 replaced group": (lambda: replace_batchnorm(ResNet20(norm="batch"), "group"), (2, 3, 8, 8)),
}


@pytest.mark.parametrize("name", NETS)
def test_gradients_reach_every_parameter(name: str) -> None:
    make, shape = NETS[name]
    net = shaken(make().double())
    net(torch.randn(shape).double()).square().sum().backward()
    for parameter_name, parameter in net.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.any(), parameter_name


@pytest.mark.parametrize("name", NETS)
def test_chains_at_once_equal_chains_in_a_loop(name: str) -> None:
    make, shape = NETS[name]
    net, chains, x = make().double(), 2, torch.randn(shape).double()
    params, buffers = stack_module_state([shaken(deepcopy(net)) for _ in range(chains)])
    assert not buffers

    def loss(params: dict[str, Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
        outputs = functional_call(net, params, (x,))
        return outputs.log_softmax(-1)[:, 0].sum(), outputs

    gradients, outputs = vmap(grad(loss, has_aux=True), in_dims=(0, None))(params, x)
    for chain in range(chains):
        own = {key: value[chain].detach().requires_grad_() for key, value in params.items()}
        value, expected = loss(own, x)
        torch.testing.assert_close(outputs[chain], expected)
        for key, slope in zip(own, torch.autograd.grad(value, list(own.values())), strict=True):
            torch.testing.assert_close(gradients[key][chain], slope)
    assert not torch.allclose(outputs[0], outputs[1])


def batch_mates_matter(net: nn.Module, images: Tensor) -> bool:
    alone = torch.cat([net(image) for image in images.split(1)])
    return not torch.allclose(net(images), alone, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NETS)
def test_no_example_depends_on_its_batch_mates(name: str) -> None:
    make, shape = NETS[name]
    assert not batch_mates_matter(shaken(make().double()), torch.randn(3, *shape[1:]).double())


def test_with_batchnorm_batch_mates_do_matter() -> None:
    assert batch_mates_matter(resnet(norm="batch"), torch.randn(3, 3, 8, 8).double())


# Filter response normalisation


def plain_frn(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    out = torch.empty_like(x)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            values = x[i, c]
            out[i, c] = weight[c] * values / math.sqrt((values**2).sum() / values.numel() + eps) + bias[c]
    return out


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


# BatchNorm replaced


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
