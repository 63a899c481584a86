from __future__ import annotations

import copy
import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import HalfNormal, Normal
from torch.utils.data import TensorDataset

import ggmc
from ggmc.bayes import likelihoods, nets, priors
from ggmc.errors import BadInput, NotExact

F64 = torch.float64
NORMAL = priors.Gaussian(1.0)


def regression(number: int = 30) -> tuple[Tensor, Tensor]:
    x = torch.linspace(-1, 1, number, dtype=F64)[:, None]
    return x, torch.sin(3 * x) + 0.1 * torch.randn(x.shape, dtype=F64, generator=torch.Generator().manual_seed(0))


def small_net() -> nn.Module:
    torch.manual_seed(0)
    return nets.MLP([1, 5, 1], nn.Tanh).double()


def posterior(**options: Any) -> ggmc.Posterior:
    module = options.pop("module", None) or small_net()
    likelihood = options.pop("likelihood", likelihoods.Gaussian(0.2))
    prior = options.pop("prior", NORMAL)
    return ggmc.Posterior(module, likelihood, prior, *options.pop("data", regression()), **options)


def rows_of(target: ggmc.Posterior, number: int = 3) -> Tensor:
    noise = torch.randn(number, target.layout.size, dtype=F64, generator=torch.Generator().manual_seed(1))
    return target.coordinates.start + 0.3 * noise.to(target.dtype)


# The potential


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
    row = everything.coordinates.start.clone()
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
    scales = -sum(priors.total_log_prob(law, free[name]) for name, law in target._latent_laws.items())
    _, jacobian = target.coordinates.values(target.layout.views(rows[0]))
    data = -target.log_likelihoods(rows[:1]).sum()
    assert torch.allclose(target.potential(rows[:1])[0], own + scales - jacobian + data)


def test_datasets_and_arrays() -> None:
    x, y = regression()
    rows = rows_of(posterior())
    expected = posterior().potential(rows)
    for data in ((TensorDataset(x, y),), (x.numpy(), y.numpy()), (x.float().double(), y)):
        found = posterior(data=data).potential(rows)
        assert torch.allclose(found, expected, rtol=1e-6)


def test_frozen_views_are_averaged_and_exact() -> None:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(12, 1, 8, 8, generator=generator), torch.randint(3, (12,), generator=generator)
    torch.manual_seed(0)
    module, views = nets.CNN(classes=3, widths=(4,)), nets.FrozenViews(3, pad=1)
    target = ggmc.Posterior(module, "categorical", NORMAL, images, labels, views=views)
    assert target.not_exact is None
    rows = target.coordinates.start[None]
    seen = views.apply(images, views.codes(12))
    terms = torch.stack([-nn.functional.cross_entropy(module(seen[:, k]), labels, reduction="none") for k in range(3)])
    assert torch.allclose(target.log_likelihoods(rows)[0], terms.mean(0).double(), atol=1e-5)
    assert torch.allclose(target.outputs(rows, images)[0], module(images), atol=1e-6)  # predictions see what is there
    plain = target.log_likelihoods(rows, (images, labels))[0]
    assert torch.allclose(
        plain, -nn.functional.cross_entropy(module(images), labels, reduction="none").double(), atol=1e-5
    )


# Exactness


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
def test_what_is_not_exact_is_refused_but_can_be_watched(module: nn.Module, message: str) -> None:
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


# Starts


def test_starts() -> None:
    def begin(start: str, chains: int = 3) -> tuple[ggmc.Posterior, Tensor]:
        target = posterior(start=start)
        return target, target.starts(chains, torch.Generator().manual_seed(0))

    target, rows = begin("module")
    assert torch.equal(rows, target.coordinates.start.expand(3, -1))
    prior, rows = begin("prior", 400)
    assert abs(rows.mean().item()) < 6 / math.sqrt(rows.numel())
    assert abs(rows.var().item() - 1) < 6 * math.sqrt(2 / rows.numel())
    assert torch.equal(rows, prior.starts(400, torch.Generator().manual_seed(0)))
    optimised, rows = begin("map")
    potentials = optimised.potential(rows)
    assert (potentials < target.potential(target.coordinates.start[None]) - 10).all()
    assert torch.pdist(rows).min() > 0.1  # every chain its own
    again = torch.Generator().manual_seed(0)
    assert torch.allclose(rows, optimised.starts(3, again))
    with pytest.raises(BadInput, match="start must be one of module, prior, map, got 'mle'"):
        posterior(start="mle")


