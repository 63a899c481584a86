"""The check of orders that are said to be reversible: what it catches, and what it lets pass."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput, NotExact
from ggmc.guides.batches import Recut
from ggmc.guides.order_check import check_reversible, is_built_in
from ggmc.guides.orders import ORDERS, Epoch, Order, as_order
from tests.support import orders
from tests.support.orders import REVERSIBLE, Vectorised, one_successor, successor

CAUGHT = [
    *[(successor(lag), entries, 4) for lag in (1, 2, 3, 5, 7) for entries in (8, 9, 20)],
    *[(successor(lag), 40, 20) for lag in (3, 7, 16)],
    *[(successor(lag, share=0.1), 33, 4) for lag in (3, 5)],  # weak, but all along the tape
    *[(one_successor(lag), lag + 1, 4) for lag in (1, 3, 5, 7)],
    *[(one_successor(lag), 24, 10) for lag in (1, 3, 5, 7, 13, 23)],
    *[(Vectorised(orders.first_entry), entries, 4) for entries in (2, 7, 16, 100)],
    *[(Vectorised(orders.triple), entries, 3) for entries in (4, 5, 7, 12)],
    *[(Vectorised(orders.cyclic_triple), entries, 3) for entries in (4, 5, 7, 12)],
    *[(Vectorised(orders.quadruple), entries, 3) for entries in (4, 7)],
    *[(Vectorised(orders.ascending), entries, batches) for entries in (2, 3, 7, 33) for batches in (2, 4, 50)],
    *[(Vectorised(orders.odd_lengths_ascend), entries, 4) for entries in (3, 5, 15)],
    *[(Vectorised(orders.cut_off_passes), *lengths) for lengths in ((3, 2), (5, 4), (7, 4), (14, 10), (30, 20))],
]


@pytest.mark.parametrize(
    ("order", "entries", "batches"), CAUGHT, ids=[f"{order.name}, {entries} of {b}" for order, entries, b in CAUGHT]
)
def test_a_direction_is_found(order: Order, entries: int, batches: int) -> None:
    for seed in range(2):
        with pytest.raises(NotExact, match=f"the order '{order.name}' is said to be reversible, but read backwards"):
            check_reversible(order, entries, batches, seed=seed)


LENGTHS = [(1, 4), (2, 2), (3, 2), (4, 4), (5, 4), (7, 4), (8, 3), (10, 4), (11, 7), (13, 20), (16, 5), (33, 4)]


@pytest.mark.parametrize("order", [*ORDERS.values(), *REVERSIBLE], ids=lambda order: order.name)
def test_reversible_orders_pass(order: Order) -> None:
    """At a false-alarm rate that would show in these runs, were it not kept: 36 checks at 1e-3."""
    for entries, batches in LENGTHS:
        for seed in range(3):
            check_reversible(order, entries, batches, false_alarms=1e-3, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("order", [*ORDERS.values(), *REVERSIBLE], ids=lambda order: order.name)
def test_the_rate_of_false_alarms_is_kept(order: Order) -> None:
    alarms = 0
    checks = [(*lengths, seed) for lengths in LENGTHS for seed in range(50)]
    for entries, batches, seed in checks:
        try:
            check_reversible(order, entries, batches, false_alarms=0.02, seed=seed)
        except NotExact:
            alarms += 1
    assert alarms < 40  # 12 at most on average, of 600


@pytest.mark.parametrize("entries", [2, 4, 8, 14])
def test_lengths_without_a_direction_pass(entries: int) -> None:
    check_reversible(Vectorised(orders.odd_lengths_ascend), entries, 4)
    check_reversible(Vectorised(orders.cut_off_passes), 4 * entries, 4)


@pytest.mark.parametrize("entries", [1, 2, 3, 40, 700])
def test_one_batch_has_no_direction(entries: int) -> None:
    check_reversible(Vectorised(orders.independent), entries, 1)


@pytest.mark.parametrize(("entries", "batches"), [(8, 4), (33, 16), (100, 50), (400, 200)])
def test_a_check_takes_about_a_second_at_most(entries: int, batches: int) -> None:
    times: list[float] = []
    for _ in range(3):
        begun = time.process_time()
        check_reversible(as_order("epoch"), entries, batches)
        times.append(time.process_time() - begun)
    assert min(times) < 3  # of this process, on a machine that may be slow


# What is checked


def in_turn(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    return (torch.arange(entries) + torch.randint(batches, (), generator=generator)) % batches


def test_a_recut_order_is_checked_by_its_base() -> None:
    with pytest.raises(NotExact, match="the order 'in_turn' is said to be reversible"):
        check_reversible(Recut(ggmc.CustomOrder(in_turn, reversible=True), 20), 6, 4)
    check_reversible(Recut(as_order("iid"), 20), 6, 4)


def test_the_librarys_own_orders_are_known() -> None:
    for order in ORDERS.values():
        assert is_built_in(order)
        assert is_built_in(Recut(order, 20))
    custom = ggmc.CustomOrder(in_turn, reversible=True)
    assert not is_built_in(custom)
    assert not is_built_in(Recut(custom, 20))
    assert not is_built_in(Vectorised(orders.independent, "iid"))  # a name proves nothing

    class Ascending(Epoch):
        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            return super().draw(entries, batches, chains, generator).sort(0).values

    assert not is_built_in(Ascending())  # nor does a base class


def test_one_tape_for_all_chains_is_refused() -> None:
    def shared(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return orders.mirrored(entries, batches, 1, generator).expand(entries, chains)

    with pytest.raises(NotExact, match="the order 'shared' gives all chains the same tape"):
        check_reversible(Vectorised(shared), 6, 4)


def test_a_tape_of_the_wrong_shape_is_refused() -> None:
    def one_column(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return torch.zeros(entries, dtype=torch.long)

    with pytest.raises(BadInput, match=r"the order 'one_column' must draw a tape of shape \[5, 2000, ...\]"):
        check_reversible(Vectorised(one_column), 5, 4)


# Entries that are not batch numbers


def as_ranges(numbers: Tensor) -> Tensor:
    return torch.stack([numbers * 10, numbers * 10 + 9], -1)


def with_noise(numbers: Tensor) -> Tensor:
    noise = torch.randn((*numbers.shape, 3), generator=torch.Generator().manual_seed(0))
    return numbers[..., None] + 0.1 * noise


@pytest.mark.parametrize(
    "change", [as_ranges, with_noise, lambda n: 7 - 100 * n, lambda n: n.double() / 3, lambda n: n > 1]
)
def test_entries_of_other_kinds_are_checked_too(change: Any) -> None:
    for draw in (orders.ascending, orders.triple):

        def changed(entries: int, batches: int, chains: int, generator: torch.Generator, draw: Any = draw) -> Tensor:
            return change(draw(entries, batches, chains, generator))

        if draw is orders.ascending or change(torch.zeros(1, 1)).dtype != torch.bool:
            with pytest.raises(NotExact, match="is said to be reversible"):
                check_reversible(Vectorised(changed), 7, 4)

    def unchanged(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return change(orders.sticky(entries, batches, chains, generator))

    check_reversible(Vectorised(unchanged), 7, 4)


def test_noise_as_entries() -> None:
    def noise(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn((entries, chains, 5), generator=generator)

    def growing_noise(entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
        return noise(entries, batches, chains, generator) * torch.linspace(1, 2, entries)[:, None, None]

    check_reversible(Vectorised(noise), 9, 4)
    with pytest.raises(NotExact, match="the order 'growing_noise' is said to be reversible"):
        check_reversible(Vectorised(growing_noise), 9, 4)
