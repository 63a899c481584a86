"""What a posterior is given: its precision, its form, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import ggmc
from ggmc.bayes import likelihoods, nets
from ggmc.errors import BadInput
from ggmc.targets import data
from ggmc.targets.data import OnDemand
from tests.support.posteriors import (
    LABELS,
    NORMAL,
    Examples,
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


def test_datasets_and_arrays() -> None:
    x, y = regression()
    rows = rows_of(posterior())
    expected = posterior().potential(rows)
    for given in ((TensorDataset(x, y),), (x.numpy(), y.numpy()), (x.float().double(), y)):
        found = posterior(data=given).potential(rows)
        assert torch.allclose(found, expected, rtol=1e-6)


def on_demand(monkeypatch: pytest.MonkeyPatch, function: Callable[[int], Any]) -> Examples:
    monkeypatch.setattr(data, "IN_MEMORY", 0)
    return Examples(function)


def test_inputs_take_on_the_modules_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = inputs(), labels()
    module = line(2).float()
    expected = ggmc.Posterior(module, "categorical", NORMAL, x.float(), y)
    rows = rows_of(expected)
    large = on_demand(monkeypatch, lambda i: (x[i], int(y[i])))
    for target in (
        ggmc.Posterior(module, "categorical", NORMAL, x, y),
        ggmc.Posterior(module, "categorical", NORMAL, large),
    ):
        assert torch.allclose(target.potential(rows), expected.potential(rows), rtol=1e-6)
        slopes = target.potential_and_gradient(rows)[1]
        assert torch.allclose(slopes, expected.potential_and_gradient(rows)[1], atol=1e-4)
        assert torch.equal(target.outputs(rows, x), expected.outputs(rows, x.float()))
        assert torch.allclose(target.log_likelihoods(rows, (x, y)), expected.log_likelihoods(rows), rtol=1e-5)
        assert target.prediction_features(rows).shape == (3, 24)
    assert isinstance(target.data, OnDemand)
    ggmc.sample(target, ggmc.GGMC(0.01, guide=ggmc.Minibatch(5)), draws=2, warmup=0, chains=2, progress=False)


@pytest.mark.parametrize("form", [tuple, dict])
def test_several_inputs(form: type) -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = line()

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.inner(a - b)

    x, half = inputs(), inputs() / 2
    given: Any = (x, half) if form is tuple else {"b": half, "a": x}
    target, plain = (
        ggmc.Posterior(module, "gaussian", {"*": NORMAL}, seen, outcomes())
        for module, seen in ((Sum(), given), (line(), x / 2))
    )
    rows = rows_of(plain)
    assert torch.allclose(target.potential(rows), plain.potential(rows))
    assert torch.allclose(target.outputs(rows, given), plain.outputs(rows, x / 2))
    batches = ggmc.Minibatch(5).bind(target), ggmc.Minibatch(5).bind(plain)
    entry = torch.tensor([0, 2, 1])
    assert torch.allclose(batches[0](rows, entry)[0], batches[1](rows, entry)[0])
    assert np.isfinite(target.score(rows, given, outcomes())["rmse"])


def test_all_labels_are_looked_at() -> None:
    labels = torch.zeros(12, dtype=torch.long)
    labels[11] = 7
    with pytest.raises(BadInput, match="got 7 in row 11"):
        ggmc.Posterior(line(2), "categorical", NORMAL, inputs(), labels)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_labels_of_any_integer_dtype(dtype: torch.dtype) -> None:
    ggmc.Posterior(nn.Linear(2, 2), "categorical", NORMAL, X, LABELS.to(dtype)).potential(torch.zeros(2, 6))


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> Any:
        return (X[i], X[i]), Y[i]


def test_data_sets_of_several_inputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 1)

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.inner(a + b)

    ggmc.Posterior(Two(), "gaussian", NORMAL, Pairs())


def test_a_data_set_is_no_input_to_predict_for() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    with pytest.raises(BadInput):
        target.prior_predictive(TensorDataset(X, X))


@pytest.mark.parametrize("x", [X.tolist(), torch.tensor(1.0)])
def test_what_is_no_input_is_refused_in_words(x: Any) -> None:
    with pytest.raises(BadInput, match="x and y must"):
        ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, x, Y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": (torch.zeros(5, 1), torch.zeros(4))}, "one row per example each, got 5 and 4"),
        ({"data": (torch.tensor([[0.0], [math.nan], [1.0]]), torch.zeros(3))}, "x has nan in row 1"),
        ({"data": (torch.zeros(3, 1), torch.tensor([0.0, 1.0, math.inf]))}, "y has inf in row 2"),
        ({"data": (torch.zeros(5, 2), torch.zeros(5))}, "cannot be called on the first rows of x"),
        ({"data": (torch.zeros(5, 1), torch.zeros(5, 3))}, "one output per outcome"),
        ({"data": ("text", torch.zeros(5))}, "tensors or arrays of numbers"),
        ({"data": (TensorDataset(torch.zeros(5, 1)),)}, "pairs"),
        ({"module": nn.LazyLinear(1)}, "has no shape yet"),
        ({"module": nn.Linear(1, 1, device="meta")}, "meta device"),
        ({"module": nn.Flatten()}, "nothing to sample"),
        ({"module": lambda x: x}, "must be a torch.nn.Module"),
        ({"prior": {"*.weight": NORMAL}}, "no prior for layers.0.bias"),
        ({"likelihood": "categorical", "data": (regression()[0], torch.zeros(30))}, "Categorical needs logits"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        posterior(**options)


def test_integer_parameters_are_refused() -> None:
    module = small_net()
    module.register_parameter("steps", nn.Parameter(torch.zeros(2, dtype=torch.long), requires_grad=False))
    with pytest.raises(BadInput, match=r"the parameter steps is torch\.int64"):
        posterior(module=module)


# Precision


@pytest.mark.parametrize("on_demand_too", [False, True])
def test_outcomes_take_on_the_modules_precision(monkeypatch: pytest.MonkeyPatch, on_demand_too: bool) -> None:
    x, y = inputs(), outcomes()
    seen: list[torch.dtype] = []

    def terms(output: Tensor, y: Tensor) -> Tensor:
        seen.append(y.dtype)
        return -((output[:, 0] - y) ** 2)

    given = (on_demand(monkeypatch, lambda i: (x[i], y[i])),) if on_demand_too else (x, y)
    target = ggmc.Posterior(line().float(), terms, NORMAL, *given)
    rows = rows_of(target)
    seen.clear()
    target.potential_and_gradient(rows)
    target.log_likelihoods(rows)
    target.score(rows, x, y)
    assert set(seen) == {torch.float32}


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    """Scikit-learn's data, as it comes: inputs of size 0.05 and outcomes of size 150, in float64."""
    return pytest.importorskip("sklearn.datasets").load_diabetes(return_X_y=True)


