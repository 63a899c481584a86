"""Orders: what the tapes of each promise, and orders of the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput
from ggmc.guides import orders
from ggmc.guides.order_check import check_reversible
from ggmc.guides.orders import ORDERS, CustomOrder, Epoch, Iid, Order, Palindrome, as_order

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 10, 13, 16, 20, 24, 33]


def draw(order: str, entries: int, batches: int = 4, chains: int = 50, seed: int = 0) -> Tensor:
    return as_order(order).draw(entries, batches, chains, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entries", LENGTHS)
def test_tapes_have_a_column_for_each_chain(order: str, entries: int) -> None:
    tape = draw(order, entries)
    assert tape.shape == (entries, 50)
    assert tape.min() >= 0
    assert tape.max() < 4
    assert len(tape.unique(dim=1).mT) > 1
    assert torch.equal(tape, draw(order, entries))  # made from the generator alone
    assert not torch.equal(tape, draw(order, entries, seed=1))


@pytest.mark.parametrize("entries", LENGTHS)
def test_a_palindrome_reads_the_same_backwards_whatever_its_length(entries: int) -> None:
    tape = draw("palindrome", entries)
    assert torch.equal(tape, tape.flip(0))


@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_every_way_out_and_every_way_back_meets_every_batch_once(sweeps: int) -> None:
    tape = draw("palindrome", 8 * sweeps)
    for part in tape.split(4):
        assert torch.equal(part.sort(0).values, torch.arange(4)[:, None].expand(4, 50))


@pytest.mark.parametrize("sweeps", [2, 3])
def test_all_sweeps_of_a_trajectory_go_in_the_same_order(sweeps: int) -> None:
    first, *others = draw("palindrome", 8 * sweeps).split(8)
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("batches", [2, 3, 4])
@pytest.mark.parametrize("sweeps", [1, 2, 3])
def test_between_half_kicks_all_batches_weigh_the_same_and_none_acts_twice_running(batches: int, sweeps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tape = as_order("palindrome").draw(2 * batches * sweeps + 1, batches, 50, generator)
    weights = torch.ones(len(tape))
    weights[0] = weights[-1] = 0.5
    for batch in range(batches):
        assert torch.equal(((tape == batch) * weights[:, None]).sum(0), torch.full((50,), 2.0 * sweeps))
    assert (tape[1:] != tape[:-1]).all()


def test_epochs_meet_every_batch_once() -> None:
    for part in draw("epoch", 12).split(4):
        assert torch.equal(part.sort(0).values, torch.arange(4)[:, None].expand(4, 50))


@pytest.mark.parametrize("order", ORDERS)
def test_all_batches_are_equally_likely_at_every_place(order: str) -> None:
    tape = draw(order, 10, chains=40_000)
    share = torch.stack([(tape == batch).double().mean(1) for batch in range(4)])
    assert ((share - 0.25).abs() < 6 * (0.25 * 0.75 / 40_000) ** 0.5).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entries", [1, 2, 3, 5, 8, 11])
def test_the_joint_distribution_is_the_same_read_backwards(order: str, entries: int) -> None:
    check_reversible(as_order(order), entries, 4)
    # ... and so are all pairs of places, counted one by one
    tape = draw(order, entries, 3, chains=60_000)
    codes, back = (t[:-1] * 3 + t[1:] for t in (tape, tape.flip(0)))
    for place in range(entries - 1):
        one, other = (torch.bincount(x[place], minlength=9).double() / 60_000 for x in (codes, back))
        assert ((one - other).abs() < 6 * (0.5 / 60_000) ** 0.5).all()


@pytest.mark.parametrize(
    ("kind", "name", "sweep"), [(Palindrome, "palindrome", 14), (Epoch, "epoch", 7), (Iid, "iid", 7)]
)
def test_each_order_has_its_name_its_sweep_and_is_reversible(kind: type[Order], name: str, sweep: int) -> None:
    order = kind()  # pyright: ignore[reportCallIssue]
    assert order.name == name
    assert order.reversible is True
    assert order.sweep(7) == sweep
    assert repr(order) == f"{kind.__name__}()"
    assert type(ORDERS[name]) is kind


@contextmanager
def other_defaults() -> Iterator[None]:
    """Another default precision, and a default device whose tensors have no values."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            yield
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entries", [7, 8])
def test_tapes_do_not_depend_on_default_precision_and_device(order: str, entries: int) -> None:
    tape, generator = draw(order, entries), torch.Generator("cpu").manual_seed(0)
    with other_defaults():
        again = as_order(order).draw(entries, 4, 50, generator)
    assert again.dtype == torch.long
    assert torch.equal(again, tape)


