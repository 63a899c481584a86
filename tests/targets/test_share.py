"""Sums over the data, shared out: what ranks add up by themselves, put together, is the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ggmc.targets import potential
from ggmc.targets.data import as_data
from ggmc.targets.layout import Layout
from ggmc.targets.potential import SumOverData
from ggmc.targets.share import WHOLE, Share, current, sharing
from tests.support.logistic import examples, log_likelihood, logistic, rows

F64 = torch.float64


def total(number: int, vectorise: bool = True) -> SumOverData:
    x, s = examples()
    start = torch.zeros(3, dtype=F64)
    return SumOverData(
        lambda row: row["w"].square().sum() ** 2,
        lambda row, batch: log_likelihood(row["w"], batch),
        Layout({"w": (3,)}),
        start,
        as_data((x[:number], s[:number]), start.device),
        bound=0.0,
        vectorise=vectorise,
    )


def over_ranks(ask: Callable[[], Tensor], ranks: int) -> Tensor:
    """The sum of what the ranks find, one after another."""
    found: list[Tensor] = []
    for rank in range(ranks):
        with sharing(Share(rank, ranks)):
            found.append(ask())
    return torch.stack(found).sum(0)


@pytest.mark.parametrize("vectorise", [True, False])
@pytest.mark.parametrize("ranks", [2, 3, 7])
@pytest.mark.parametrize("number", [1, 5, 30])  # fewer examples than ranks, and more
def test_parts_make_up_the_whole(number: int, ranks: int, vectorise: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sum_over = total(number, vectorise)
    monkeypatch.setattr(sum_over, "rows_at_once", lambda examples: 4)
    everything = sum_over.data.take(torch.arange(number).expand(4, -1))
    weights = torch.linspace(0.5, 2.0, 4 * number, dtype=F64).view(4, number)
    asked: list[Callable[[], Tensor]] = [
        lambda: sum_over.potential(rows()),
        lambda: sum_over.potential_and_gradient(rows())[0],
        lambda: sum_over.potential_and_gradient(rows())[1],
        lambda: sum_over.batch_gradient(rows(), everything, weights),
        lambda: sum_over.batch_hessian_products(rows(), everything, weights, rows().flip(0)),
    ]
    for ask in asked:
        torch.testing.assert_close(over_ranks(ask, ranks), ask())


def test_a_shared_sum_does_not_stop_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that stops alone would leave the others waiting, or give a sum of parts that is no sum."""
    monkeypatch.setattr(potential, "LEAST_CHUNK", 4)
    sum_over = total(30)
    limit = sum_over.potential(rows()) - 1e6
    stopped = sum_over.potential(rows(), limit)
    assert (stopped < sum_over.potential(rows())).all()
    torch.testing.assert_close(over_ranks(lambda: sum_over.potential(rows(), limit), 2), sum_over.potential(rows()))


@pytest.mark.usefixtures("unrecorded")
def test_each_rank_cuts_its_own_part_into_chunks() -> None:
    sizes: list[int] = []

    def counted(row: dict[str, Tensor], batch: Tensor) -> Tensor:
        sizes.append(len(batch))
        return -batch * row["w"].square().sum()

    start, data = torch.zeros(3, dtype=F64), as_data(torch.ones(2000, dtype=F64), torch.device("cpu"))
    layout = Layout({"w": (3,)})
    sum_over = SumOverData(lambda row: 0 * row["w"].sum(), counted, layout, start, data, bound=0.0, vectorise=True)
    for rank in range(2):
        sizes.clear()
        with sharing(Share(rank, 2)):
            sum_over.potential(rows())
        assert sizes == [50] * 20


def test_a_rank_without_examples_has_sums_of_zero_in_double_precision() -> None:
    sum_over = total(1)
    with sharing(Share(1, 2)):
        for found in (sum_over.potential(rows()), sum_over.potential_and_gradient(rows())[0]):
            assert found.dtype == F64
            assert not found.any()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("vectorise", [True, False])
def test_every_rank_runs_its_chains_as_it_was_told(rank: int, vectorise: bool) -> None:
    calls = 0

    def counted(row: dict[str, Tensor], batch: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return -batch * row["w"].square().sum()

    start, data = torch.zeros(3, dtype=F64), as_data(torch.ones(20, dtype=F64), torch.device("cpu"))
    layout = Layout({"w": (3,)})
    sum_over = SumOverData(lambda row: row["w"].sum(), counted, layout, start, data, bound=None, vectorise=vectorise)
    calls = 0
    with sharing(Share(rank, 2)):
        sum_over.batch_gradient(rows(), torch.ones(4, 8, dtype=F64), torch.ones(4, 8, dtype=F64))
    assert calls == (1 if vectorise else 4)


@pytest.mark.parametrize("examples", [0, 1, 2, 10, 11])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_example_belongs_to_one_rank(examples: int, ranks: int) -> None:
    spans = [Share(rank, ranks).span(examples) for rank in range(ranks)]
    assert [i for begin, end in spans for i in range(begin, end)] == list(range(examples))
    sizes = [end - begin for begin, end in spans]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_ranks_meet_once_for_each_sum() -> None:
    """One all-reduce for a gradient, one for a potential, one for both in double precision; two in single."""
    met: list[list[int]] = []

    def add_up(tensor: Tensor) -> None:
        met.append(list(tensor.shape))

    sum_over = total(30)
    batch = sum_over.data.take(torch.arange(8).expand(4, -1))
    share = replace(Share(0, 2), add_up=add_up)
    with sharing(share):
        sum_over.potential(rows())
        sum_over.batch_gradient(rows(), batch, torch.ones(4, 8, dtype=F64))
        sum_over.potential_and_gradient(rows())
        share.totals(torch.zeros(4, dtype=F64), torch.zeros(4, 3, dtype=torch.float32))
    assert met == [[4], [4, 3], [4, 4], [4], [4, 3]]


def test_a_total_leaves_the_part_as_it_is() -> None:
    def double(tensor: Tensor) -> None:
        tensor *= 2

    part = torch.ones(2, 3)
    assert (Share(0, 2, double).total(part.T) == 2).all()
    potential, gradient = Share(0, 2, double).totals(torch.full((2,), 3.0), part)
    assert torch.equal(potential, torch.full((2,), 6.0))
    assert torch.equal(gradient, torch.full((2, 3), 2.0))
    assert (part == 1).all()


def test_ranks_agree_on_the_least() -> None:
    def smallest(tensor: Tensor) -> None:
        tensor.clamp_(max=3)

    assert Share(0, 2, None, smallest).least(5, torch.device("cpu")) == 3
    assert WHOLE.least(5, torch.device("cpu")) == 5


def test_as_many_rows_go_at_once_as_fit_on_every_rank() -> None:
    """Ranks that cut their work into different numbers of sums would wait for each other for ever."""

    def smallest(tensor: Tensor) -> None:
        tensor.clamp_(max=3)

    target = logistic(30)
    assert target.rows_at_once(5) > 3
    with sharing(Share(0, 2, None, smallest)):
        assert target.rows_at_once(5) == 3


def test_sharing_ends_with_its_block() -> None:
    def fails() -> None:
        with sharing(Share(1, 2)):
            assert current() == Share(1, 2)
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fails()
    assert current() is WHOLE
