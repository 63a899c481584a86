"""Which tensor has which prior."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributions import Gumbel, Normal

from ggmc.bayes import priors
from ggmc.errors import BadInput
from tests.support.priors import MIXTURE


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm, self.head = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Linear(8, 2)
        self.gain = nn.Parameter(torch.ones(1))


@pytest.fixture
def net() -> Net:
    return Net()


def given_by(prior, net: nn.Module) -> dict[str, priors.Prior]:
    return priors.assign(prior, dict(net.named_parameters()), net)


def test_one_prior_for_all(net) -> None:
    names = [name for name, _ in net.named_parameters()]
    assert given_by(priors.Laplace(2.0), net) == dict.fromkeys(names, priors.Laplace(2.0))
    assert given_by(Normal(1.0, 2.0), net) == dict.fromkeys(names, priors.Gaussian(2.0, loc=1.0))
    assert list(given_by(priors.Laplace(2.0), net)) == names


def test_the_first_key_that_matches_wins(net) -> None:
    given = given_by(
        {
            "*.bias": priors.Gaussian(3.0),
            nn.Conv2d: priors.CorrelatedFilters(),
            "head*": Gumbel(0.0, 1.0),
            "*": MIXTURE,
        },
        net,
    )
    assert given["conv1.bias"] == given["norm.bias"] == given["head.bias"] == priors.Gaussian(3.0)
    assert given["conv1.weight"] == priors.CorrelatedFilters()
    assert isinstance(given["head.weight"], priors.Of)
    assert given["norm.weight"] == given["gain"] == MIXTURE
    by_type = given_by({nn.Conv2d: priors.Laplace(), "*.bias": priors.Gaussian(), "*": MIXTURE}, net)
    assert by_type["conv1.bias"] == priors.Laplace()
    assert by_type["head.bias"] == priors.Gaussian()


def test_a_type_matches_only_what_its_layers_own_themselves(net) -> None:
    given = given_by({Net: priors.Laplace(), "*": priors.Gaussian()}, net)
    assert [name for name, prior in given.items() if prior == priors.Laplace()] == ["gain"]
    nested = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Bilinear(2, 2, 2))
    given = given_by({nn.Linear: priors.Laplace(), "*": priors.Gaussian()}, nested)
    assert [name for name, prior in given.items() if prior == priors.Laplace()] == ["0.0.weight", "0.0.bias"]


def test_a_shared_tensor_belongs_to_all_its_layers() -> None:
    tied = nn.ModuleDict({"embed": nn.Embedding(5, 3), "out": nn.Linear(3, 5)})
    tied["out"].weight = tied["embed"].weight
    given = given_by({nn.Linear: priors.Laplace()}, tied)
    assert list(given) == ["embed.weight", "out.bias"]


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        ({"*.bias": priors.Gaussian()}, r"no prior for gain, conv1.weight, .*head.weight: .*priors.Improper\(\)"),
        ({}, "no prior for gain, conv1.weight, conv1.bias"),
        ({"conv2*": priors.Gaussian(), "*": priors.Gaussian()}, "'conv2.*' matches none of the .* gain, conv1.weight"),
        ({nn.Conv1d: priors.Gaussian(), "*": priors.Gaussian()}, "Conv1d matches none"),
        ({"*": priors.Gaussian(), "*.bias": priors.Laplace()}, r"'\*.bias' comes too late: conv1.bias, .* to '\*'"),
        ({3: priors.Gaussian()}, "a key must be a pattern of names or a type of layer such as nn.Linear, got 3"),
        ({"*": 1.0}, "a prior must be one of ggmc.priors .* got 1.0"),
        (priors.CorrelatedFilters(), r"CorrelatedFilters is for convolution kernels .* got gain of shape \(1,\)"),
        ({nn.Linear: priors.Hierarchical(priors.CorrelatedFilters()), "*": priors.Gaussian()}, "got head.weight"),
        (None, "a prior must be one of ggmc.priors .* got None"),
    ],
)
def test_assign_refuses(prior, why: str, net) -> None:
    with pytest.raises(BadInput, match=why):
        given_by(prior, net)


def test_types_need_the_module(net) -> None:
    with pytest.raises(BadInput, match="Linear is a type of layer, but no module was given"):
        priors.assign({nn.Linear: priors.Gaussian()}, dict(net.named_parameters()))
