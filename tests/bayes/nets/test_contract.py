"""What every net must do: gradients, chains at once, and no example that depends on another."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from ggmc.bayes.nets import CNN, MLP, ResNet20, replace_batchnorm, resnet20
from tests.support.nets import resnet, shaken

NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MLP": (lambda: MLP([4, 6, 3]), (5, 4)),
    "CNN": (lambda: CNN(widths=(4, 6)), (5, 1, 8, 8)),
    "ResNet20 frn": (lambda: ResNet20(), (2, 3, 8, 8)),
    "ResNet20 frn swish": (lambda: ResNet20(activation="swish"), (2, 3, 8, 8)),
    "ResNet20 published frn": (lambda: resnet20("frn"), (2, 3, 8, 8)),
    "ResNet20 published frn-swish": (lambda: resnet20("frn-swish"), (2, 3, 8, 8)),
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


@pytest.mark.parametrize("name", NETS)
def test_the_default_device_does_not_matter(name: str) -> None:
    make, shape = NETS[name]
    net, x = make(), torch.randn(shape)
    expected = net(x)
    with torch.device("meta"):
        assert torch.equal(net(x), expected)
