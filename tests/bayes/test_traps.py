from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import HalfNormal, Normal
from torch.utils.data import Dataset, TensorDataset

import ggmc
from ggmc.bayes import likelihoods, priors
from ggmc.errors import BadInput
from ggmc.sampling.sample import Chains
from ggmc.targets.batched import OverChains
from ggmc.trace import diagnostics

F64 = torch.float64
NORMAL = priors.Gaussian(1.0)
X, Y = (
    torch.randn(12, 2, generator=torch.Generator().manual_seed(0)),
    torch.randn(12, generator=torch.Generator().manual_seed(1)),
)
LABELS = torch.arange(12) % 2
QUICK: dict[str, Any] = {"draws": 8, "warmup": 8, "chains": 2, "progress": False}


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[:, 0]


class Asking(Flat):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (2 if x.shape[0] < 0 or super().forward(x).sum().item() > 1e9 else 1)


def test_a_module_that_cannot_be_vectorised_predicts() -> None:
    trace = ggmc.sample(ggmc.Posterior(Asking(), "gaussian", NORMAL, X, Y), **QUICK)
    assert not any("could not be diagnosed" in w for w in trace.warnings)
    trace.predict(X)


@pytest.mark.parametrize("likelihood", ["gaussian", likelihoods.Gaussian(HalfNormal(1.0)), "poisson"])
@pytest.mark.parametrize("number", [1, 1001])
def test_one_input_at_a_time(likelihood: Any, number: int) -> None:
    y = Y.abs().round() if likelihood == "poisson" else Y
    target = ggmc.Posterior(Flat(), likelihood, NORMAL, X, y)
    found = target.prior_predictive(torch.randn(number, 2), draws=7)
    assert found.mean.shape == (number,)
    assert found.outcomes.shape == (7, number)


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
    target.potential_and_gradient(target.coordinates.start.expand(2, -1))


def test_unknown_noise_is_diagnosed() -> None:
    target = ggmc.Posterior(
        nn.Linear(2, 1).double(), likelihoods.Gaussian(HalfNormal(1.0)), NORMAL, X.double(), Y.double()
    )
    rows = target.coordinates.start + 0.1 * torch.randn(2, 100, target.layout.size, dtype=F64)
    rows[0, :, target.layout.columns["noise"]] += 5
    values = {n: v.numpy() for n, v in target.constrain(rows).items()}
    trace = ggmc.Trace(
        values, {"lp": np.random.default_rng(0).normal(size=(2, 100))}, ggmc.HMC(0.1, steps=1), target=target
    )
    assert any("noise" in message for message in diagnostics._mixing(trace))


def test_last_layer_sampling_does_not_differentiate_the_rest() -> None:
    target = ggmc.Posterior(
        nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)), "gaussian", NORMAL, X, Y, sampled="1.*", vectorise=False
    )
    target.potential_and_gradient(target.coordinates.start[None])
    assert all(p.grad is None for p in target.module.parameters())


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


def test_labels_in_a_column_are_scored() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "bernoulli", NORMAL, X, LABELS[:, None])
    from ggmc.bayes.score import score

    assert "accuracy" in score(target, torch.zeros(2, 3), X, LABELS[:, None])


def test_prior_starts_are_finite() -> None:
    torch.manual_seed(0)
    net = ggmc.nets.MLP([2, 50, 50, 1])
    target = ggmc.Posterior(net, "poisson", priors.Gaussian(3.0), X, torch.ones(12), start="prior")
    rows = target.starts(4, torch.Generator().manual_seed(0))
    assert target.potential(rows).isfinite().all()
    assert target.potential_and_gradient(rows)[1].isfinite().all()


def test_configurational_draws_are_spread_over_the_run() -> None:
    from ggmc.trace.temperatures import _configurational

    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    theta = np.arange(99.0)[None, :, None]
    trace = ggmc.Trace({"theta": theta}, {"lp": theta[..., 0]}, ggmc.HMC(0.1, steps=1), target=target)
    assert _configurational(trace, 50)[0, -1, 0] > 90**2


def test_no_bar_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc import progress

    seen: list[bool] = []
    real = progress.bar
    monkeypatch.setattr(progress, "bar", lambda *a, **k: seen.append(progress._wanted.get()) or real(*a, **k))
    ggmc.sample(ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y), **QUICK)
    assert not any(seen)


@pytest.mark.parametrize("x", [X.tolist(), torch.tensor(1.0)])
def test_what_is_no_input_is_refused_in_words(x: Any) -> None:
    with pytest.raises(BadInput, match="x and y must"):
        ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, x, Y)


def test_a_law_of_noise_is_one_of_positive_numbers() -> None:
    with pytest.raises(BadInput, match="positive"):
        likelihoods.Gaussian(Normal(1.0, 0.1))


def test_one_chain_of_two_draws_has_temperatures() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    trace = ggmc.sample(target, ggmc.HMC(0.01, steps=1), draws=2, warmup=0, chains=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(trace.temperatures().loc["all", "configurational_low"])


def test_ctrl_c_stops_a_tempering_sweep() -> None:
    seen: list[int] = []

    def watch(moment: Any) -> None:
        seen.append(1)
        if len(seen) == 12:
            raise KeyboardInterrupt

    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    _, traces = ggmc.tempering(target, [1.0, 0.5], watch=watch, **QUICK)
    assert len(traces) == 1


def test_a_gradient_holds_one_chunk_of_large_data_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    expected = target.potential_and_gradient(target.coordinates.start[None])
    monkeypatch.setattr(target, "rows_at_once", lambda examples: 5)
    held = 0
    chunks, with_gradient = target._chunks, OverChains.with_gradient

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal held
        for chunk in chunks(*arguments, **options):
            held += 1
            yield chunk

    def one_held(self: OverChains, *arguments: Any) -> Any:
        nonlocal held
        assert held == 1
        held = 0
        return with_gradient(self, *arguments)

    monkeypatch.setattr(target, "_chunks", counted)
    monkeypatch.setattr(OverChains, "with_gradient", one_held)
    found = target.potential_and_gradient(target.coordinates.start[None])
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


def test_the_prior_predictive_does_not_look_at_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    monkeypatch.setattr(target, "potential_and_gradient", None)
    assert target.prior_predictive(X, draws=5).mean.shape == (12,)


def test_a_stored_run_with_another_annealing_is_refused() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y, vectorise=True)
    runs = [Chains(target, ggmc.GGMC(), 2, 20, 0, anneal=anneal) for anneal in (None, 5.0)]
    with pytest.raises(BadInput, match="anneal"):
        runs[0].load_state_dict(runs[1].state_dict())