def test_a_list_becomes_a_tape_where_the_generator_is() -> None:
    order = CustomOrder(lambda entries, batches, generator: [0, 3, 1], reversible=False)
    with other_defaults():
        tape = order.draw(3, 4, 2, torch.Generator("cpu"))
    assert tape.tolist() == [[0, 0], [3, 3], [1, 1]]


@pytest.mark.parametrize(("entries", "passes"), [(8, 3), (9, 4), (12, 4)])
def test_no_more_passes_are_shuffled_than_a_tape_can_meet(
    monkeypatch: pytest.MonkeyPatch, entries: int, passes: int
) -> None:
    """Those that its length makes and one more, as it may begin within one; a palindrome goes by one shuffle."""
    shuffled: list[int] = []
    shuffles = orders._shuffles

    def counted(count: int, *rest: Any) -> Tensor:
        shuffled.append(count)
        return shuffles(count, *rest)

    monkeypatch.setattr(orders, "_shuffles", counted)
    draw("epoch", entries)
    draw("palindrome", entries)
    assert shuffled == [passes, 1]


# The user's own


def honest(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    return torch.randint(batches, (entries,), generator=generator)


@pytest.mark.parametrize(
    ("draw_one", "why"),
    [
        (lambda entries, batches, generator: torch.zeros(2, dtype=torch.long), "must give 4 batch numbers"),
        (lambda entries, batches, generator: torch.zeros(entries), r"got torch\.float32"),
        (lambda entries, batches, generator: torch.full((entries,), batches), "batch numbers from 0 to 3"),
        (lambda entries, batches, generator: torch.full((entries,), -1), "batch numbers from 0 to 3"),
    ],
)
def test_a_tape_of_the_wrong_form_is_refused(draw_one: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.CustomOrder(draw_one, reversible=True).draw(4, 4, 2, torch.Generator())


def test_a_custom_order_draws_each_chain_by_itself() -> None:
    tape = CustomOrder(honest, reversible=True).draw(5, 4, 3, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(tape, torch.stack([honest(5, 4, generator) for _ in range(3)], 1))


def test_a_custom_order_may_give_a_list() -> None:
    tape = CustomOrder(lambda entries, batches, generator: [1] * entries, reversible=True).draw(
        3, 4, 2, torch.Generator()
    )
    assert torch.equal(tape, torch.ones(3, 2, dtype=torch.long))


def test_custom_orders_are_equal_if_what_was_given_is() -> None:
    one, same, other = (CustomOrder(honest, reversible=r) for r in (True, True, False))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert hash(one) != hash(other)
    assert one != honest
    assert repr(one) == "CustomOrder(honest, reversible=True)"


def test_a_custom_order_is_called_after_its_function_or_after_the_kind_of_its_callable() -> None:
    assert CustomOrder(honest, reversible=True).name == "honest"
    assert CustomOrder(partial(honest), reversible=True).name == "partial"


def test_a_custom_order_states_whether_it_is_reversible() -> None:
    with pytest.raises(TypeError, match="reversible"):
        CustomOrder(honest)  # pyright: ignore[reportCallIssue]
    with pytest.raises(BadInput, match="needs a function"):
        CustomOrder("iid", reversible=True)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("order", ["random", honest, None, ORDERS, type(ORDERS["iid"])])
def test_an_unknown_order_is_refused(order: Any) -> None:
    with pytest.raises(BadInput, match=r"order must be one of \['palindrome', 'epoch', 'iid'\] or a ggmc.CustomOrder"):
        ggmc.Minibatch(10, order)


def test_an_order_is_known_by_its_class_not_by_its_attributes() -> None:
    class LooksLikeOne:
        name, reversible = "looks like one", True

        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            return torch.zeros(entries, chains, dtype=torch.long)

        def sweep(self, batches: int) -> int:
            return batches

    with pytest.raises(BadInput, match="order must be one of"):
        as_order(LooksLikeOne())  # pyright: ignore[reportArgumentType]


def test_an_order_must_be_complete() -> None:
    class NoSweep(Order):
        def __init__(self) -> None:
            super().__init__(name="no sweep", reversible=True)

        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            return torch.zeros(entries, chains, dtype=torch.long)

    class NothingStated(NoSweep):
        def __init__(self) -> None:
            Order.__init__(self)  # pyright: ignore[reportCallIssue]

        def sweep(self, batches: int) -> int:
            return batches

    with pytest.raises(TypeError, match="abstract method"):
        NoSweep()  # pyright: ignore[reportAbstractUsage]
    with pytest.raises(TypeError, match="'name' and 'reversible'"):
        NothingStated()
