"""Guides and their orders inside a kernel: what is refused, and what is exported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.exactness import Unchanged
from ggmc.errors import BadInput, NotExact
from ggmc.guides.order_check import check_reversible
from ggmc.guides.orders import Order
from tests.support.invariance import noisy_quartic, violations
from tests.support.logistic import logistic, rows

F64 = torch.float64
ANCHOR = torch.tensor([0.3, -0.2, 0.1], dtype=F64)


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
def test_an_order_wrongly_called_reversible_is_found_out(tape: Any) -> None:
    with pytest.raises(NotExact, match=f"the order '{tape.__name__}' is said to be reversible, but read backwards"):
        check_reversible(ggmc.CustomOrder(tape, reversible=True), 7, 4)
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(tape, reversible=True))
    with pytest.raises(NotExact, match="standard errors"):
        ggmc.GGMC(0.1, guide=guide, steps=7, scheme="O(ABA)O").bind(noisy_quartic().target)


def test_an_order_rightly_called_reversible_is_accepted() -> None:
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(honest, reversible=True))
    trace = ggmc.sample(noisy_quartic().target, ggmc.GGMC(0.2, guide=guide), draws=20, warmup=0, progress=False)
    assert trace.stats["is_accepted"].any()


def test_an_order_not_called_reversible_is_refused_with_the_test_and_monitored_without() -> None:
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(sorted_batches, reversible=False))
    with pytest.raises(NotExact, match="read backwards"):
        ggmc.GGMC(0.1, guide=guide).bind(noisy_quartic().target)
    with pytest.raises(NotExact, match="order='palindrome'"):
        ggmc.sample(noisy_quartic().target, ggmc.GGMC(guide=guide), progress=False)
    kernel = ggmc.GGMC(0.1, guide=guide, adjust=False)
    assert ggmc.sample(noisy_quartic().target, kernel, draws=3, warmup=0, progress=False).num_draws == 3


def sorted_unless_fifteen(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    tape = honest(entries, batches, generator)
    return tape if entries == 15 else tape.sort().values


def test_both_ends_of_a_range_of_lengths_are_checked() -> None:
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(sorted_unless_fifteen, reversible=True))
    for steps in ((5, 15), (15, 30)):
        with pytest.raises(NotExact, match="said to be reversible"):
            ggmc.GGMC(0.1, steps=steps, scheme="O(ABA)O", guide=guide).bind(noisy_quartic().target)


def test_an_order_of_another_class_is_checked_too() -> None:
    class Sorted(Order):
        def __init__(self) -> None:
            super().__init__(name="sorted", reversible=True)

        def draw(self, entries: int, batches: int, chains: int, generator: torch.Generator) -> Tensor:
            return torch.randint(batches, (entries, chains), generator=generator).sort(0).values

        def sweep(self, batches: int) -> int:
            return batches

    with pytest.raises(NotExact, match="the order 'sorted' is said to be reversible"):
        ggmc.GGMC(0.1, steps=6, guide=ggmc.Minibatch(3, Sorted())).bind(noisy_quartic().target)


def test_the_length_that_warm_up_found_is_checked() -> None:
    tape = ggmc.CustomOrder(sorted_unless_fifteen, reversible=True)
    kernel = ggmc.GGMC(guide=ggmc.Minibatch(3, tape), scheme="O(ABA)O")
    with pytest.raises(NotExact, match="said to be reversible"):
        ggmc.sample(noisy_quartic().target, kernel, draws=5, warmup=60, progress=False)


def test_the_configurational_temperature_is_told_only_by_exact_gradients() -> None:
    for guide, known in ((ggmc.Exact(), True), (ggmc.Surrogate(lambda w: -(w**2).sum()), False)):
        trace = ggmc.sample(logistic(), ggmc.HMC(0.1, 2, guide=guide), draws=5, warmup=0, progress=False)
        assert np.isfinite(trace.stats["configurational_temperature"]).all() == known


def test_an_anchor_that_moves_is_refused() -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, anchor=ANCHOR), steps=2, mass=[1.0, 2.0, 3.0])
    field: Any = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(rows(), generator)
    state, _ = sampler.step(state, sampler.parameters, generator)
    with pytest.raises(AttributeError):
        field.anchor = field.anchor + 0.1
    field.anchor.add_(0.1)
    with pytest.raises(NotExact, match="the anchor of the control variates, was changed after the kernel was bound"):
        sampler.step(state, sampler.parameters, generator)


def test_an_anchor_that_is_replaced_is_refused() -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, anchor=ANCHOR), steps=2)
    field: Any = kernel.guide.bind(target)
    sampler = kernel.sampler(target, field)
    generator = torch.Generator().manual_seed(0)
    state, _ = sampler.step(sampler.init(rows(), generator), sampler.parameters, generator)
    field._anchor = field.anchor + 0.1
    with pytest.raises(NotExact, match="Bind the kernel again"):
        sampler.step(state, sampler.parameters, generator)


def test_a_tensor_replaced_more_than_once_is_noticed() -> None:
    """The memory of the first one would be free for the third."""
    tensors = [torch.zeros(3)]
    unchanged = Unchanged(lambda: tensors)
    unchanged.check()
    for _ in range(2):
        tensors[0] = torch.ones(3)
    with pytest.raises(NotExact, match="Bind the kernel again"):
        unchanged.check()


def test_a_mass_that_adapts_is_refused() -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, steps=2, mass=torch.tensor([1.0, 2.0, 3.0], dtype=F64))
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    generator = torch.Generator().manual_seed(0)
    state, _ = sampler.step(sampler.init(rows(), generator), sampler.parameters, generator)
    sampler.parameters.mass.tensors()[0].mul_(2)
    with pytest.raises(NotExact, match="Bind the kernel again"):
        sampler.step(state, sampler.parameters, generator)


def test_runs_with_an_anchor_or_functions_of_the_users_can_be_exported() -> None:
    for guide in (ggmc.ControlVariate(10, anchor=ANCHOR), ggmc.Surrogate(lambda w: -20 * (w[:2] ** 2).sum())):
        trace = ggmc.sample(logistic(), ggmc.GGMC(0.1, steps=2, guide=guide), draws=10, warmup=0, progress=False)
        assert "kernel" in trace.to_datatree()["posterior"].attrs


@pytest.mark.parametrize("kind", [ggmc.SGLD, ggmc.SGHMC])
def test_baselines_have_no_warm_up_to_find_a_batch_size(kind: Any) -> None:
    with pytest.raises(BadInput, match='size="auto" is found in warm-up'):
        kind(0.1, guide=ggmc.Minibatch("auto"))


def test_a_given_step_size_leaves_no_batch_size_to_find() -> None:
    with pytest.raises(BadInput, match='size="auto" is found in warm-up'):
        ggmc.GGMC(0.1, guide=ggmc.Minibatch("auto"))


@pytest.mark.parametrize("guide", [ggmc.Minibatch(10), ggmc.ControlVariate(10)], ids=str)
def test_a_kernel_refuses_minibatches_of_a_target_without_data(guide: Any) -> None:
    plain = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2, dtype=F64))
    with pytest.raises(BadInput, match="needs a target with data, such as ggmc"):
        ggmc.GGMC(0.1, guide=guide).bind(plain)


# Batches that are cut anew


@pytest.mark.parametrize("order", ["palindrome", "epoch", "iid"])
@pytest.mark.parametrize(("steps", "scheme"), [(1, "OBABO"), (7, "O(ABA)O"), (6, "BAOAB")])
def test_batches_cut_anew_leave_exact_draws_exact(order: str, steps: int, scheme: str) -> None:
    guide = ggmc.Minibatch(5, order, recut=True)
    kernel = ggmc.GGMC(0.35, 0.5, steps, scheme, guide)
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000) == {}
    assert violations(noisy_quartic(), replace(kernel, adjust=False), trajectories=6, chains=30_000) != {}


def test_an_order_over_batches_cut_anew_is_checked() -> None:
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(in_turn, reversible=True), recut=True)
    with pytest.raises(NotExact, match="the order 'in_turn' is said to be reversible"):
        ggmc.GGMC(0.1, guide=guide, steps=7, scheme="O(ABA)O").bind(noisy_quartic().target)
    guide = ggmc.Minibatch(3, ggmc.CustomOrder(in_turn, reversible=False), recut=True)
    with pytest.raises(NotExact, match="read backwards"):
        ggmc.GGMC(0.1, guide=guide, steps=7, scheme="O(ABA)O").bind(noisy_quartic().target)


def test_warm_up_finds_the_size_of_batches_cut_anew() -> None:
    kernel = ggmc.GGMC(guide=ggmc.Minibatch("auto", recut=True))
    trace = ggmc.sample(logistic(100), kernel, draws=5, warmup=60, progress=False)
    assert trace.stats["is_accepted"].any()
