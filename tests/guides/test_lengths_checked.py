"""An order is checked at every length that a trajectory can have; what is known at an anchor must stay as it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import NotExact
from ggmc.guides.order_check import check_reversible
from tests.support.invariance import noisy_quartic
from tests.support.logistic import log_likelihood, log_prior, logistic, rows

F64 = torch.float64


def every_second(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    """Neighbours are independent, but every entry is the successor of the last but one, half of the time."""
    tape = torch.randint(batches, (entries,), generator=generator)
    for i in range(2, entries):
        if torch.rand((), generator=generator) < 0.5:
            tape[i] = (tape[i - 2] + 1) % batches
    return tape


def reversible_up_to_four(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    tape = torch.randint(batches, (entries,), generator=generator)
    return tape if entries <= 4 else tape.sort().values


def cut_off(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    """Whole passes, the last of them cut off: reversible only at whole numbers of passes."""
    passes = [torch.randperm(batches, generator=generator) for _ in range(entries // batches + 1)]
    return torch.cat(passes)[:entries]


def test_a_direction_seen_only_in_every_second_entry_is_found_out() -> None:
    with pytest.raises(NotExact, match="read backwards"):
        check_reversible(ggmc.CustomOrder(every_second, reversible=True), 7, 4)


@pytest.mark.parametrize(
    ("draw_one", "steps"),
    [
        (reversible_up_to_four, (2, 7)),
        (reversible_up_to_four, (2, 5)),  # at its longest only
        (cut_off, (5, 8)),
        (cut_off, (4, 7)),
    ],
)
@pytest.mark.parametrize("recut", [False, True])
def test_every_length_of_a_range_is_checked(draw_one: Any, steps: tuple[int, int], recut: bool) -> None:
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(draw_one, reversible=True), recut=recut)
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.GGMC(0.1, guide=guide, steps=steps, scheme="O(ABA)O").bind(noisy_quartic().target)


def test_a_length_at_which_an_order_is_reversible_is_accepted() -> None:
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(cut_off, reversible=True))
    ggmc.GGMC(0.1, guide=guide, steps=8, scheme="O(ABA)O").bind(noisy_quartic().target)
    # One entry more: with half kicks at both ends, a trajectory of eight steps reads nine.
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.GGMC(0.1, guide=guide, steps=8, scheme="OBABO").bind(noisy_quartic().target)


def test_an_order_is_checked_at_the_length_that_warm_up_found() -> None:
    order = ggmc.CustomOrder(cut_off, reversible=True)
    kernel = ggmc.GGMC(guide=ggmc.ControlVariate(3, order, anchor=torch.zeros(1, dtype=F64)), scheme="O(ABA)O")
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.sample(noisy_quartic().target, kernel, draws=5, warmup=60, progress=False)


# Control variates


def test_nothing_known_at_the_anchor_may_change() -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, curvature="dense", anchor=torch.zeros(3, dtype=F64)), steps=2)
    number = len(kernel.guide.bind(target).frozen())
    assert number >= 4  # the anchor, its gradient, and each batch's gradient and curvature there
    for which in range(number):
        field = kernel.guide.bind(target)
        sampler = kernel.sampler(target, field)
        generator = torch.Generator().manual_seed(0)
        state = sampler.init(rows(), generator)
        sampler.step(state, sampler.parameters, generator)
        field.frozen()[which].mul_(1.1)
        with pytest.raises(NotExact, match="was changed after the kernel was bound"):
            sampler.step(state, sampler.parameters, generator)


def test_a_diagonal_curvature_is_exact_where_the_hessian_is_diagonal() -> None:
    x = torch.eye(3, dtype=F64).repeat(34, 1)
    x = x * torch.rand(102, 1, dtype=F64, generator=torch.Generator().manual_seed(0))
    s = torch.sign(torch.randn(102, dtype=F64, generator=torch.Generator().manual_seed(1)))
    target = ggmc.DataDensity(log_prior, log_likelihood, (x, s), torch.zeros(3, dtype=F64))
    anchor = torch.tensor([0.3, -0.2, 0.1], dtype=F64)
    diagonal, dense = (
        ggmc.ControlVariate(10, "iid", curvature, anchor).bind(target) for curvature in ("diagonal", "dense")
    )
    entry = torch.tensor([0, 3, 5, 1])
    torch.testing.assert_close(diagonal(rows(), entry)[0], dense(rows(), entry)[0])
