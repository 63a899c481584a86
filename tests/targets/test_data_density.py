"""Targets with data: the exact potential, streamed, and its early stop."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal, constraints
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import ggmc
from ggmc.errors import BadInput, NotExact
from ggmc.targets import data_density

F64 = torch.float64


def log_prior(w: Tensor) -> Tensor:
    return -(w**2).sum() / 2


def log_likelihood(w: Tensor, batch: Any) -> Tensor:
    x, s = batch
    return nn.functional.logsigmoid(s * (x @ w))


def examples(number: int = 103, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(number, 3, generator=generator)
    return x.to(dtype), torch.sign(torch.randn(number, generator=generator)).to(dtype)


def logistic(number: int = 103, dtype: torch.dtype = F64, **options: Any) -> ggmc.DataDensity:
    start = torch.zeros(3, dtype=dtype)
    return ggmc.DataDensity(log_prior, log_likelihood, examples(number, dtype), start, **options)


def rows(chains: int = 4, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(chains, 3, generator=torch.Generator().manual_seed(1)).to(dtype)


def direct(position: Tensor) -> Tensor:
    return torch.stack([-(log_prior(w) + log_likelihood(w, examples()).sum()) for w in position])


@pytest.mark.parametrize("chunk", [1, 7, 50, 1000])
@pytest.mark.parametrize("bound", [None, 0.0])
def test_the_potential_is_the_sum_over_all_data(monkeypatch: pytest.MonkeyPatch, chunk: int, bound: Any) -> None:
    target = logistic(bound=bound)
    monkeypatch.setattr(target, "rows_at_once", lambda examples: chunk)
    torch.testing.assert_close(target.potential(rows()), direct(rows()))
    potential, gradient = target.potential_and_gradient(rows())
    torch.testing.assert_close(potential, direct(rows()))
    position = rows().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(direct(position).sum(), position)[0])


def test_sums_are_float64_whatever_the_data() -> None:
    target = logistic(20_003, torch.float32)
    potential = target.potential(rows(dtype=torch.float32))
    assert potential.dtype == F64
    exact = logistic(20_003).potential(rows(dtype=torch.float32).double())
    terms = 20_003 * 2e-7  # each term's own rounding, were they all to add up
    assert (potential - exact).abs().max() < terms


def test_constrained_parameters_carry_their_jacobian() -> None:
    y = torch.randn(40, dtype=F64, generator=torch.Generator().manual_seed(0))
    start = {"mu": torch.zeros((), dtype=F64), "sigma": torch.ones((), dtype=F64)}

    def prior(p: Any) -> Tensor:
        return Normal(0, 2).log_prob(p["mu"]) - p["sigma"]

    def likelihood(p: Any, batch: Tensor) -> Tensor:
        return Normal(p["mu"], p["sigma"]).log_prob(batch)

    bounds = {"sigma": constraints.positive}
    with_data = ggmc.DataDensity(prior, likelihood, y, start, bounds)
    whole = ggmc.Density(lambda p: prior(p) + likelihood(p, y).sum(), start, bounds)
    position = torch.randn(5, 2, dtype=F64, generator=torch.Generator().manual_seed(2))
    for ours, theirs in zip(
        with_data.potential_and_gradient(position), whole.potential_and_gradient(position), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


# Forms of data


class Items(Dataset[Any]):
    def __init__(self, noise: float = 0.0):
        self.x, self.s = examples()
        self.noise = noise

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        return self.x[i] + self.noise * torch.randn(3, dtype=F64), self.s[i]


@pytest.mark.parametrize(
    "data",
    [
        examples(),
        list(examples()),
        TensorDataset(*examples()),
        Items(),
        DataLoader(Items(), batch_size=10, drop_last=True),
    ],
    ids=lambda d: type(d).__name__,
)
def test_every_form_of_data_is_the_same_target(data: Any) -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))
    assert target.num_data == 103
    torch.testing.assert_close(target.potential(rows()), direct(rows()))


def test_a_dict_of_tensors_comes_as_a_dict() -> None:
    x, s = examples()
    target = ggmc.DataDensity(
        log_prior, lambda w, b: log_likelihood(w, (b["x"], b["s"])), {"x": x, "s": s}, torch.zeros(3, dtype=F64)
    )
    torch.testing.assert_close(target.potential(rows()), direct(rows()))


def test_data_too_large_to_keep_are_read_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.data.IN_MEMORY", 1000)
    target = ggmc.DataDensity(log_prior, log_likelihood, Items(), torch.zeros(3, dtype=F64))
    torch.testing.assert_close(target.potential(rows()), direct(rows()))
    kernel = ggmc.GGMC(0.1, guide=ggmc.Minibatch(20))
    trace = ggmc.sample(target, kernel, draws=10, warmup=5, progress=False)
    assert trace["theta"].shape == (4, 10, 3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ((torch.zeros(3, 2), torch.zeros(4)), r"one length.*lengths \[3, 4\]"),
        ((torch.zeros(0, 2),), "at least one example"),
        ("text", "must be tensors, a map-style Dataset or a DataLoader"),
        (((1.0, 2.0),), "tensors with one row per example"),
        (torch.tensor(1.0), "one row per example"),
        (type("Stream", (IterableDataset,), {"__iter__": lambda self: iter([])})(), "by its number"),
    ],
)
def test_other_data_are_refused(data: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))


def test_one_example_is_enough() -> None:
    target = logistic(1)
    trace = ggmc.sample(target, ggmc.GGMC(0.3, guide=ggmc.Minibatch(5)), draws=5, warmup=0, progress=False)
    assert trace.num_draws == 5


# What is refused


@pytest.mark.parametrize(
    ("likelihood", "why"),
    [
        (lambda w, b: log_likelihood(w, b).sum(), r"one term per example, shape \(4,\) for a batch of 4, got \(\)"),
        (lambda w, b: log_likelihood(w, b)[:, None], r"got \(4, 1\)"),
        (lambda w, b: 1.0, "must return a torch tensor, got float"),
        (lambda w, b: log_likelihood(w, b) - torch.inf, "is -inf at the start"),
    ],
)
def test_a_likelihood_of_the_wrong_form(likelihood: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64))


def test_a_parameter_in_neither_prior_nor_likelihood() -> None:
    start = {"w": torch.zeros(3, dtype=F64), "idle": torch.zeros((), dtype=F64)}
    with pytest.raises(BadInput, match="does not depend on idle"):
        ggmc.DataDensity(lambda p: log_prior(p["w"]), lambda p, b: log_likelihood(p["w"], b), examples(), start)


def network(*layers: nn.Module) -> tuple[nn.Module, Any]:
    module = nn.Sequential(nn.Linear(3, 8), *layers, nn.Linear(8, 1)).double()

    def likelihood(p: Any, batch: Any) -> Tensor:
        x, s = batch
        return nn.functional.logsigmoid(s * torch.func.functional_call(module, p, (x,))[:, 0])

    return module, likelihood


def posterior(module: nn.Module, likelihood: Any, data: Any = None) -> ggmc.DataDensity:
    start = {name: value.detach() for name, value in module.named_parameters()}

    def prior(p: dict[str, Tensor]) -> Tensor:
        return -torch.cat([v.flatten() for v in p.values()]).square().sum() / 2

    return ggmc.DataDensity(prior, likelihood, data or examples(), start)


@pytest.mark.parametrize(
    ("layer", "why"),
    [(nn.Dropout(), "another value each time"), (nn.BatchNorm1d(8), "which other examples share its batch")],
)
def test_training_mode_is_refused_with_the_test_and_watched_without(layer: nn.Module, why: str, caplog: Any) -> None:
    torch.manual_seed(0)
    module, likelihood = network(layer)
    caplog.set_level(logging.CRITICAL)
    target = posterior(module, likelihood)
    kernel = ggmc.GGMC(0.01, guide=ggmc.Minibatch(26))
    with pytest.raises(NotExact, match=why):
        kernel.bind(target)
    with pytest.raises(NotExact, match=r"module\.eval\(\)"):
        ggmc.sample(target, kernel, draws=2, warmup=0, progress=False)
    trace = ggmc.sample(target, replace(kernel, adjust=False), draws=2, warmup=0, chains=1, progress=False)
    assert trace.num_draws == 2
    module.eval()
    kernel.bind(posterior(module, likelihood))


def test_data_whose_access_is_random() -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, Items(noise=0.1), torch.zeros(3, dtype=F64))
    with pytest.raises(NotExact, match=r"another example 0 each time it is read \(random augmentation\?\)"):
        ggmc.HMC(0.1, 3).bind(target)
    trace = ggmc.sample(target, ggmc.GGMC(0.01, adjust=False), draws=2, warmup=0, progress=False)
    assert trace.num_draws == 2


# Early stop


def decisions(stop: bool, draws: int = 150) -> Tensor:
    """Where the chains go with steps so long that many are rejected, and whether the sums may stop."""
    target = logistic(400, bound=0.0)
    kernel = ggmc.GGMC(0.1, 0.5, guide=ggmc.Minibatch(100, "iid"), steps=4, mass=[2.0, 1.0, 3.0])
    field = kernel.guide.bind(target)
    init, step = kernel.on(target, field, early_stop=stop)
    generator = torch.Generator().manual_seed(0)
    state = init(torch.zeros(2, 3, dtype=F64), generator)
    seen = []
    for _ in range(draws):
        state, info = step(state, generator)
        seen.append(torch.cat([state.position.flatten(), state.potential, info.accepted.double()]))  # pyright: ignore
    return torch.stack(seen)


def test_the_early_stop_changes_nothing_to_the_last_bit() -> None:
    with_stop, without = decisions(stop=True), decisions(stop=False)
    assert torch.equal(with_stop, without)
    assert 0.1 < with_stop[:, -2:].mean() < 0.9


def test_the_early_stop_saves_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    chunk = data_density.DataDensity._chunk_of_row

    def counting(self: Any, free: dict[str, Tensor], part: Any) -> Tensor:
        nonlocal seen
        seen += len(part[0])
        return chunk(self, free, part)

    monkeypatch.setattr(data_density.DataDensity, "_chunk_of_row", counting)
    target = logistic(400, bound=0.0)
    seen = 0
    far = torch.full((1, 3), 40.0, dtype=F64)
    limit = torch.tensor([300.0], dtype=F64)
    stopped = target.potential(far, limit)
    assert seen <= 100
    assert limit < stopped < logistic(400).potential(far)
    seen = 0
    assert torch.equal(target.potential(far, torch.tensor([1e9], dtype=F64)), target.potential(far))
    assert seen == 800


def test_a_term_above_its_bound_is_an_error() -> None:
    target = logistic(bound=-5.0)
    with pytest.raises(BadInput, match=r"a term of -?[0-9.e-]+, above its declared bound of -5"):
        target.potential(rows())


def test_a_likelihood_may_know_its_own_bound() -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        return log_likelihood(w, batch)

    likelihood.bound = 0.0  # pyright: ignore[reportFunctionMemberAccess]
    assert ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64)).bound == 0.0


def test_with_an_early_stop_the_acceptance_rate_is_that_of_decisions() -> None:
    kernel = ggmc.GGMC(0.35, guide=ggmc.Minibatch(50, "iid"), steps=4)
    trace = ggmc.sample(logistic(bound=0.0), kernel, draws=30, warmup=0, progress=False)
    assert (trace.stats["acceptance_rate"] == trace.stats["is_accepted"]).all()


# One chain after another, where it must be


def test_a_likelihood_that_cannot_be_vectorised(caplog: pytest.LogCaptureFixture) -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        if w[0].item() > 1e9:
            raise ValueError
        return log_likelihood(w, batch)

    target = ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64))
    assert caplog.text.count("cannot be vectorised") == 1
    torch.testing.assert_close(target.potential(rows()), direct(rows()))
    fast = logistic()
    entry = torch.tensor([0, 3, 1, 0])
    for guide in (ggmc.Minibatch(20), ggmc.ControlVariate(20, curvature="dense", anchor=torch.ones(3, dtype=F64))):
        torch.testing.assert_close(guide.bind(target)(rows(), entry)[0], guide.bind(fast)(rows(), entry)[0])


# What only shows away from the start, or in unusual data


@pytest.mark.parametrize("start", [torch.zeros(3, dtype=F64), torch.ones(3, dtype=F64)])
def test_dropout_shows_at_weights_of_zero_too(start: Tensor) -> None:
    def dropped(w: Tensor, batch: Any) -> Tensor:
        x, s = batch
        return nn.functional.logsigmoid(s * (nn.functional.dropout(x, 0.5, True) @ w))

    torch.manual_seed(0)
    with pytest.raises(NotExact, match="another value each time"):
        ggmc.HMC(0.1, 2).bind(ggmc.DataDensity(log_prior, dropped, examples(), start))
    with pytest.raises(BadInput, match="gave two values at the same point"):
        ggmc.Density(lambda w: log_prior(w) + dropped(w, examples()).sum(), start)


def test_a_flat_prior() -> None:
    target = ggmc.DataDensity(lambda w: torch.zeros(()), log_likelihood, examples(), torch.zeros(3, dtype=F64))
    trace = ggmc.sample(target, ggmc.HMC(0.1, 3), draws=5, warmup=0, progress=False)
    assert trace.stats["is_accepted"].any()


@pytest.mark.parametrize("bound", [None, 10.0])
def test_where_linear_algebra_fails_the_density_is_zero(bound: Any) -> None:
    def likelihood(w: Tensor, batch: Any) -> Tensor:
        matrix = torch.diag(torch.stack([1.5 - w[0], torch.ones_like(w[0])]))
        return log_likelihood(w, batch) + torch.linalg.cholesky(matrix)[0, 0]

    target = ggmc.DataDensity(log_prior, likelihood, examples(), torch.zeros(3, dtype=F64), bound=bound)
    position = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=F64)
    assert target.potential(position).isfinite().tolist() == [False, True]
    gradient, _ = ggmc.Minibatch(20).bind(target)(position, torch.tensor([0, 1]))
    assert gradient.isfinite().all(1).tolist() == [False, True]


class Scaled(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        x, s = super().__getitem__(index)
        return 2 * x, s


def doubled(items: Any) -> Any:
    x, s = torch.utils.data.default_collate(items)
    return 2 * x, s


@pytest.mark.parametrize(
    "data", [Scaled(*examples()), DataLoader(TensorDataset(*examples()), collate_fn=doubled)], ids=["items", "collate"]
)
def test_a_dataset_is_read_the_way_it_reads_itself(data: Any) -> None:
    x, s = examples()
    target = ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))
    plain = ggmc.DataDensity(log_prior, log_likelihood, (2 * x, s), torch.zeros(3, dtype=F64))
    torch.testing.assert_close(target.potential(rows()), plain.potential(rows()))


class Labelled(Dataset[Any]):
    """Numbers, arrays, names, and a missing value."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, i: int) -> Any:
        import numpy as np

        return {"x": np.full(3, float(i)), "s": 1 if i % 2 else -1, "name": f"number {i}", "gap": float("nan")}


def test_examples_of_numpy_numbers_and_names() -> None:
    def named(items: Any) -> Any:
        joined = torch.utils.data.default_collate([{k: v for k, v in item.items() if k != "name"} for item in items])
        return joined["x"] / 30, joined["s"].double(), joined["gap"]

    data = DataLoader(Labelled(), collate_fn=named)
    target = ggmc.DataDensity(log_prior, lambda w, b: log_likelihood(w, b[:2]), data, torch.zeros(3, dtype=F64))
    assert target.not_exact is None
    assert target.num_data == 30


def test_a_bound_costs_no_more_calls_with_many_chains() -> None:
    calls = 0

    def counting(w: Tensor, batch: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return log_likelihood(w, batch)

    target = ggmc.DataDensity(log_prior, counting, examples(), torch.zeros(3, dtype=F64), bound=0.0)
    calls = 0
    target.potential(rows(64))
    assert calls <= 21
