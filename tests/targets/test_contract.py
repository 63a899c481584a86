"""What every target must keep to, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import HalfNormal, constraints

import ggmc
from ggmc.bayes import likelihoods, priors
from ggmc.guides.batches import Batches
from ggmc.targets.base import DataTarget, PredictiveTarget, Target
from ggmc.targets.data import as_data
from ggmc.targets.layout import Layout
from tests.support.logistic import logistic
from tests.support.posteriors import NORMAL, inputs, labels, line, outcomes, posterior

F64 = torch.float64


class Banana(Target):
    """A third party's target, with a gradient by hand."""

    def __init__(self) -> None:
        super().__init__(Layout({"x": (), "y": ()}), torch.zeros(2, dtype=F64), not_exact=None)

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        x, y = position.unbind(-1)
        return x**2 / 2 + (y - x**2) ** 2

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        x, y = position.unbind(-1)
        gradient = torch.stack([x - 4 * x * (y - x**2), 2 * (y - x**2)], -1)
        return self.potential(position), gradient

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self.layout.views(position)

    def unconstrain(self, values: Any) -> Tensor:
        return self.layout.flatten(values)

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn(chains, 2, generator=generator, dtype=F64)


class Mean(DataTarget):
    """A third party's target with data: the mean of normal numbers."""

    def __init__(self) -> None:
        super().__init__(Layout({"mean": ()}), torch.zeros(1, dtype=F64), not_exact=None, stops_early=True)
        self.data = as_data(outcomes(50), self.device)
        self.num_data = len(self.data)

    def _terms(self, position: Tensor, y: Tensor) -> Tensor:
        return -((y - position) ** 2) / 2

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        total = position.square().sum(-1) / 2
        for begin in range(0, self.num_data, 10):
            total = total - self._terms(position, self.data.slice(begin, begin + 10)).sum(-1)
            if limit is not None and (total > limit).all():
                break
        return total

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        gradient = position - (self.data.slice(0, self.num_data) - position).sum(-1, keepdim=True)
        return self.potential(position), gradient

    def batch_gradient(self, position: Tensor, batch: Any, weights: Tensor) -> Tensor:
        return position - (weights * (batch - position)).sum(-1, keepdim=True)

    def batch_hessian_products(self, position: Tensor, batch: Any, weights: Tensor, directions: Tensor) -> Tensor:
        return (1 + weights.sum(-1, keepdim=True)) * directions

    def log_likelihoods(self, position: Tensor, data: Any = None) -> Tensor:
        return self._terms(position, self.data.slice(0, self.num_data) if data is None else data)

    def rows_at_once(self, examples: int) -> int:
        return 1000

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self.layout.views(position)

    def unconstrain(self, values: Any) -> Tensor:
        return self.layout.flatten(values)

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn(chains, 1, generator=generator, dtype=F64)


def constrained() -> ggmc.Density:
    start = {
        "scale": torch.tensor([0.5, 2.0], dtype=F64),
        "shares": torch.tensor([0.2, 0.3, 0.5], dtype=F64),
        "free": torch.zeros(2, 2, dtype=F64),
    }

    def log_prob(p: dict[str, Tensor]) -> Tensor:
        return -p["scale"].sum() + 3 * p["shares"].log().sum() - (p["free"] * p["scale"]).square().sum()

    return ggmc.Density(log_prob, start, {"scale": constraints.positive, "shares": constraints.simplex})


def from_pyro() -> ggmc.Density:
    pyro = pytest.importorskip("pyro")
    zero = torch.zeros((), dtype=F64)

    def model(y: Tensor) -> None:
        mean = pyro.sample("mean", pyro.distributions.Normal(zero, 5.0))
        noise = pyro.sample("noise", pyro.distributions.HalfNormal(zero + 2.0))
        pyro.sample("y", pyro.distributions.Normal(mean, noise).expand(y.shape).to_event(1), obs=y)

    return ggmc.from_pyro(model, outcomes())


def classifier() -> ggmc.Posterior:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    return ggmc.Posterior(net, "categorical", NORMAL, inputs(), labels())


def hierarchical(**options: Any) -> ggmc.Posterior:
    return posterior(
        prior={"*.bias": priors.Horseshoe(0.5), "*": priors.Hierarchical()},
        likelihood=likelihoods.Gaussian(HalfNormal(1.0)),
        **options,
    )


