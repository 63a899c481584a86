"""Batches: every example once, with its weight; and batches that are cut anew for each tape."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ggmc.errors import BadInput
from ggmc.guides.batches import PADDING, Batches, Recut, RecutBatches, batch_sizes
from ggmc.guides.orders import ORDERS, as_order
from ggmc.targets.data import OnDemand, as_data
from tests.support.logistic import examples, logistic

SIZES = [(103, 10), (103, 103), (103, 500), (103, 1), (100, 7), (12, 5)]


@pytest.mark.parametrize(("number", "size"), SIZES)
def test_batches_hold_every_example_once(number: int, size: int) -> None:
    batches = Batches(logistic(number).data, size)
    real = batches.weights > 0
    assert sorted(batches.indices[real].tolist()) == list(range(number))
    assert max(batches.sizes) <= size
    assert max(batches.sizes) - min(batches.sizes) <= 1
    assert set(batches.weights[real].tolist()) == {float(batches.count)}


def test_the_cut_is_random_and_fixed_by_its_seed() -> None:
    data = logistic().data
    assert torch.equal(Batches(data, 10).indices, Batches(data, 10).indices)
    assert not torch.equal(Batches(data, 10).indices, Batches(data, 10, seed=1).indices)
    assert Batches(data, 103).indices[0].tolist() != list(range(103))


def test_each_chain_reads_its_own_batch() -> None:
    batches = Batches(logistic().data, 10)
    (x, s), weights = batches[torch.tensor([3, 0, 3])]
    assert x.shape == (3, 10, 3)
    assert torch.equal(x[0], x[2])
    assert torch.equal(x[1], examples()[0][batches.indices[0]])
    assert weights.shape == s.shape == (3, 10)


@pytest.mark.parametrize("size", [0, -3, 2.5, True])
def test_a_size_must_be_a_whole_number(size: int) -> None:
    with pytest.raises(BadInput, match="size must be a whole number of at least 1"):
        batch_sizes(10, size)


# Cut anew


def recut(number: int, size: int, order: str = "epoch", chains: int = 3, passes: int = 1, seed: int = 0) -> Tensor:
    count = len(batch_sizes(number, size))
    generator = torch.Generator().manual_seed(seed)
    return Recut(as_order(order), number).draw(count * passes, count, chains, generator)


@pytest.mark.parametrize("chains", [1, 3, 200])
@pytest.mark.parametrize(("number", "size"), SIZES)
def test_every_example_is_once_in_each_chains_cut(number: int, size: int, chains: int) -> None:
    tape = recut(number, size, chains=chains, passes=2)
    sizes = batch_sizes(number, size)
    assert tape.shape == (2 * len(sizes), chains, sizes[0])
    for one_pass in tape.split(len(sizes)):
        for chain in range(chains):
            cut = one_pass[:, chain]
            assert sorted(cut[cut != PADDING].tolist()) == list(range(number))
            assert sorted((cut != PADDING).sum(1).tolist()) == sorted(sizes)


def test_each_chain_and_each_tape_has_a_fresh_cut() -> None:
    generator = torch.Generator().manual_seed(0)
    order = Recut(as_order("palindrome"), 103)
    one, other = (order.draw(22, 11, 4, generator) for _ in range(2))
    cuts = [{frozenset(batch.tolist()) for batch in tape[:, chain]} for tape in (one, other) for chain in range(4)]
    assert all(len(cut) == 11 for cut in cuts)
    for i, cut in enumerate(cuts):
        for another in cuts[:i]:
            assert not cut & another


def test_the_cut_comes_from_the_generator_alone() -> None:
    assert torch.equal(recut(103, 10), recut(103, 10))
    assert not torch.equal(recut(103, 10), recut(103, 10, seed=1))


@pytest.mark.parametrize("chains", [5000, 3])  # drawn all at once, and one by one
def test_all_cuts_are_equally_likely(chains: int) -> None:
    order, generator = Recut(as_order("iid"), 4), torch.Generator().manual_seed(0)
    draws = 15_000 // chains
    first = torch.cat([order.draw(1, 2, chains, generator)[0] for _ in range(draws)]).sort(1).values
    codes = first[:, 0] * 4 + first[:, 1]
    share = torch.tensor([(codes == a * 4 + b).double().mean() for a in range(4) for b in range(a + 1, 4)])
    assert share.sum() == pytest.approx(1)
    assert ((share - 1 / 6).abs() < 6 * (5 / 36 / 15_000) ** 0.5).all()


@pytest.mark.parametrize("entries", [1, 2, 7, 8, 22, 23])
def test_a_palindrome_of_fresh_batches_reads_the_same_backwards(entries: int) -> None:
    order, generator = Recut(as_order("palindrome"), 103), torch.Generator().manual_seed(0)
    tape = order.draw(entries, 11, 4, generator)
    assert torch.equal(tape, tape.flip(0))


def test_the_way_out_and_the_way_back_hold_every_example_once() -> None:
    generator = torch.Generator().manual_seed(0)
    out, back = Recut(as_order("palindrome"), 103).draw(22, 11, 4, generator).split(11)
    for chain in range(4):
        for way in (out, back):
            assert sorted(way[:, chain][way[:, chain] != PADDING].tolist()) == list(range(103))


@pytest.mark.parametrize("order", ORDERS)
def test_given_the_cut_the_order_is_the_bases(order: str) -> None:
    tape = Recut(as_order(order), 12).draw(9, 4, 5, torch.Generator().manual_seed(0))
    numbers = as_order(order).draw(9, 4, 5, torch.Generator().manual_seed(0))
    for chain in range(5):
        held = {number: tape[numbers[:, chain] == number, chain] for number in numbers[:, chain].tolist()}
        assert all((batches == batches[0]).all() for batches in held.values())
        seen = torch.cat([batches[0] for batches in held.values()])
        assert len(seen.unique()) == len(seen)  # other numbers, other examples


def test_name_reversibility_and_sweep_are_the_bases() -> None:
    for base in ORDERS.values():
        order = Recut(base, 12)
        assert (order.name, order.reversible, order.sweep(7)) == (base.name, base.reversible, base.sweep(7))


@pytest.mark.parametrize(("number", "size"), SIZES)
def test_weights_are_those_of_a_fixed_cut(number: int, size: int) -> None:
    data = logistic(number).data
    fixed, fresh = Batches(data, size), RecutBatches(data, size)
    assert (fixed.count, fixed.sizes) == (fresh.count, fresh.sizes)
    tape = recut(number, size, chains=2)
    weights = torch.stack([fresh[entry][1] for entry in tape])
    assert weights.dtype == fixed.weights.dtype
    assert torch.equal(weights.sum((0, 2)), fixed.weights.sum().expand(2))
    assert fixed.weights.sum() == number * fixed.count
    assert torch.equal(weights[:, 0].sum(1).sort().values, fixed.weights.sum(1).sort().values)


def test_each_chain_reads_the_examples_that_its_tape_lists() -> None:
    data = logistic().data
    entry = torch.tensor([[5, 2, PADDING], [0, 100, 7]])
    (x, s), weights = RecutBatches(data, 35)[entry]
    assert torch.equal(x[0, :2], examples()[0][[5, 2]])
    assert torch.equal(x[1], examples()[0][[0, 100, 7]])
    assert s.shape == (2, 3)
    assert torch.equal(weights, torch.tensor([[3.0, 3.0, 0.0], [3.0, 3.0, 3.0]]))


def test_examples_read_on_demand_can_be_cut_anew() -> None:
    class Squares(Dataset[Tensor]):
        def __getitem__(self, i: int) -> Tensor:
            return torch.tensor(float(i) ** 2)

        def __len__(self) -> int:
            return 10

    data = OnDemand(Squares(), torch.stack, torch.device("cpu"), None)
    batch, weights = RecutBatches(data, 4)[torch.tensor([[3, PADDING], [9, 1]])]
    assert batch[weights > 0].tolist() == [9.0, 81.0, 1.0]


def test_large_data_are_cut_quickly() -> None:
    order, generator = Recut(as_order("palindrome"), 200_000), torch.Generator().manual_seed(0)
    times: list[float] = []
    for _ in range(3):
        begun = time.process_time()
        order.draw(40, 20, 4, generator)
        times.append(time.process_time() - begun)
    assert min(times) < 0.5


def test_data_kept_apart_from_batches_are_the_same() -> None:
    x = torch.arange(10.0)
    data = as_data(x, torch.device("cpu"))
    kept = Batches(data, 4)
    data.bytes = float("inf")  # as if it were too large to keep twice
    apart = Batches(data, 4)
    for numbers in torch.arange(3)[:, None]:
        for one, other in zip(kept[numbers], apart[numbers], strict=True):
            assert torch.equal(one, other)
