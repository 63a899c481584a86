"""How the sum over the data is cut up: chunks by memory, terms in groups of rows, and chains at once or in turn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ggmc.targets import potential
from ggmc.targets.batched import OverChains
from ggmc.targets.data import as_data, some_examples
from ggmc.targets.layout import Layout
from ggmc.targets.potential import SumOverData

F64 = torch.float64
CPU = torch.device("cpu")
EXAMPLES = torch.linspace(-1.0, 2.0, 25, dtype=F64)
ROWS = torch.tensor([[0.1, -0.2], [0.5, 0.3], [-0.7, 1.0], [0.0, 0.4], [1.5, 0.2]], dtype=F64)


def prior(row: dict[str, Tensor]) -> Tensor:
    return row["x"].double().square().sum() / 2


def terms(row: dict[str, Tensor], batch: Tensor) -> Tensor:
    return -((batch - row["x"][0]) ** 4) * row["x"][1].exp()


def expected_terms(rows: Tensor, batch: Tensor = EXAMPLES) -> Tensor:
    return -((batch - rows[:, :1]) ** 4) * rows[:, 1:].exp()


class Counted:
    """A function of a row that notes how many examples it is called with, or 0 for none."""

    def __init__(self, function: Any):
        self.function, self.sizes = function, list[int]()

    def __call__(self, row: dict[str, Tensor], *batch: Tensor) -> Tensor:
        self.sizes.append(len(batch[0]) if batch else 0)
        return self.function(row, *batch)


def sum_over(
    examples: Tensor = EXAMPLES,
    prior_of_row: Any = prior,
    terms_of_row: Any = terms,
    bound: float | None = None,
    vectorise: bool | None = True,
) -> SumOverData:
    start = torch.zeros(2, dtype=F64, device=CPU)
    layout, data = Layout({"x": (2,)}), as_data(examples, CPU)
    return SumOverData(prior_of_row, terms_of_row, layout, start, data, bound=bound, vectorise=vectorise)


@pytest.fixture
def _ten_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for ten of the examples above, which take 64 bytes each."""
    monkeypatch.setattr(potential, "CHUNK_MEMORY", 10 * 64)


# Memory


def test_rows_that_fit_share_the_memory_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    total = sum_over()
    total.example_bytes = 80.0
    monkeypatch.setattr(potential, "CHUNK_MEMORY", 1000)
    assert [total.rows_at_once(examples) for examples in (1, 2, 4, 12, 100)] == [12, 6, 3, 1, 1]


def test_on_a_gpu_a_chunk_takes_a_quarter_of_what_was_free_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([(4 * 64 * 30, 10**9), (0, 10**9)])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: next(free))
    total = sum_over()
    total.data.device = torch.device("cuda")
    assert [total.rows_at_once(1), total.rows_at_once(2)] == [30, 15]


def kept_bytes(numbers: int, examples: int) -> float:
    """The bytes found where autograd keeps a row of `numbers` and its exponentials for each example."""
    return SumOverData(
        lambda row: row["x"].square().sum(),
        lambda row, batch: -(batch * row["x"]).exp().sum(1),
        Layout({"x": (numbers,)}),
        torch.zeros(numbers, dtype=F64),
        as_data(torch.ones(examples, numbers, dtype=F64), CPU),
        bound=None,
        vectorise=False,
    ).example_bytes


@pytest.mark.parametrize(
    ("numbers", "examples", "expected"),
    [
        (10, 100, 2 * 10 * 8),
        (10, 4, 2 * 10 * 8),
        (10, 3, 64),  # too few to tell
        (1, 100, 64),  # never taken for less
    ],
)
def test_an_example_takes_what_autograd_keeps_for_it(numbers: int, examples: int, expected: float) -> None:
    assert kept_bytes(numbers, examples) == expected


