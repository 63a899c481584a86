"""Details of posteriors and their predictions in which a planted bug had gone unseen."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.distributions import HalfNormal
from torch.utils.data import Dataset

import ggmc
from ggmc.bayes import initial_points as starts
from ggmc.bayes import likelihoods, metrics, nets, predict, priors
from ggmc.bayes import score as scores
from ggmc.dynamics.mass import Identity
from ggmc.dynamics.scheme import Dynamics, State
from ggmc.errors import BadInput, NotExact
from ggmc.kernels.ggmc import start_state
from ggmc.targets import data, data_density
from ggmc.targets.data import OnDemand
from ggmc.targets.layout import Layout
from ggmc.trace import diagnostics
from ggmc.trace import temperatures as temperatures_room
from ggmc.warmup import Warmup

F64 = torch.float64
NORMAL = priors.Gaussian(1.0)
WATCHED = ggmc.GGMC(0.001, adjust=False)


def inputs(number: int = 12, width: int = 2, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(number, width, dtype=F64, generator=torch.Generator().manual_seed(0)).to(dtype)


def outcomes(number: int = 12) -> Tensor:
    return torch.randn(number, dtype=F64, generator=torch.Generator().manual_seed(1))


def line(outputs: int = 1) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(2, outputs).double()


def rows_of(target: ggmc.Posterior, number: int = 3) -> Tensor:
    noise = torch.randn(number, target.layout.size, dtype=F64, generator=torch.Generator().manual_seed(2))
    return target.coordinates.start + 0.5 * noise.to(target.dtype)


def trace_of(target: ggmc.Posterior, chains: int = 2, draws: int = 20) -> ggmc.Trace:
    """A trace made up of rows, with nothing sampled."""
    rows = rows_of(target, chains * draws).view(chains, draws, -1)
    lp = -target.potential(rows.flatten(0, 1)).view(chains, draws).numpy()
    values = {name: value.numpy() for name, value in target.constrain(rows).items()}
    return ggmc.Trace(values, {"lp": lp}, WATCHED, target=target)


class Examples(Dataset[Any]):
    """A map-style data set that calls a function."""

    def __init__(self, function: Callable[[int], Any], number: int = 12):
        self.function, self.number = function, number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, i: int) -> Any:
        return self.function(i)


# Modes: what is random or depends on the batch is refused, and predictions do not see it


def dropping(p: float = 0.5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.Dropout(p), nn.Linear(8, 1)).double()


def normalising(**options: Any) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, **options), nn.Linear(4, 1)).double()


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
    with pytest.raises(NotExact, match="another value each time"):
        ggmc.GGMC(0.1).bind(target)


def test_dropout_that_drops_nothing_is_exact() -> None:
    assert ggmc.Posterior(dropping(0.0), "gaussian", NORMAL, inputs(), outcomes()).not_exact is None


def test_batchnorm_without_statistics_of_its_own_is_refused_in_either_mode() -> None:
    for module in (normalising(track_running_stats=False), normalising(track_running_stats=False).eval()):
        target = ggmc.Posterior(module, "gaussian", NORMAL, inputs(), outcomes())
        assert target.not_exact is not None
        assert "normalises over the batch" in target.not_exact


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


def test_free_views_are_not_scored() -> None:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(6, 1, 8, 8, generator=generator), torch.arange(6) % 3
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    target = ggmc.Posterior(module, "categorical", NORMAL, images, labels, views=nets.FreeViews(pad=2))
    found = target.log_likelihoods(target.coordinates.start[None], (images, labels))[0]
    assert torch.allclose(found.float(), -nn.functional.cross_entropy(module(images), labels, reduction="none"))


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


def test_a_module_with_buffers_is_left_alone() -> None:
    module = normalising()
    before = copy.deepcopy(module.state_dict())
    target = ggmc.Posterior(module, "gaussian", NORMAL, inputs(), outcomes())
    target.potential(rows_of(target))
    target.outputs(rows_of(target), inputs())
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    module.eval()
    assert target.module.training


# Inputs: their precision, their form, and all of their labels


def on_demand(monkeypatch: pytest.MonkeyPatch, function: Callable[[int], Any]) -> Examples:
    monkeypatch.setattr(data, "IN_MEMORY", 0)
    return Examples(function)


def test_inputs_take_on_the_modules_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    x, labels = inputs(), torch.arange(12) % 2
    module = line(2).float()
    expected = ggmc.Posterior(module, "categorical", NORMAL, x.float(), labels)
    rows = rows_of(expected)
    large = on_demand(monkeypatch, lambda i: (x[i], int(labels[i])))
    for target in (
        ggmc.Posterior(module, "categorical", NORMAL, x, labels),
        ggmc.Posterior(module, "categorical", NORMAL, large),
    ):
        assert torch.allclose(target.potential(rows), expected.potential(rows), rtol=1e-6)
        slopes = target.potential_and_gradient(rows)[1]
        assert torch.allclose(slopes, expected.potential_and_gradient(rows)[1], atol=1e-4)
        assert torch.equal(target.outputs(rows, x), expected.outputs(rows, x.float()))
        assert torch.allclose(target.log_likelihoods(rows, (x, labels)), expected.log_likelihoods(rows), rtol=1e-5)
        assert target.watched(rows).shape == (3, 24)
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
    assert np.isfinite(trace_of(target).score(given, outcomes())["rmse"])


def test_all_labels_are_looked_at() -> None:
    labels = torch.zeros(12, dtype=torch.long)
    labels[11] = 7
    with pytest.raises(BadInput, match="got 7 in row 11"):
        ggmc.Posterior(line(2), "categorical", NORMAL, inputs(), labels)


def test_the_bound_is_the_likelihoods() -> None:
    x, labels = inputs(), torch.arange(12) % 2
    assert ggmc.Posterior(line(2), "categorical", NORMAL, x, labels).bound == 0.0
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


def test_a_sum_stops_only_where_all_chains_are_certain_by_more_than_rounding() -> None:
    read: list[int] = []

    def log_likelihood(w: Tensor, batch: Tensor) -> Tensor:
        read.append(len(batch))
        return -torch.where(batch < 100, w.square().sum(), 0.0)  # all of U comes with the first chunk

    numbers = torch.arange(2000.0, dtype=F64)
    start = torch.ones(2, dtype=F64)
    target = ggmc.DataDensity(lambda w: w.sum() * 0, log_likelihood, numbers, start, bound=0.0, vectorise=False)
    rows = torch.tensor([[3.0, 0.0], [1.0, 1.0]], dtype=F64)
    whole = target.potential(rows)
    assert whole.tolist() == [900.0, 200.0]
    for gap, chunks in ((torch.tensor([10.0, 10.0]), 1), (torch.tensor([10.0, -10.0]), 20), (1e-12 * whole, 20)):
        read.clear()
        assert torch.equal(target.potential(rows, whole - gap), whole)
        assert sum(read) == 100 * chunks * len(rows)


def density(log_likelihood: Any, numbers: Tensor, **options: Any) -> ggmc.DataDensity:
    start = torch.ones(1, dtype=numbers.dtype)
    return ggmc.DataDensity(lambda w: w.sum() * 0, log_likelihood, numbers, start, vectorise=False, **options)


def test_what_is_still_to_come_is_counted_once() -> None:
    target = density(lambda w, batch: -1 - batch * (w - 1) ** 2, torch.ones(2000, dtype=F64), bound=-1.0)
    rows = torch.ones(1, 1, dtype=F64)
    limit = torch.tensor([2010.0], dtype=F64)
    assert target.potential(rows, limit).item() == 2000.0


def test_one_term_above_the_bound_is_seen() -> None:
    terms = torch.full((2000,), -5.0, dtype=F64)
    terms[1234] = 0.5
    target = density(lambda w, batch: batch * w, terms, bound=0.0)
    with pytest.raises(BadInput, match=r"a term of 0\.5, above its declared bound of 0"):
        target.potential(torch.ones(1, 1, dtype=F64))


def test_terms_in_single_precision_are_summed_in_double() -> None:
    terms = torch.ones(64)
    terms[0] = 2.0**24  # to which single precision cannot add one
    target = density(lambda w, batch: -batch * w, terms)
    rows = torch.ones(2, 1)
    assert target.potential(rows).tolist() == [2.0**24 + 63] * 2
    assert target.potential_and_gradient(rows)[0].tolist() == [2.0**24 + 63] * 2


# Starts


def test_torchs_own_generator_is_not_touched() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes(), start="prior")
    module, rows = line(), rows_of(target)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    target.starts(2, torch.Generator().manual_seed(0))
    starts.initialised(target, 2, torch.Generator().manual_seed(0))
    target.prior_predictive(inputs(), draws=3)
    predict.predict(target, rows, inputs())
    target.mass()
    ggmc.Posterior(module, "gaussian", NORMAL, inputs(), outcomes())
    assert torch.equal(before, torch.get_rng_state())


def test_new_initialisations_are_those_of_the_weights_where_scales_are_unknown() -> None:
    prior = {"bias": NORMAL, "*": priors.Horseshoe(0.1)}
    target = ggmc.Posterior(line(), "gaussian", prior, inputs(), outcomes())
    rows = starts.initialised(target, 5, torch.Generator().manual_seed(0))
    assert torch.equal(rows[0], target.coordinates.start)
    values = target.constrain(rows)
    largest = 1 / math.sqrt(2)  # of nn.Linear, which draws uniformly from ± 1/√fan_in
    assert values["weight"].abs().max() <= largest
    assert values["weight"][1:].abs().max() > largest / 4
    assert torch.pdist(values["weight"].flatten(1)).min() > 0
    assert torch.allclose(values["weight.global"], torch.full((5,), 0.1, dtype=F64))


def test_weights_that_no_layer_draws_anew_are_shuffled() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([[0.1, -0.7, 0.3, 0.5], [1.1, 0.2, -0.4, 0.9]]))
            self.gain = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight * self.gain).sum(-1)

    target = ggmc.Posterior(Own(), "gaussian", NORMAL, inputs(), outcomes())
    values = target.constrain(starts.initialised(target, 4, torch.Generator().manual_seed(0)))
    weights = values["weight"].flatten(1)
    assert torch.pdist(weights).min() > 0
    assert torch.equal(weights.sort().values, weights[:1].sort().values.expand(4, -1))
    assert torch.equal(values["gain"], torch.ones(4, 4))


def test_an_optimisation_that_fails_leaves_the_start_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "RATE", 1e6)
    monkeypatch.setattr(starts, "STEPS", 3)
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    rows = rows_of(target)
    found = starts.optimised(target, rows, torch.Generator().manual_seed(0))
    assert torch.equal(found, rows)


def test_large_networks_take_the_priors_mass() -> None:
    torch.manual_seed(0)
    target = ggmc.Posterior(nn.Linear(2, 400).double(), "gaussian", NORMAL, inputs(), inputs(12, 400))
    warmup = Warmup(ggmc.GGMC(), target, 10)
    assert torch.equal(warmup.mass.velocity_variance(), target.mass().velocity_variance())
    small = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    assert isinstance(Warmup(ggmc.GGMC(), small, 10).mass, Identity)


# Predictions


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("family", [likelihoods.Gaussian, likelihoods.StudentT])
def test_each_draw_predicts_with_its_own_noise(family: Any, shape: tuple[int, ...]) -> None:
    class Shaped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = line(math.prod(shape))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x).view(len(x), *shape)

    y = outcomes(12 * math.prod(shape)).view(12, *shape)
    target = ggmc.Posterior(Shaped(), family(HalfNormal(1.0)), NORMAL, inputs(), y)
    rows = rows_of(target, 5)
    noise = target.constrain(rows)["noise"]
    found = predict.predict(target, rows, inputs(4))
    outside = (4, 3) if shape == (3,) else (4,)
    variance = noise**2 if family is likelihoods.Gaussian else 2 * noise**2  # 4 degrees of freedom
    assert found.mean.shape == outside
    assert found.outcomes is not None
    assert found.outcomes.shape == (5, *outside)
    assert np.allclose(found.aleatoric, variance.mean().item())
    assert np.allclose(found.mean, target.outputs(rows, inputs(4)).mean(0).reshape(outside))


def test_predictions_do_not_depend_on_how_they_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    for likelihood, outputs, y in (("gaussian", 1, outcomes()), ("categorical", 3, torch.arange(12) % 3)):
        target = ggmc.Posterior(line(outputs), likelihood, NORMAL, inputs(), y)
        rows, x = rows_of(target, 7), inputs(11)
        whole, terms = predict.predict(target, rows, x), target.log_likelihoods(rows)
        lppd = metrics.lppd(terms)
        with monkeypatch.context() as patch:
            patch.setattr(predict, "EXAMPLES_AT_ONCE", 4)
            patch.setattr(scores, "EXAMPLES_AT_ONCE", 5)
            patch.setattr(data_density, "CHUNK_MEMORY", 10 * target._example_bytes)
            assert target.rows_at_once(4) == 2
            parts = predict.predict(target, rows, x)
            assert torch.allclose(target.log_likelihoods(rows), terms)
            assert torch.allclose(target.log_likelihoods(rows, (inputs(), y)), terms)
            assert math.isclose(scores.score(target, rows, inputs(), y)["lppd"], lppd)
        for name in ("mean", "total", "aleatoric", "epistemic"):
            assert np.allclose(getattr(parts, name), getattr(whole, name)), name
        if whole.outcomes is not None:
            assert parts.outcomes is not None
            assert parts.outcomes.shape == whole.outcomes.shape == (7, 11)
            # Drawn, so not the same; but each about the output of its own draw and input.
            away = parts.outcomes - target.outputs(rows, x)[..., 0].numpy()
            assert np.abs(away).max() < 6


def test_inputs_to_predict_for_are_checked() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    bad = inputs()
    bad[3, 1] = math.nan
    with pytest.raises(BadInput, match="x has nan in row 3"):
        predict.predict(target, rows_of(target), bad)
    with pytest.raises(BadInput, match="at least one row"):
        predict.predict(target, rows_of(target), inputs()[:0])


def test_thinned_draws_and_seeds() -> None:
    x, y = inputs(), outcomes()
    trace = trace_of(ggmc.Posterior(line(), "gaussian", NORMAL, x, y))
    outputs = trace.target.outputs(trace.rows()[:, ::4].flatten(0, 1), x)[..., 0].numpy()
    thinned = trace.predict(x, thin=4)
    assert np.allclose(thinned.mean, outputs.mean(0))
    drawn = [trace.predict(x, seed=seed).outcomes for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1])  # pyright: ignore[reportArgumentType]
    assert not np.array_equal(drawn[0], drawn[2])  # pyright: ignore[reportArgumentType]
    terms = stats.norm.logpdf(y.numpy(), outputs, 1.0)
    assert math.isclose(trace.score(x, y, thin=4)["lppd"], np.log(np.exp(terms).mean(0)).mean())
    assert np.allclose(trace.log_likelihood(thin=4), terms.reshape(2, 5, 12))


def test_scores() -> None:
    x, y = inputs(), outcomes()
    trace = trace_of(ggmc.Posterior(line(), likelihoods.Gaussian(0.5), NORMAL, x, y))
    lower, upper = trace.predict(x).interval(0.9)
    inside = (lower <= y.numpy()) & (y.numpy() <= upper)
    assert 0 < inside.mean() < 1
    assert trace.score(x, y)["coverage"] == inside.mean()
    assert trace.score(x, y[:, None]) == trace.score(x, y)
    several = ggmc.Posterior(line(2), "bernoulli", NORMAL, x, inputs().gt(0).long())
    assert set(trace_of(several).score(x, inputs().gt(0))) == {"lppd"}


# Temperatures


def test_the_kinetic_interval_is_that_of_chi_squared() -> None:
    generator = np.random.default_rng(0)
    seen = generator.chisquare(5, (2, 6)) / 5  # too few draws for autocorrelations
    mean, low, high = temperatures_room._kinetic(seen, 5, 0.9)
    degrees = 5 * 12
    assert mean == seen.mean()
    assert math.isclose(low, degrees * mean / stats.chi2.ppf(0.95, degrees))
    assert math.isclose(high, degrees * mean / stats.chi2.ppf(0.05, degrees))
    slow = np.repeat(generator.normal(1, 0.1, (2, 50)), 20, axis=1)  # a hundred draws, each told twenty times
    assert 25 < temperatures_room._effective(slow) < 400


def test_batch_means() -> None:
    seen = np.arange(40.0).reshape(2, 20) % 7
    mean, low, high = temperatures_room._batch_means(seen, 0.95)
    means = seen.reshape(2, 10, 2).mean(2).flatten()
    expected = stats.t.interval(0.95, 19, loc=means.mean(), scale=stats.sem(means))
    assert np.allclose([mean, low, high], [means.mean(), *expected])


def test_temperatures_of_tensors_add_up() -> None:
    target = ggmc.Posterior(line(), "gaussian", NORMAL, inputs(), outcomes())
    trace = ggmc.sample(target, ggmc.HMC(0.1, steps=2), draws=40, warmup=0, chains=2, progress=False)
    table = trace.temperatures(draws=10)
    for kind in ("kinetic", "configurational"):
        assert math.isclose(table.loc["all", kind], (2 * table.loc["weight", kind] + table.loc["bias", kind]) / 3)
        assert table.loc["weight", kind] != table.loc["bias", kind]
    rows = trace.rows()[:, np.linspace(0, 39, 10).round().astype(int)].flatten(0, 1)  # spread over the whole run
    products = rows * target.potential_and_gradient(rows)[1]
    assert math.isclose(table.loc["all", "configurational"], products.mean().item())


def test_kinetic_temperatures_are_means_over_each_tensor() -> None:
    momentum = torch.tensor([[1.0, 2.0, 3.0]], dtype=F64)
    state = State(torch.zeros_like(momentum), momentum, None, None)
    found = diagnostics.kinetic_temperatures(state, Identity(), Layout({"a": (2,), "b": (1,)}))
    assert found.tolist() == [[2.5, 9.0]]


def test_a_tempering_table_keeps_the_order_asked_for() -> None:
    target = ggmc.Density(lambda x: (x**2).sum() / -2 - 7, torch.zeros(2, dtype=F64))
    kernel = replace(ggmc.HMC(0.1, steps=1), temperature=3.0)
    table, traces = ggmc.tempering(target, [0.5, 2.0, 1.0], kernel, draws=8, warmup=0, chains=2, progress=False)
    assert list(table.index) == [0.5, 2.0, 1.0]
    for temperature, trace in traces.items():
        assert table.loc[temperature, "potential"] == -trace.stats["lp"].mean() > 7
        assert table.loc[temperature, "step_size"] == 0.1


@pytest.mark.parametrize("steps", [None, 3])
def test_an_annealed_warm_up_decides_at_its_own_temperature(steps: int | None) -> None:
    target = ggmc.Density(lambda x: (x**2).sum() / -2, torch.zeros(5, dtype=F64))
    warmup = Warmup(ggmc.GGMC(steps=steps), target, 100, anneal=8.0)
    generator = torch.Generator().manual_seed(0)
    at_rest = Dynamics(0.0, 0.0, 8.0, Identity())
    state = start_state(target, warmup.field, torch.ones(4, 5, dtype=F64), at_rest, generator)
    for _ in range(3):
        temperature = warmup.temperature
        assert temperature > 6
        state, info = warmup.step(state, generator)
        assert torch.allclose(info.log_accept, -info.energy_error / temperature)
