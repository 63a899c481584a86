"""Modes: what is random or depends on the batch is refused, and predictions do not see it."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ggmc
from ggmc.bayes import likelihoods, nets
from ggmc.errors import NotExact
from tests.support.posteriors import (
    NORMAL,
    Examples,
    dropping,
    inputs,
    line,
    normalising,
    outcomes,
    posterior,
    regression,
    rows_of,
    small_net,
)

F64 = torch.float64


def batchnorm_net() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()


class Counting(nn.Module):
    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_net()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(x)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (batchnorm_net(), r"the layer 1 \(BatchNorm1d\) .* ggmc.replace_batchnorm"),
        (
            nn.Sequential(nn.Linear(1, 4), nn.Dropout(0.5), nn.Linear(4, 1)).double(),
            r"the layer 1 \(Dropout\) .* module.eval",
        ),
        (Counting(), "changes its buffer calls"),
    ],
)
def test_what_is_not_exact_is_refused_but_runs_without_the_test(module: nn.Module, message: str) -> None:
    target = posterior(module=module)
    with pytest.raises(NotExact, match=message):
        ggmc.sample(target, ggmc.GGMC(0.01), draws=2, warmup=0, progress=False)
    trace = ggmc.sample(target, ggmc.GGMC(0.001, adjust=False), draws=8, warmup=0, chains=2, progress=False)
    assert np.isfinite(trace["".join(next(iter(trace.draws)))]).all()
    assert np.isfinite(trace.predict(regression()[0]).mean).all()


def test_the_fixes_work() -> None:
    for module in (ggmc.replace_batchnorm(batchnorm_net()), batchnorm_net().eval()):
        assert posterior(module=module).not_exact is None


def test_free_views_are_refused() -> None:
    images, labels = torch.rand(12, 1, 8, 8), torch.randint(3, (12,))
    target = ggmc.Posterior(
        nets.CNN(classes=3, widths=(4,)), "categorical", NORMAL, images, labels, views=nets.FreeViews(pad=1)
    )
    with pytest.raises(NotExact, match=r"FreeViews .* Use FrozenViews"):
        ggmc.GGMC(0.01).bind(target)
    ggmc.sample(target, ggmc.GGMC(0.001, adjust=False), draws=8, warmup=0, chains=2, progress=False)


def test_data_that_change_are_refused_in_a_posterior_too() -> None:
    random = Examples(lambda i: (inputs()[i] + torch.randn(2, dtype=F64), outcomes()[i]))
    target = ggmc.Posterior(line(), "gaussian", NORMAL, random)
    with pytest.raises(NotExact, match="another example"):
        ggmc.GGMC(0.1).bind(target)


def test_randomness_that_no_layer_shows_is_refused() -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = line()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(nn.functional.dropout(x, 0.5))

    target = ggmc.Posterior(Hidden(), "gaussian", NORMAL, inputs(), outcomes())
    with pytest.raises(NotExact, match="another value at each call"):
        ggmc.GGMC(0.1).bind(target)


def test_dropout_that_drops_nothing_is_exact() -> None:
    assert ggmc.Posterior(dropping(0.0), "gaussian", NORMAL, inputs(), outcomes()).not_exact is None


def test_batchnorm_without_statistics_of_its_own_is_refused_in_either_mode() -> None:
    for module in (normalising(track_running_stats=False), normalising(track_running_stats=False).eval()):
        target = ggmc.Posterior(module, "gaussian", NORMAL, inputs(), outcomes())
        assert target.not_exact is not None
        assert "normalises over the batch" in target.not_exact


def test_a_module_with_buffers_is_left_alone() -> None:
    module = normalising()
    before = copy.deepcopy(module.state_dict())
    target = ggmc.Posterior(module, "gaussian", NORMAL, inputs(), outcomes())
    target.potential(rows_of(target))
    target.outputs(rows_of(target), inputs())
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    module.eval()
    assert target.module.training


# Predictions


def test_predictions_and_scores_are_without_dropout() -> None:
    x, y = inputs(), outcomes()
    target = ggmc.Posterior(dropping(), "gaussian", NORMAL, x, y)
    rows = rows_of(target)
    module = dropping().eval()
    expected = torch.stack([torch.func.functional_call(module, target.layout.views(row), (x,)) for row in rows])
    assert torch.allclose(target.outputs(rows, x), expected)
    terms = likelihoods.Gaussian(1.0).log_prob(expected[1], y, {})
    assert torch.allclose(target.log_likelihoods(rows, (x, y))[1], terms)
    assert target.module.training  # and the chain goes on with it
    assert not torch.equal(target.potential(rows), target.potential(rows))


def test_batchnorm_predicts_with_the_statistics_of_each_draw() -> None:
    torch.manual_seed(0)
    target, (x, _) = posterior(module=batchnorm_net()), regression()
    rows = rows_of(target)
    module = batchnorm_net()
    expected = torch.func.functional_call(module.train(), dict(target.layout.views(rows[1])), (x,))
    found = target.outputs(rows, x)[1]
    unbiased = math.sqrt(29 / 30)  # in evaluation BatchNorm divides by the variance with n − 1
    assert torch.allclose(found, expected, atol=2 * (1 - unbiased) * expected.abs().max().item())
    assert torch.equal(target.outputs(rows, x), target.outputs(rows, x))


def test_batchnorm_predicts_with_the_statistics_of_the_training_inputs() -> None:
    x, new = inputs(), inputs(3) + 1
    target = ggmc.Posterior(normalising(), "gaussian", NORMAL, x, outcomes())
    rows = rows_of(target)
    found = target.outputs(rows, new)
    for row, output in zip(rows, found, strict=True):
        own = target.layout.views(row)
        hidden = x @ own["0.weight"].mT + own["0.bias"]
        seen = new @ own["0.weight"].mT + own["0.bias"]
        scaled = (seen - hidden.mean(0)) / (hidden.var(0) + 1e-5).sqrt() * own["1.weight"] + own["1.bias"]
        assert torch.allclose(output, scaled @ own["2.weight"].mT + own["2.bias"])
    assert all(layer.training for layer in target.module.modules())
    assert [layer.momentum for layer in target.module.modules() if isinstance(layer, nn.BatchNorm1d)] == [0.1]