def test_learnt_noise_is_found_and_fixed() -> None:
    target = posterior(likelihood=likelihoods.Gaussian("learnt"))
    noise: Any = target.likelihood
    assert isinstance(noise, likelihoods.Gaussian)
    assert isinstance(noise.noise, float)
    assert 0.03 < noise.noise < 0.4
    assert "noise" not in target.layout.shapes


def test_the_mass_is_the_priors_precision() -> None:
    target = posterior(prior={"*.bias": priors.Gaussian(3.0), "*": priors.Gaussian(2.0, fan_in=True)})
    variance = target.mass().velocity_variance()
    expected = {"layers.0.weight": 4.0, "layers.0.bias": 9.0, "layers.1.weight": 4.0 / 5, "layers.1.bias": 9.0}
    for name, value in expected.items():
        share = variance[target.layout.columns[name]] / value
        assert (share == share[0]).all()
        assert 0.4 < share[0] < 2.5


# Bad input


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


# What a trace tells


@pytest.fixture(scope="module")
def trace() -> ggmc.Trace:
    module = nn.Linear(1, 1).double()
    return ggmc.sample(posterior(module=module), draws=200, warmup=300, chains=4, progress=False)


def bayesian_line() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of slope and intercept in closed form, and the design matrix."""
    x, y = (part.numpy() for part in regression())
    design = np.hstack([x, np.ones_like(x)])
    covariance = np.linalg.inv(design.T @ design / 0.04 + np.eye(2))
    return covariance @ design.T @ y[:, 0] / 0.04, covariance, design


def test_predictions_agree_with_the_closed_form(trace: ggmc.Trace) -> None:
    mean, covariance, design = bayesian_line()
    prediction = trace.predict(regression()[0])
    variance = np.einsum("ni,ij,nj->n", design, covariance, design)
    error = np.sqrt(variance / 300)
    assert (np.abs(prediction.mean - design @ mean) < 6 * error).all()
    assert np.allclose(prediction.aleatoric, 0.04)
    assert np.allclose(prediction.epistemic, variance, rtol=0.5)
    assert np.allclose(prediction.total, prediction.aleatoric + prediction.epistemic)
    lower, upper = prediction.interval(0.9)
    half = 1.645 * np.sqrt(variance + 0.04)
    assert np.allclose((upper - lower) / 2, half, rtol=0.2)
    with pytest.raises(BadInput, match="numbers, not classes"):
        _ = prediction.label


def test_likelihoods_and_scores(trace: ggmc.Trace) -> None:
    x, y = regression()
    terms = trace.log_likelihood()
    assert terms.shape == (4, 200, 30)
    slope, intercept = trace["weight"][1, 7, 0, 0], trace["bias"][1, 7, 0]
    expected = Normal(slope * x[:, 0] + intercept, 0.2).log_prob(y[:, 0]).numpy()
    assert np.allclose(terms[1, 7], expected)
    scores = trace.score(x, y)
    lppd = np.log(np.exp(terms).mean((0, 1))).mean()
    assert math.isclose(scores["lppd"], lppd, rel_tol=1e-6)
    assert math.isclose(scores["rmse"], float(np.sqrt(((trace.predict(x).mean - y[:, 0].numpy()) ** 2).mean())))
    assert set(scores) == {"lppd", "rmse", "coverage"}
    import arviz

    inference = trace.to_arviz(log_likelihood=True)
    assert inference.log_likelihood["y"].shape == (4, 200, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few draws leave some of the weights uncertain
        assert 0 < scores["lppd"] - arviz.loo(inference).elpd_loo / 30 < 0.5


def test_temperatures_have_their_intervals(trace: ggmc.Trace) -> None:
    table = trace.temperatures(draws=200, level=0.9999)
    assert list(table.index) == ["all", "weight", "bias"]
    for kind in ("kinetic", "configurational"):
        assert (table[f"{kind}_low"] < 1).all()
        assert (table[f"{kind}_high"] > 1).all()
    narrow = trace.temperatures(draws=200, level=0.5)
    assert (narrow["kinetic_high"] < table["kinetic_high"]).all()


def test_a_hot_chain_is_seen_to_be_hot() -> None:
    module = nn.Linear(1, 1).double()
    kernel = ggmc.GGMC(0.05, friction=10.0, steps=5, temperature=4.0)
    warm = ggmc.sample(posterior(module=module), kernel, draws=150, warmup=20, chains=4, progress=False)
    table = warm.temperatures(draws=100, level=0.99)
    assert 3 < table.loc["all", "kinetic"] < 5
    assert table.loc["all", "kinetic_low"] > 2


def test_predictions_are_what_mixing_is_judged_by(trace: ggmc.Trace) -> None:
    summary = trace.predictive_summary(regression()[0])
    assert len(summary) == 30
    assert (summary["r_hat"] < 1.1).all()
    stuck = copy.copy(trace)
    stuck.draws = {name: values.copy() for name, values in trace.draws.items()}
    stuck.draws["bias"][0] += 5
    from ggmc.trace import diagnostics

    assert any("disagree on prediction" in message for message in diagnostics.check(stuck))


def test_permuted_hidden_units_do_not_alarm() -> None:
    target = posterior()
    rows = target.coordinates.start.expand(2, 200, -1) + 0.1 * torch.randn(2, 200, target.layout.size, dtype=F64)
    values = {name: value.clone() for name, value in target.constrain(rows).items()}
    order = [4, 3, 2, 1, 0]
    for name, axis in (("layers.0.weight", 1), ("layers.0.bias", 1), ("layers.1.weight", 2)):
        values[name][1] = values[name][1].index_select(axis, torch.tensor(order))
    seen = target.watched(target.unconstrain(values).flatten(0, 1)).unflatten(0, (2, 200))
    gap = (seen[0].mean(0) - seen[1].mean(0)).abs() / seen.std((0, 1))
    assert gap.max() < 1


def test_class_predictions() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, generator=generator)
    y = (x[:, 0] > 0).long()
    trace = ggmc.sample(
        ggmc.Posterior(nn.Linear(2, 2), "categorical", NORMAL, x, y), draws=100, warmup=200, chains=2, progress=False
    )
    prediction = trace.predict(x)
    assert prediction.probabilities is not None
    outputs = trace.target.outputs(trace.rows().flatten(0, 1), x).double().softmax(-1).numpy()
    assert np.allclose(prediction.probabilities, outputs.mean(0), atol=1e-6)
    entropy = -(outputs * np.log(outputs)).sum(-1).mean(0)
    total = -(prediction.probabilities * np.log(prediction.probabilities)).sum(-1)
    assert np.allclose(prediction.aleatoric, entropy, atol=1e-5)
    assert np.allclose(prediction.total, total, atol=1e-5)
    assert np.allclose(prediction.epistemic, total - entropy, atol=1e-5)
    assert trace.score(x, y)["accuracy"] > 0.9
    with pytest.raises(BadInput, match="classes have no intervals"):
        prediction.interval()
    with pytest.raises(BadInput, match="got 5 in row 0"):
        trace.score(x, y + 5)
    bernoulli = ggmc.Posterior(nn.Linear(2, 1), "bernoulli", NORMAL, x, y)
    shown = bernoulli.prior_predictive(x, draws=7)
    assert shown.probabilities is not None
    assert shown.probabilities.shape == (200, 2)
    assert np.allclose(shown.probabilities.sum(1), 1)


def test_a_trace_without_what_it_takes_says_so() -> None:
    plain = ggmc.Density(lambda w: -(w**2).sum() / 2, torch.zeros(2, dtype=F64))
    trace = ggmc.sample(plain, draws=20, warmup=50, chains=2, progress=False)
    with pytest.raises(BadInput, match=r"predictions need a target such as ggmc\.Posterior"):
        trace.predict(torch.zeros(3, 1))
    trace.target = None
    with pytest.raises(BadInput, match=r"does not have: set trace\.target"):
        trace.temperatures()


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y"),
    [
        ("gaussian", 1, torch.randn(20)),
        (likelihoods.Gaussian(HalfNormal(1.0)), 2, torch.randn(20, 2)),
        ("heteroscedastic", 2, torch.randn(20)),
        ("poisson", 1, torch.randint(4, (20,))),
        ("student-t", 1, torch.randn(20)),
        ("bernoulli", 1, torch.randint(2, (20,))),
        ("categorical", 3, torch.randint(3, (20,))),
        (lambda output, y: -((output[:, 0] - y) ** 2), 1, torch.randn(20)),
    ],
)
def test_every_likelihood_samples_and_predicts(likelihood: Any, outputs: int, y: Tensor) -> None:
    x = torch.randn(20, 3)
    target = ggmc.Posterior(nn.Linear(3, outputs), likelihood, NORMAL, x, y)
    trace = ggmc.sample(target, draws=10, warmup=20, chains=2, progress=False)
    prediction = trace.predict(x)
    assert len(prediction.mean) == 20
    assert np.isfinite(prediction.mean).all()
    assert np.isfinite(trace.score(x, y)["lppd"])
    if prediction.outcomes is not None:
        assert prediction.outcomes.shape[0] == 20
        assert np.isfinite(prediction.interval(0.8)).all()