@pytest.mark.parametrize(
    ("number", "expected"), [(1, [0]), (2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (10, [0, 3, 6, 9])]
)
def test_some_examples_reach_from_the_first_to_the_last(number: int, expected: list[int]) -> None:
    data = as_data(torch.arange(number), CPU)
    with torch.device("meta"):
        found = some_examples(data)
    assert found.tolist() == expected


# Chunks


@pytest.mark.usefixtures("_ten_at_once")
def test_chains_share_a_chunk_and_the_prior_counts_once() -> None:
    counted, count_prior = Counted(terms), Counted(prior)
    total = sum_over(prior_of_row=count_prior, terms_of_row=counted)
    assert total.example_bytes == 64
    expected = ROWS.square().sum(1) / 2 - expected_terms(ROWS).sum(1)
    for found in (total.potential(ROWS[:2]), total.potential_and_gradient(ROWS[:2])[0]):
        torch.testing.assert_close(found, expected[:2])
    counted.sizes.clear()
    count_prior.sizes.clear()
    total.potential_and_gradient(ROWS[:2])
    assert counted.sizes == [5] * 5
    assert count_prior.sizes == [0]


@pytest.mark.parametrize(
    ("number", "expected"), [(2000, [100] * 20), (2010, [101] * 19 + [91]), (103, [20] * 5 + [3]), (7, [7])]
)
@pytest.mark.usefixtures("unrecorded")
def test_a_sum_that_may_stop_is_checked_about_twenty_times(number: int, expected: list[int]) -> None:
    counted = Counted(terms)
    total = sum_over(torch.linspace(-1.0, 1.0, number, dtype=F64), terms_of_row=counted, bound=0.0)
    counted.sizes.clear()
    total.potential(ROWS)
    assert counted.sizes == expected


@pytest.mark.usefixtures("unrecorded")
@pytest.mark.parametrize("bound", [None, 0.0])
def test_what_cannot_stop_comes_in_chunks_as_large_as_memory_allows(bound: float | None) -> None:
    counted = Counted(terms)
    total = sum_over(torch.linspace(-1.0, 1.0, 2000, dtype=F64), terms_of_row=counted, bound=bound)
    counted.sizes.clear()
    total.potential_and_gradient(ROWS)
    assert counted.sizes == [2000]
    counted.sizes.clear()
    total.potential(ROWS)
    assert len(counted.sizes) == (1 if bound is None else 20)


@pytest.mark.parametrize(("gap", "read"), [(2.0, 2000), (20.0, 100)])
def test_what_is_to_come_adds_to_the_rounding_that_a_stop_allows_for(gap: float, read: int) -> None:
    """All terms are at a large bound: what is known so far and what is to come may both be off in their last digits."""
    counted = Counted(lambda row, batch: batch * 1e6 + 0 * row["x"].sum())
    total = sum_over(torch.ones(2000, dtype=F64), lambda row: 0 * row["x"].sum(), counted, bound=1e6, vectorise=False)
    counted.sizes.clear()
    whole = -2e9
    assert total.potential(ROWS[:1], torch.tensor([whole - gap], dtype=F64)).item() == whole
    assert sum(counted.sizes) == read


# Terms


@pytest.mark.usefixtures("_ten_at_once")
def test_terms_come_in_chunks_of_examples_one_row_at_a_time() -> None:
    counted = Counted(terms)
    total = sum_over(terms_of_row=counted)
    counted.sizes.clear()
    found = total.terms(ROWS.clone().requires_grad_())
    assert counted.sizes == [10] * 5 + [10] * 5 + [5] * 5
    torch.testing.assert_close(found, expected_terms(ROWS))
    assert not found.requires_grad


@pytest.mark.usefixtures("_ten_at_once")
def test_terms_of_few_other_examples_come_in_groups_of_rows() -> None:
    counted = Counted(terms)
    total = sum_over(terms_of_row=counted)
    counted.sizes.clear()
    others = torch.tensor([0.3, -2.0, 5.0, 1.0], dtype=F64)
    found = total.terms(ROWS, as_data(others, CPU))
    assert counted.sizes == [4] * 3  # for two rows, two, and one
    torch.testing.assert_close(found, expected_terms(ROWS, others))


def test_terms_of_float32_rows_are_float64() -> None:
    found = sum_over().terms(ROWS.float())
    assert found.dtype == F64
    torch.testing.assert_close(found, expected_terms(ROWS.float().double()), rtol=1e-5, atol=1e-5)


def test_another_function_may_give_the_terms() -> None:
    other = OverChains(lambda row, batch: batch + row["x"][0], Layout({"x": (2,)}), (None,), vectorised=True)
    assert torch.equal(sum_over().terms(ROWS, function=other), EXAMPLES + ROWS[:, :1])


# Each chain's own batch


def test_the_batch_hessian_is_that_of_the_weighted_sum() -> None:
    batch = EXAMPLES[:20].view(5, 4)
    weights = torch.linspace(0.5, 3.0, 20, dtype=F64).view(5, 4)
    directions = ROWS.flip(0) + 0.3

    def weighted(row: Tensor, batch: Tensor, weights: Tensor) -> Tensor:
        return prior({"x": row}) - (weights * terms({"x": row}, batch)).sum()

    for vectorise in (True, False):
        found = sum_over(vectorise=vectorise).batch_hessian_products(ROWS, batch, weights, directions)
        for i, row in enumerate(ROWS):
            hessian = torch.func.hessian(weighted)(row, batch[i], weights[i])
            torch.testing.assert_close(found[i], hessian @ directions[i])


def test_a_potential_without_curvature_has_a_hessian_of_zero() -> None:
    """Its gradient is a function of numbers that are learnt elsewhere, not of the position."""
    learnt = torch.tensor(2.0, dtype=F64, requires_grad=True)
    total = sum_over(
        prior_of_row=lambda row: torch.zeros((), dtype=F64), terms_of_row=lambda row, b: learnt * b * row["x"].sum()
    )
    batch = EXAMPLES[:20].view(5, 4)
    assert not total.batch_hessian_products(ROWS, batch, torch.ones_like(batch), ROWS).any()


def test_a_potential_that_is_linear_has_a_hessian_of_zero() -> None:
    total = sum_over(prior_of_row=lambda row: row["x"].sum(), terms_of_row=lambda row, b: b * row["x"].sum())
    batch = EXAMPLES[:20].view(5, 4)
    found = total.batch_hessian_products(ROWS, batch, torch.ones_like(batch), ROWS)
    assert torch.equal(found, torch.zeros_like(ROWS))


# All chains at once, or one after another


@pytest.mark.parametrize("vectorise", [True, False])
def test_every_function_runs_the_chains_as_it_was_told(monkeypatch: pytest.MonkeyPatch, vectorise: bool) -> None:
    count_prior, counted = Counted(prior), Counted(terms)
    total = sum_over(prior_of_row=count_prior, terms_of_row=counted, vectorise=vectorise)
    assert total.vectorise is vectorise
    monkeypatch.setattr(total, "rows_at_once", lambda examples: 13)  # 25 examples in two chunks
    batch = EXAMPLES[:20].view(5, 4)
    weights = torch.ones_like(batch)
    calls = 1 if vectorise else len(ROWS)
    for ask, priors, parts in (
        (lambda: total.potential(ROWS), 1, 2),
        (lambda: total.potential_and_gradient(ROWS), 1, 2),
        (lambda: total.batch_gradient(ROWS, batch, weights), 1, 1),
        (lambda: total.terms(ROWS), 0, 2),
    ):
        count_prior.sizes.clear()
        counted.sizes.clear()
        ask()
        assert (len(count_prior.sizes), len(counted.sizes)) == (priors * calls, parts * calls)


def looks_at_its_numbers(row: dict[str, Tensor], batch: Tensor) -> Tensor:
    """What vmap cannot do."""
    if row["x"][0].item() > 1e9:
        raise ValueError
    return terms(row, batch)


@pytest.mark.parametrize("vectorise", [True, None])
def test_what_cannot_be_vectorised_runs_one_after_another_with_a_notice(
    vectorise: bool | None, caplog: pytest.LogCaptureFixture
) -> None:
    total = sum_over(terms_of_row=looks_at_its_numbers, vectorise=vectorise)
    assert total.vectorise is False
    assert [record.message.split(",")[0] for record in caplog.records] == ["log_likelihood cannot be vectorised"]
    torch.testing.assert_close(total.terms(ROWS), expected_terms(ROWS))


def test_one_after_another_is_not_tried_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    total = sum_over(terms_of_row=looks_at_its_numbers, vectorise=False)
    assert total.vectorise is False
    assert not caplog.records


def test_whether_chains_can_run_at_once_does_not_depend_on_the_default_device(caplog: pytest.LogCaptureFixture) -> None:
    with torch.device("meta"):
        total = sum_over()
    assert total.vectorise is True
    assert not caplog.records
