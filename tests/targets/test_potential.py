"""The sum over the data: its chunks, its precision, and its early stop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ggmc
from ggmc.errors import BadInput
from ggmc.targets.batched import OverChains
from ggmc.targets.potential import SumOverData
from tests.support.logistic import decisions, direct, examples, log_likelihood, log_prior, logistic, rows
from tests.support.posteriors import NORMAL, X, Y

F64 = torch.float64


@pytest.mark.parametrize("chunk", [1, 7, 50, 1000])
@pytest.mark.parametrize("bound", [None, 0.0])
def test_the_potential_is_the_sum_over_all_data(monkeypatch: pytest.MonkeyPatch, chunk: int, bound: Any) -> None:
    target = logistic(bound=bound)
    monkeypatch.setattr(target.data_sum, "rows_at_once", lambda examples: chunk)
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


def density(log_likelihood: Any, numbers: Tensor, **options: Any) -> ggmc.DataDensity:
    start = torch.ones(1, dtype=numbers.dtype)
    return ggmc.DataDensity(lambda w: w.sum() * 0, log_likelihood, numbers, start, vectorise=False, **options)


def test_terms_in_single_precision_are_summed_in_double() -> None:
    terms = torch.ones(64)
    terms[0] = 2.0**24  # to which single precision cannot add one
    target = density(lambda w, batch: -batch * w, terms)
    rows = torch.ones(2, 1)
    assert target.potential(rows).tolist() == [2.0**24 + 63] * 2
    assert target.potential_and_gradient(rows)[0].tolist() == [2.0**24 + 63] * 2


def test_a_gradient_holds_one_chunk_of_large_data_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    expected = target.potential_and_gradient(target.start[None])
    monkeypatch.setattr(target.data_sum, "rows_at_once", lambda examples: 5)
    held = 0
    chunks, with_gradient = target.data_sum._chunks, OverChains.with_gradient

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

    monkeypatch.setattr(target.data_sum, "_chunks", counted)
    monkeypatch.setattr(OverChains, "with_gradient", one_held)
    found = target.potential_and_gradient(target.start[None])
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))


# Early stop


def test_the_early_stop_changes_nothing_to_the_last_bit() -> None:
    with_stop, without = decisions(stop=True), decisions(stop=False)
    assert torch.equal(with_stop, without)
    assert 0.1 < with_stop[:, -2:].mean() < 0.9


@pytest.mark.usefixtures("unrecorded")
def test_the_early_stop_saves_work(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    chunk = SumOverData._chunk_of_row

    def counting(self: Any, free: dict[str, Tensor], part: Any) -> Tensor:
        nonlocal seen
        seen += len(part[0])
        return chunk(self, free, part)

    monkeypatch.setattr(SumOverData, "_chunk_of_row", counting)
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


def test_a_term_above_its_bound_is_an_error() -> None:
    target = logistic(bound=-5.0)
    with pytest.raises(BadInput, match=r"a term of -?[0-9.e-]+, above its declared bound of -5"):
        target.potential(rows())


def test_with_an_early_stop_the_acceptance_rate_is_that_of_decisions() -> None:
    kernel = ggmc.GGMC(0.35, guide=ggmc.Minibatch(50, "iid"), steps=4)
    trace = ggmc.sample(logistic(bound=0.0), kernel, draws=30, warmup=0, progress=False)
    assert (trace.stats["acceptance_rate"] == trace.stats["is_accepted"]).all()


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