def free_function() -> ggmc.Posterior:
    def terms(output: Tensor, y: Tensor) -> Tensor:
        return -(output[:, 0] - y).square()

    return ggmc.Posterior(line(), terms, NORMAL, inputs(), outcomes())


TARGETS: dict[str, Callable[[], Target]] = {
    "density": constrained,
    "pyro": from_pyro,
    "data density": logistic,
    "data density with a bound": lambda: logistic(400, bound=0.0),
    "one after another": lambda: logistic(vectorise=False),
    "regression": posterior,
    "classification": classifier,
    "hierarchical": hierarchical,
    "prior start": lambda: hierarchical(start="prior"),
    "module start": lambda: posterior(start="module", jitter=0.1),
    "likelihood of the user's own": free_function,
    "third party": Banana,
    "third party with data": Mean,
}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]()


def positions(target: Target, chains: int = 3) -> Tensor:
    noise = torch.randn(chains, target.layout.size, generator=torch.Generator().manual_seed(5), dtype=F64)
    return target.start + 0.3 * noise.to(target.dtype)


def test_a_target_states_what_it_is(target: Target) -> None:
    assert target.start.shape == (target.layout.size,)
    assert (target.dtype, target.device) == (target.start.dtype, target.start.device)
    assert target.not_exact is None
    assert target.potential(target.start[None]).isfinite().all()


def test_shapes_and_precision(target: Target) -> None:
    rows = positions(target)
    potential, gradient = target.potential_and_gradient(rows)
    for found in (potential, target.potential(rows)):
        assert found.shape == (3,)
        assert found.dtype == F64
        assert not found.requires_grad
    assert gradient.shape == rows.shape
    assert gradient.dtype == target.dtype
    assert not gradient.requires_grad


def test_rows_are_independent_and_the_potential_is_one_function(target: Target) -> None:
    rows = positions(target)
    before = rows.clone()
    whole = target.potential(rows)
    torch.testing.assert_close(target.potential_and_gradient(rows)[0], whole)
    for i, row in enumerate(rows):
        torch.testing.assert_close(target.potential(row[None])[0], whole[i])
    assert torch.equal(target.potential(rows), whole)
    assert torch.equal(rows, before)


def test_the_gradient_is_that_of_the_potential(target: Target) -> None:
    rows = positions(target, 2)
    gradient = target.potential_and_gradient(rows)[1]
    step = 1e-5
    for column in range(target.layout.size):
        away = torch.zeros_like(rows)
        away[:, column] = step
        slope = (target.potential(rows + away) - target.potential(rows - away)) / (2 * step)
        torch.testing.assert_close(gradient[:, column], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_rows_and_values_are_two_forms_of_the_same(target: Target, shape: tuple[int, ...]) -> None:
    rows = positions(target, 6)[:1].squeeze(0) if not shape else positions(target, 6)[: 3 * len(shape)]
    rows = rows.view(*shape, -1)[..., : target.layout.size]
    values = target.constrain(rows)
    assert all(value.shape[: len(shape)] == shape for value in values.values())
    torch.testing.assert_close(target.unconstrain(values), rows)


def test_chains_start_where_potential_and_gradient_are_finite(target: Target) -> None:
    starts = target.starts(4, torch.Generator(target.device).manual_seed(0))
    assert starts.shape == (4, target.layout.size)
    assert starts.dtype == target.dtype
    potential, gradient = target.potential_and_gradient(starts)
    assert potential.isfinite().all()
    assert gradient.isfinite().all()
    assert torch.equal(starts, target.starts(4, torch.Generator(target.device).manual_seed(0)))
    assert torch.pdist(starts).min() > 0  # R̂ has something to compare


def test_a_limit_changes_a_potential_only_where_all_rows_exceed_theirs(target: Target) -> None:
    rows = positions(target)
    whole = target.potential(rows)
    for limit in (whole + 1, whole - 1e-13, torch.cat([whole[:1] + 1, whole[1:] - 50])):
        found = target.potential(rows, limit)
        if not (whole > limit).all():
            assert torch.equal(found, whole)
    below = target.potential(rows, whole - 50)
    assert ((below > whole - 50) & (below <= whole + 1e-9)).all()
    if not target.stops_early:
        assert torch.equal(below, whole)


def test_advice_is_in_the_form_of_the_rows(target: Target) -> None:
    if target.advice.mass is not None:
        mass = target.advice.mass()
        assert mass is not None
        assert mass.shape in ((target.layout.size,), (target.layout.size,) * 2)
        assert mass.isfinite().all()
        assert (mass > 0).all()


DATA_TARGETS = [name for name in TARGETS if name not in ("density", "pyro", "third party")]


@pytest.fixture(params=DATA_TARGETS)
def data_target(request: pytest.FixtureRequest) -> DataTarget:
    found = TARGETS[request.param]()
    assert isinstance(found, DataTarget)
    return found


def test_the_terms_and_the_prior_make_up_the_potential(data_target: DataTarget) -> None:
    rows = positions(data_target)
    terms = data_target.log_likelihoods(rows)
    assert terms.shape == (3, data_target.num_data)
    assert terms.dtype == F64
    assert data_target.num_data == len(data_target.data)
    everything = data_target.data.take(torch.arange(data_target.num_data).expand(3, -1))
    nothing = torch.zeros(3, data_target.num_data, dtype=F64)
    prior_slope = data_target.batch_gradient(rows, everything, nothing)

    def prior(at: Tensor) -> Tensor:
        return data_target.potential(at) + data_target.log_likelihoods(at).sum(1)

    step = 1e-6 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(0), dtype=F64)
    rise = (prior(rows + step) - prior(rows - step)) / 2
    torch.testing.assert_close(rise, (prior_slope * step).sum(1), rtol=1e-4, atol=1e-9)


