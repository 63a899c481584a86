"""Minibatches: gradients whose mean over a pass is exact, with fixed batches and with batches that are cut anew."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.guides.batches import Batches, Recut
from ggmc.guides.orders import ORDERS
from tests.support.fields import over_a_pass, over_all_batches
from tests.support.logistic import direct, examples, log_likelihood, log_prior, logistic, rows

F64 = torch.float64
ANCHOR = torch.tensor([0.3, -0.2, 0.1], dtype=F64)


@pytest.mark.parametrize("size", [10, 11, 50, 103, 1000])
@pytest.mark.parametrize("curvature", [None, "none", "diagonal", "dense"])
def test_the_mean_over_all_batches_is_the_exact_gradient(size: int, curvature: str | None) -> None:
    target = logistic()
    guide: Any = ggmc.Minibatch(size)
    if curvature is not None:
        guide = ggmc.ControlVariate(size, curvature=curvature, anchor=ANCHOR)
    mean = over_all_batches(guide.bind(target), rows()).mean(0)
    torch.testing.assert_close(mean, target.potential_and_gradient(rows())[1])


@pytest.mark.parametrize("guide", [ggmc.Minibatch(10), ggmc.ControlVariate(10)], ids=str)
def test_a_target_without_data_has_no_minibatches(guide: Any) -> None:
    plain = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2, dtype=F64))
    with pytest.raises(BadInput, match="needs a target with data, such as ggmc"):
        guide.bind(plain)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ggmc.Minibatch(0), "size must be a whole number of at least 1, got 0"),
        (lambda: ggmc.Minibatch("all"), "size must be a whole number"),
        (lambda: ggmc.ControlVariate(0), "size must be a whole number of at least 1, got 0"),
        (lambda: ggmc.ControlVariate("auto").bind(logistic()), 'size="auto" is found in warm-up'),
        (lambda: ggmc.Minibatch("auto").bind(logistic()), 'size="auto" is found in warm-up'),
    ],
)
def test_settings_that_are_refused(make: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        make()


@pytest.mark.parametrize("size", [10, 11, 50, 103, 1000])
@pytest.mark.parametrize("order", ["epoch", "palindrome"])
def test_the_mean_over_a_pass_of_fresh_batches_is_the_exact_gradient(size: int, order: str) -> None:
    target = logistic()
    field = ggmc.Minibatch(size, order, recut=True).bind(target)
    mean = over_a_pass(field, rows(), seed=3).mean(0)
    torch.testing.assert_close(mean, target.potential_and_gradient(rows())[1])


def test_a_gradient_is_that_of_the_examples_the_tape_lists() -> None:
    field = ggmc.Minibatch(10, recut=True).bind(logistic())
    tape: Any = field.tape(3, 4, torch.Generator().manual_seed(0))
    for entry in tape:
        position = rows().requires_grad_()
        found = []
        for w, listed in zip(position, entry, strict=True):
            x, s = (leaf[listed[listed >= 0]] for leaf in examples())
            found.append(-(log_prior(w) + 11 * log_likelihood(w, (x, s)).sum()))
        (wanted,) = torch.autograd.grad(torch.stack(found).sum(), position)
        torch.testing.assert_close(field(rows(), entry)[0], wanted)


def test_at_one_batch_nothing_is_random_but_the_order_of_examples() -> None:
    position = rows().requires_grad_()
    (wanted,) = torch.autograd.grad(direct(position).sum(), position)
    for recut in (False, True):
        field = ggmc.Minibatch(103, recut=recut).bind(logistic())
        torch.testing.assert_close(over_a_pass(field, rows())[0], wanted)


@pytest.mark.parametrize("order", ORDERS)
def test_fixed_and_fresh_batches_agree_on_lengths(order: str) -> None:
    fixed, fresh = (ggmc.Minibatch(10, order, recut=recut).bind(logistic()) for recut in (False, True))
    for name in ("epoch", "sweep", "whole_sweeps", "default_steps", "deterministic", "exact"):
        assert getattr(fixed, name) == getattr(fresh, name)
    assert isinstance(fresh.order, Recut)
    assert fresh.order.base is fixed.order


def test_another_size_keeps_the_other_settings() -> None:
    guide = ggmc.Minibatch("auto", "epoch", seed=4, recut=True)
    assert guide.with_size(25) == ggmc.Minibatch(25, "epoch", seed=4, recut=True)


def test_fixed_batches_are_the_default() -> None:
    assert not ggmc.Minibatch(10).recut


def test_a_gradient_needs_an_entry() -> None:
    for guide in (ggmc.Minibatch(10), ggmc.ControlVariate(10, anchor=ANCHOR)):
        with pytest.raises(BadInput, match="needs an entry of the tape, got None"):
            guide.bind(logistic())(rows(), None)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_seed_of_a_guide_is_that_of_its_cut(seed: int) -> None:
    target = logistic()
    cut = Batches(target.data, 10, seed)
    for guide in (ggmc.Minibatch(10, seed=seed), ggmc.ControlVariate(10, anchor=ANCHOR, seed=seed)):
        for field in (guide.bind(target), guide.bind_again(target, {"anchor": ANCHOR})):
            batches: Any = field._batches  # pyright: ignore[reportAttributeAccessIssue]
            assert torch.equal(batches.indices, cut.indices)


def test_lengths_that_suit_a_guide_where_none_are_given() -> None:
    """Sweeps, whose noise cancels; of control variates, which have little, ten steps or a shorter sweep."""
    target = logistic()  # in 11 batches
    for guide, steps, whole in (
        (ggmc.Exact(), 1, False),
        (ggmc.Minibatch(10), 22, True),
        (ggmc.Minibatch(10, "epoch"), 11, True),
        (ggmc.ControlVariate(10, anchor=ANCHOR), 10, False),
        (ggmc.ControlVariate(30, anchor=ANCHOR), 8, False),
        (ggmc.ControlVariate(30, "iid", anchor=ANCHOR), 4, False),
    ):
        field = guide.bind(target)
        assert (field.default_steps, field.whole_sweeps) == (steps, whole)


def test_what_is_not_given_has_its_usual_value() -> None:
    assert ggmc.Minibatch(10) == ggmc.Minibatch(10, "palindrome", seed=0, recut=False, augment=None)
    assert ggmc.ControlVariate(10) == ggmc.ControlVariate(10, "palindrome", "none", None, seed=0)
