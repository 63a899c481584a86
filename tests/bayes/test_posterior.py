"""The posterior of a module as a density."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import HalfNormal, Normal

import ggmc
from ggmc.bayes import likelihoods, nets, priors
from ggmc.errors import BadInput
from tests.support.posteriors import (
    LABELS,
    NORMAL,
    X,
    Y,
    inputs,
    labels,
    line,
    outcomes,
    posterior,
    regression,
    rows_of,
    small_net,
)

F64 = torch.float64


@pytest.mark.parametrize("vectorise", [True, False, None])
def test_the_potential_is_what_the_definition_says(vectorise: bool | None) -> None:
    target, module, (x, y) = posterior(vectorise=vectorise), small_net(), regression()
    rows = rows_of(target)
    potential, gradient = target.potential_and_gradient(rows)
    for row, found, slope in zip(rows, potential, gradient, strict=True):
        leaf = row.clone().requires_grad_()
        weights = target.layout.views(leaf)
        output = torch.func.functional_call(module, dict(weights), (x,))
        expected = -Normal(0.0, 1.0).log_prob(leaf).sum() - Normal(output, 0.2).log_prob(y).sum()
        expected.backward()
        assert torch.allclose(found, expected)
        assert leaf.grad is not None
        assert torch.allclose(slope, leaf.grad)
    assert torch.allclose(target.potential(rows), potential)


def test_the_users_module_is_left_alone() -> None:
    module = small_net()
    before = copy.deepcopy(module.state_dict())
    target = posterior(module=module, start="map")
    ggmc.sample(target, ggmc.HMC(step_size=0.01, steps=3), draws=3, warmup=0, chains=2, progress=False)
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.parametrize("prior", [NORMAL, priors.Horseshoe(0.1)])
def test_a_trace_and_its_posterior_can_be_pickled(prior: Any) -> None:
    target = posterior(prior=prior, likelihood=likelihoods.Gaussian(HalfNormal(1.0)), vectorise=True)
    trace = ggmc.sample(target, ggmc.HMC(step_size=0.01, steps=3), draws=5, warmup=0, chains=2, progress=False)
    again = pickle.loads(pickle.dumps(trace))
    x, _ = regression()
    np.testing.assert_array_equal(again.predict(x).mean, trace.predict(x).mean)
    rows = rows_of(target)
    expected, found = (one.potential_and_gradient(rows) for one in (target, again.target))
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_frozen_and_sampled_subsets() -> None:
    module = small_net()
    first = next(module.parameters())
    first.requires_grad_(False)
    target = posterior(module=module)
    assert "layers.0.weight" not in target.priors
    last = posterior(module=small_net(), sampled="layers.1.*")
    assert list(last.priors) == ["layers.1.weight", "layers.1.bias"]
    everything = posterior(module=small_net())
    row = everything.start.clone()
    apart = torch.cat([row[everything.layout.columns[name]] for name in last.priors])
    x, _ = regression()
    assert torch.allclose(last.outputs(apart[None], x), everything.outputs(row[None], x))
    with pytest.raises(BadInput, match=r"'head.\*' matches none of the parameters"):
        posterior(sampled="head.*")


def test_tied_parameters_are_sampled_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.out(self.b(torch.tanh(self.a(x))))

    torch.manual_seed(0)
    module, x, y = Tied().double(), torch.randn(20, 4, dtype=F64), torch.randn(20, dtype=F64)
    target = ggmc.Posterior(module, "gaussian", NORMAL, x, y)
    assert [name for name in target.priors if name.endswith("weight")] == ["a.weight", "out.weight"]
    rows = rows_of(target, 2)
    weights = target.layout.views(rows[0])
    a = torch.tanh(x @ weights["a.weight"].mT + weights["a.bias"])
    by_hand = (a @ weights["a.weight"].mT + weights["b.bias"]) @ weights["out.weight"].mT + weights["out.bias"]
    assert torch.allclose(target.outputs(rows, x)[0], by_hand)


@pytest.mark.parametrize("prior", [priors.Horseshoe(1.0), priors.Hierarchical()])
def test_priors_with_unknown_scales(prior: Any) -> None:
    target = posterior(prior={"*.bias": NORMAL, "*": prior}, likelihood=likelihoods.Gaussian(HalfNormal(1.0)))
    rows = rows_of(target)
    values = target.constrain(rows)
    assert torch.allclose(target.unconstrain(values), rows)
    assert (values["noise"] > 0).all()
    free, _ = target.coordinates.values(target.layout.views(rows[0]))
    weight = prior.decode(
        free["layers.0.weight"], {key: free[f"layers.0.weight.{key}"] for key in prior.latents(torch.Size((5, 1)))}
    )
    assert torch.allclose(values["layers.0.weight"][0], weight)
    nested = target.constrain(rows.view(3, 1, -1))
    assert nested["layers.0.weight"].shape == (3, 1, 5, 1)
    own = -sum(
        target.priors[n].log_prob(free[n], {k: free[f"{n}.{k}"] for k in target.priors[n].latents(free[n].shape)})
        for n in target.priors
    )
    scales = -sum(priors.total_log_prob(law, free[name]) for name, law in target.unknowns.latents.items())
    _, jacobian = target.coordinates.values(target.layout.views(rows[0]))
    data = -target.log_likelihoods(rows[:1]).sum()
    assert torch.allclose(target.potential(rows[:1])[0], own + scales - jacobian + data)


def test_frozen_views_are_averaged_and_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(12, 1, 8, 8, generator=generator), torch.randint(3, (12,), generator=generator)
    torch.manual_seed(0)
    module, views = nets.CNN(classes=3, widths=(4,)), nets.FrozenViews(3, pad=1)
    target = ggmc.Posterior(module, "categorical", NORMAL, images, labels, views=views)
    assert target.not_exact is None
    rows = target.start[None]
    seen = views.apply(images, views.codes(12))
    terms = torch.stack([-nn.functional.cross_entropy(module(seen[:, k]), labels, reduction="none") for k in range(3)])
    assert torch.allclose(target.log_likelihoods(rows)[0], terms.mean(0).double(), atol=1e-5)
    assert torch.allclose(target.outputs(rows, images)[0], module(images), atol=1e-6)  # predictions see what is there
    plain = target.log_likelihoods(rows, (images, labels))[0]
    assert torch.allclose(
        plain, -nn.functional.cross_entropy(module(images), labels, reduction="none").double(), atol=1e-5
    )


def test_the_bound_is_the_likelihoods() -> None:
    x, y = inputs(), labels()
    assert ggmc.Posterior(line(2), "categorical", NORMAL, x, y).bound == 0.0
    gaussian = likelihoods.Gaussian(0.3)
    target = ggmc.Posterior(line(), gaussian, NORMAL, x, outcomes())
    assert target.bound == gaussian.bound(outcomes()[:1])
    unknown = ggmc.Posterior(line(), likelihoods.Gaussian(HalfNormal(1.0)), NORMAL, x, outcomes())
    assert unknown.bound is None
    # A sum that stops is above the limit, and no higher than the whole.
    rows = rows_of(target)
    whole = target.potential(rows)
    stopped = target.potential(rows, whole - 100)
    assert ((stopped > whole - 100) & (stopped <= whole + 1e-9)).all()


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # as an error, it would hide the fault
def test_gradients_too_must_be_vectorisable() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.head = nn.Embedding(10, 8), nn.Linear(8, 2)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(self.tokens(x)).mean(1))

    target = ggmc.Posterior(Net().eval(), "categorical", NORMAL, torch.randint(10, (12, 5)), LABELS)
    target.potential_and_gradient(target.start.expand(2, -1))


def test_last_layer_sampling_does_not_differentiate_the_rest() -> None:
    target = ggmc.Posterior(
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), "gaussian", NORMAL, X, Y, sampled="1.*", vectorise=False
    )
    target.potential_and_gradient(target.start[None])
    assert all(p.grad is None for p in target.module.parameters())


# Rows and the user's values

HIERARCHICAL = {"*.bias": NORMAL, "layers.0.weight": priors.Horseshoe(1.0), "*": priors.Hierarchical(fan_in=True)}


@pytest.mark.parametrize("prior", [NORMAL, HIERARCHICAL], ids=["plain", "hierarchical"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_values_and_rows_are_two_forms_of_the_same(prior: Any, shape: tuple[int, ...]) -> None:
    target = posterior(prior=prior, likelihood=likelihoods.Gaussian(HalfNormal(1.0)))
    rows = rows_of(target, math.prod(shape)).view(*shape, -1)
    values = target.constrain(rows)
    assert torch.allclose(target.unconstrain(values), rows)
    arrays = {name: value.numpy() for name, value in values.items()}
    assert torch.allclose(target.unconstrain(arrays), rows)
    again = target.constrain(target.unconstrain(values))
    assert all(torch.allclose(again[name], value) for name, value in values.items())
    assert torch.allclose(values["noise"].log(), rows[..., target.layout.columns["noise"]][..., 0])


def test_an_anchor_is_given_as_the_user_sees_it() -> None:
    """Weights and scales, not what chains move."""
    target = posterior(prior=HIERARCHICAL, likelihood=likelihoods.Gaussian(HalfNormal(1.0)))
    row = rows_of(target, 1)[0]
    anchor = target.constrain(row)
    assert not torch.allclose(anchor["layers.1.weight"].flatten(), row[target.layout.columns["layers.1.weight"]])
    field: Any = ggmc.ControlVariate(10, anchor=anchor).bind(target)
    assert torch.allclose(field.anchor, row)
    assert all(torch.allclose(field.anchor_values[name], value) for name, value in anchor.items())


def test_values_that_are_not_those_of_the_posterior_are_refused() -> None:
    target = posterior()
    values = target.constrain(target.start)
    with pytest.raises(BadInput, match="a dict of tensors by name, got Tensor"):
        target.unconstrain(target.start)
    with pytest.raises(BadInput, match=r"lack layers\.0\.bias"):
        target.unconstrain({name: value for name, value in values.items() if name != "layers.0.bias"})
    with pytest.raises(BadInput, match="expected values for"):
        target.unconstrain(values | {"other": torch.zeros(())})


def test_a_limit_is_kept_to() -> None:
    target = posterior()
    assert target.stops_early
    rows = rows_of(target)
    whole = target.potential(rows)
    for limit in (whole - 100, whole + 1, torch.full_like(whole, -torch.inf)):
        stopped = target.potential(rows, limit)
        assert ((stopped > limit) | (stopped == whole)).all()
        assert (stopped <= whole + 1e-9).all()