def test_batches_average_to_the_whole(data_target: DataTarget) -> None:
    batches = Batches(data_target.data, 7)
    row = positions(data_target, 1)
    rows = row.expand(batches.count, -1)
    gradient = data_target.batch_gradient(rows, *batches[torch.arange(batches.count)])
    _, slope = data_target.potential_and_gradient(row)
    torch.testing.assert_close(gradient.mean(0, keepdim=True), slope)


def test_hessian_products_are_those_of_the_gradient(data_target: DataTarget) -> None:
    rows, step = positions(data_target, 2), 1e-6
    batch, weights = Batches(data_target.data, 5)[torch.tensor([0, 1])]
    directions = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0), dtype=F64)

    def gradient(at: Tensor) -> Tensor:
        return data_target.batch_gradient(at, batch, weights)

    expected = (gradient(rows + step * directions) - gradient(rows - step * directions)) / (2 * step)
    found = data_target.batch_hessian_products(rows, batch, weights, directions)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_memory_is_counted_in_rows(data_target: DataTarget) -> None:
    assert data_target.rows_at_once(1) >= data_target.rows_at_once(1000) >= 1


@pytest.mark.parametrize("name", ["regression", "classification", "hierarchical", "likelihood of the user's own"])
def test_targets_that_predict(name: str) -> None:
    target: Any = TARGETS[name]()
    assert isinstance(target, PredictiveTarget)
    rows = positions(target)
    x = target.data.slice(0, 5)[0]
    assert len(target.predict(rows, x, 1).mean) == 5
    assert len(target.prediction_features(rows, x)) == 3
    assert len(target.prediction_features(rows)) == 3
    assert all(name in target.constrain(rows) for name in target.watched_latents())
    assert "lppd" in target.score(rows, *target.data.slice(0, 5)[:2])


# An interface that is not complete, or does not say whether it is exact, is refused by Python itself


def test_an_incomplete_target_cannot_be_made() -> None:
    class Incomplete(Target):
        def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
            return position.sum(-1)

    with pytest.raises(TypeError, match="abstract method"):
        Incomplete(Layout({"x": ()}), torch.zeros(1), not_exact=None)  # pyright: ignore[reportAbstractUsage]


def test_exactness_must_be_stated() -> None:
    class Silent(Banana):
        def __init__(self) -> None:
            Target.__init__(self, Layout({"x": (), "y": ()}), torch.zeros(2))  # pyright: ignore[reportCallIssue]

    with pytest.raises(TypeError, match="not_exact"):
        Silent()