def test_rounding_in_an_ordinary_network_is_not_taken_for_batchnorm() -> None:
    x, y = diabetes()
    for seed in range(30):
        torch.manual_seed(seed)
        net = nets.MLP([10, 50, 1])
        assert ggmc.Posterior(net, "gaussian", NORMAL, x, y).not_exact is None


def test_rounding_is_not_taken_for_batchnorm_where_a_network_fits_closely() -> None:
    """There terms are small differences of large numbers."""
    x, _ = diabetes()
    for seed in range(10):
        torch.manual_seed(seed)
        net = nets.MLP([10, 50, 1])
        with torch.no_grad():
            net.get_parameter("layers.1.bias").add_(150.0)
            fitted = net(torch.as_tensor(x).float())[:, 0].double() + 1e-3
        assert ggmc.Posterior(net, likelihoods.Gaussian(1e-3), NORMAL, x, fitted).not_exact is None


def test_what_depends_on_the_batch_is_still_seen_in_single_precision() -> None:
    """With no layer that says so."""

    class Standardised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nets.MLP([10, 50, 1])

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.inner(x)
            return (hidden - hidden.mean(0)) / hidden.std(0)

    x, y = diabetes()
    batchnorm = nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.Linear(20, 1))
    for seed in range(10):
        torch.manual_seed(seed)
        reason = ggmc.Posterior(Standardised(), "gaussian", NORMAL, x, y).not_exact
        assert reason is not None
        assert "share its batch" in reason
        for layer in (batchnorm[0], batchnorm[2]):
            layer.reset_parameters()  # pyright: ignore[reportCallIssue]
        start = {name: value.detach() for name, value in batchnorm.named_parameters()}
        data = torch.as_tensor(x).float(), torch.as_tensor(y)  # float64 outcomes: the likelihood's own arithmetic

        def likelihood(p: Any, batch: Any) -> Tensor:
            return -((torch.func.functional_call(batchnorm, p, (batch[0],))[:, 0] - batch[1]) ** 2) / 2

        def prior(p: Any) -> Tensor:
            return -sum((value**2).sum() for value in p.values())  # pyright: ignore[reportReturnType]

        reason = ggmc.DataDensity(prior, likelihood, data, start).not_exact
        assert reason is not None
        assert "share its batch" in reason


