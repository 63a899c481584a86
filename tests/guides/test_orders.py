"""Tapes: what each order promises, and the check of the user's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput, NotExact
from ggmc.guides.orders import ORDERS, as_order, check_reversible
from tests.support.invariance import noisy_quartic

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
def test_the_joint_law_is_the_same_read_backwards(order: str, entries: int) -> None:
    check_reversible(as_order(order), entries, 4)
    # ... and so are all pairs of places, counted one by one
    tape = draw(order, entries, 3, chains=60_000)
    codes, back = (t[:-1] * 3 + t[1:] for t in (tape, tape.flip(0)))
    for place in range(entries - 1):
        one, other = (torch.bincount(x[place], minlength=9).double() / 60_000 for x in (codes, back))
        assert ((one - other).abs() < 6 * (0.5 / 60_000) ** 0.5).all()


# The user's own


def sorted_batches(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    return torch.randint(batches, (entries,), generator=generator).sort().values


def in_turn(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    return (torch.arange(entries) + torch.randint(batches, (), generator=generator)) % batches


def equal_marginals_only(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    """Every entry is uniform, but each is the successor of the one before, half of the time."""
    tape = torch.randint(batches, (entries,), generator=generator)
    for i in range(1, entries):
        if torch.rand((), generator=generator) < 0.5:
            tape[i] = (tape[i - 1] + 1) % batches
    return tape


def cut_off(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    passes = [torch.randperm(batches, generator=generator) for _ in range(entries // batches + 1)]
    return torch.cat(passes)[:entries]


def honest(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    return torch.randint(batches, (entries,), generator=generator)


@pytest.mark.parametrize("tape", [sorted_batches, in_turn, equal_marginals_only, cut_off])
def test_a_tape_wrongly_called_reversible_is_found_out(tape: Any) -> None:
    with pytest.raises(NotExact, match=f"the tape '{tape.__name__}' is said to be reversible, but read backwards"):
        check_reversible(ggmc.Tape(tape, reversible=True), 7, 4)
    guide = ggmc.Minibatch(3, ggmc.Tape(tape, reversible=True))
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.GGMC(0.1, guide=guide, steps=7, scheme="O(ABA)O").bind(noisy_quartic().target)


def test_a_tape_rightly_called_reversible_is_accepted() -> None:
    guide = ggmc.Minibatch(3, ggmc.Tape(honest, reversible=True))
    trace = ggmc.sample(noisy_quartic().target, ggmc.GGMC(0.2, guide=guide), draws=20, warmup=0, progress=False)
    assert trace.stats["is_accepted"].any()


def test_a_tape_not_called_reversible_is_refused_with_the_test_and_watched_without() -> None:
    guide = ggmc.Minibatch(3, ggmc.Tape(sorted_batches, reversible=False))
    with pytest.raises(NotExact, match="another law read backwards"):
        ggmc.GGMC(0.1, guide=guide).bind(noisy_quartic().target)
    with pytest.raises(NotExact, match="order='palindrome'"):
        ggmc.sample(noisy_quartic().target, ggmc.GGMC(guide=guide), progress=False)
    kernel = ggmc.GGMC(0.1, guide=guide, adjust=False)
    assert ggmc.sample(noisy_quartic().target, kernel, draws=3, warmup=0, progress=False).num_draws == 3


@pytest.mark.parametrize(
    ("tape", "why"),
    [
        (lambda entries, batches, generator: torch.zeros(2, dtype=torch.long), "must give 4 batch numbers"),
        (lambda entries, batches, generator: torch.zeros(entries), r"got torch\.float32"),
        (lambda entries, batches, generator: torch.full((entries,), batches), "batch numbers from 0 to 3"),
        (lambda entries, batches, generator: torch.full((entries,), -1), "batch numbers from 0 to 3"),
    ],
)
def test_a_tape_of_the_wrong_form_is_refused(tape: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.Tape(tape, reversible=True).draw(4, 4, 2, torch.Generator())


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(BadInput, match=r"order must be one of \['palindrome', 'epoch', 'iid'\]"):
        ggmc.Minibatch(10, "random")


def sorted_unless_fifteen(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    tape = honest(entries, batches, generator)
    return tape if entries == 15 else tape.sort().values


def test_both_ends_of_a_range_of_lengths_are_checked() -> None:
    guide = ggmc.Minibatch(3, ggmc.Tape(sorted_unless_fifteen, reversible=True))
    for steps in ((5, 15), (15, 30)):
        with pytest.raises(NotExact, match="said to be reversible"):
            ggmc.GGMC(0.1, steps=steps, scheme="O(ABA)O", guide=guide).bind(noisy_quartic().target)


def test_an_order_of_another_class_is_checked_too() -> None:
    class Sorted:
        name, reversible = "sorted", True

        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            return torch.randint(batches, (entries, chains), generator=generator).sort(0).values

        def sweep(self, batches: int) -> int:
            return batches

    with pytest.raises(NotExact, match="the tape 'sorted' is said to be reversible"):
        ggmc.GGMC(0.1, steps=6, guide=ggmc.Minibatch(3, Sorted())).bind(noisy_quartic().target)


def test_the_length_that_warm_up_found_is_checked() -> None:
    tape = ggmc.Tape(sorted_unless_fifteen, reversible=True)
    kernel = ggmc.GGMC(guide=ggmc.Minibatch(3, tape), scheme="O(ABA)O")
    with pytest.raises(NotExact, match="said to be reversible"):
        ggmc.sample(noisy_quartic().target, kernel, draws=5, warmup=60, progress=False)