def test_single_precision_with_double_precision_outcomes_is_judged_as_single() -> None:
    """In a density of the user's own, whose likelihood does what it likes."""
    x, y = diabetes()
    data = torch.as_tensor(x).float(), torch.as_tensor(y)
    for seed in range(10):
        torch.manual_seed(seed)
        net = nets.MLP([10, 50, 1])

        def likelihood(p: Any, batch: Any, net: nn.Module = net) -> Tensor:
            return -((torch.func.functional_call(net, p, (batch[0],))[:, 0] - batch[1]) ** 2) / 2

        def prior(p: Any) -> Tensor:
            return -sum((value**2).sum() for value in p.values())  # pyright: ignore[reportReturnType]

        start = {name: value.detach() for name, value in net.named_parameters()}
        assert ggmc.DataDensity(prior, likelihood, data, start).not_exact is None


# Form


def test_a_single_input_without_its_dimension_of_examples_is_refused() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    rows = rows_of(target)
    message = r"training inputs, which are \[n, 2\], got shape \[2\]: for a single input, give x\[None\]"
    one = inputs()[0]
    for call in (
        lambda: target.predict(rows, one),
        lambda: target.prior_predictive(one),
        lambda: target.prediction_features(rows, one),
        lambda: target.score(rows, one, outcomes()[:2]),
        lambda: target.log_likelihoods(rows, (one, outcomes()[:2])),
    ):
        with pytest.raises(BadInput, match=message):
            call()
    with pytest.raises(BadInput, match=r"which are \[n, 2\], got shape \[1, 12, 2\]: give one row per input"):
        target.predict(rows, inputs()[None])
    assert target.predict(rows, one[None]).mean.shape == (1,)


def test_several_inputs_are_checked_one_by_one() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = line()

        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return self.inner(a) + b[:, None]

    x, b = inputs(), outcomes()
    target = ggmc.Posterior(Two(), "gaussian", NORMAL, (x, b), outcomes())
    rows = rows_of(target)
    assert np.allclose(target.predict(rows, (x, b)).mean, target.outputs(rows, (x, b))[..., 0].mean(0))
    with pytest.raises(BadInput, match=r"which are \[n\], got shape \[12, 1\]"):
        target.predict(rows, (x, b[:, None]))
    with pytest.raises(BadInput, match="x must be 2 tensors, as in training, got 1"):
        target.predict(rows, x)


def test_arrays_of_any_layout() -> None:
    x, y = inputs().numpy(), outcomes().numpy()
    frozen = x.copy()
    frozen.flags.writeable = False
    rows = rows_of(ggmc.Posterior(line(), "gaussian", NORMAL, x, y))
    expected = ggmc.Posterior(line(), "gaussian", NORMAL, x, y).potential(rows)
    for given, outcome in ((frozen, y), (x[::-1][::-1], y), (np.asfortranarray(x), y), (x[::-1], y[::-1])):
        assert torch.allclose(ggmc.Posterior(line(), "gaussian", NORMAL, given, outcome).potential(rows), expected)
