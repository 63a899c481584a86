"""Chains: blocks, what is frozen after warm-up, and runs that are stored and go on bit for bit."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch import nn

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.chains import Chains
from ggmc.sampling.interrupts import Interrupts
from ggmc.sampling.run import BLOCK, Run
from ggmc.trace.store import MemoryStore
from tests.support.gaussians import gaussian
from tests.support.posteriors import NORMAL, X, Y


@pytest.mark.parametrize(
    "kernel", [ggmc.GGMC(), ggmc.GGMC(scheme="O(BAB)O", mass="dense"), ggmc.MALA(), ggmc.HMC(0.5, (1, 4))]
)
@pytest.mark.parametrize("after", [0, 3, 33, 60, 99, 100, 130])
def test_a_stored_run_goes_on_bit_for_bit(kernel: Any, after: int) -> None:
    target = gaussian(3)
    chains = Chains(target, kernel, chains=4, warmup=100, seed=7)
    for _ in range(after):
        chains.advance()
    stored = io.BytesIO()
    torch.save(chains.state_dict(), stored)
    stored.seek(0)
    other = Chains(target, kernel, chains=4, warmup=100, seed=99, stored=torch.load(stored, weights_only=True))
    for _ in range(150 - after):
        here, there = chains.advance(), other.advance()
        assert torch.equal(here.log_accept, there.log_accept)
    assert torch.equal(chains.state.position, other.state.position)
    assert torch.equal(chains.state.momentum, other.state.momentum)
    assert chains.kernel == other.kernel


def test_after_warm_up_everything_is_frozen() -> None:
    chains = Chains(gaussian(3), ggmc.GGMC(scheme="O(BAB)O"), chains=4, warmup=100, seed=0)
    for _ in range(100):
        chains.advance()
    frozen = chains.kernel
    learnt = {k: v for k, v in chains.warmup.state_dict().items() if k != "paths"}
    for _ in range(50):
        chains.advance()
    assert chains.kernel is frozen
    after = {k: v for k, v in chains.warmup.state_dict().items() if k != "paths"}
    assert str(after) == str(learnt)


def test_a_snapshot_in_memory_stays_what_it_was() -> None:
    target = gaussian(3)
    chains = Chains(target, ggmc.GGMC(), chains=4, warmup=100, seed=7)
    for _ in range(10):
        chains.advance()
    snapshot = chains.state_dict()
    one, two = (Chains(target, ggmc.GGMC(), chains=4, warmup=100, seed=9, stored=snapshot) for _ in range(2))
    for run in (one, two):  # the second goes on after the first: neither changes what the other was made of
        for _ in range(110):
            run.advance()
    for _ in range(110):
        chains.advance()
    assert torch.equal(one.state.position, two.state.position)
    assert torch.equal(one.state.position, chains.state.position)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"warmup": 50}, "warmup_iterations 100, but this one has 50"),
        ({"kernel": ggmc.HMC()}, "the stored run has kernel"),
        ({"chains": 3}, r"\[4, 2\], but this one has \[3, 2\]"),
        ({"target": gaussian(3)}, r"\[4, 2\], but this one has \[4, 3\]"),
    ],
)
def test_the_state_of_another_run_is_refused(other: dict[str, Any], why: str) -> None:
    settings = {"target": gaussian(), "kernel": ggmc.GGMC(), "chains": 4, "warmup": 100, "seed": 0}
    stored = Chains(**settings).state_dict()
    with pytest.raises(BadInput, match=why):
        Chains(**(settings | other), stored=stored)


def test_a_resumed_run_draws_what_was_missing() -> None:
    one = Chains(gaussian(), ggmc.HMC(0.8, 3), 4, 5, 0)
    for _ in range(60):
        one.advance()
    other = Chains(gaussian(), ggmc.HMC(0.8, 3), 4, 5, 1, stored=one.state_dict())
    assert other.drawn == 55
    store = MemoryStore()
    run = Run(other, store)
    with Interrupts() as interrupts:
        assert run.go(60, lambda info, warming, number: None, interrupts)
    assert store.rows().shape[1] == 5


def test_a_stored_run_with_another_annealing_is_refused() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y, vectorise=True)
    stored = Chains(target, ggmc.GGMC(), 2, 20, 0, anneal=5.0).state_dict()
    with pytest.raises(BadInput, match="anneal"):
        Chains(target, ggmc.GGMC(), 2, 20, 0, stored=stored)


@pytest.mark.parametrize("warmup", [1, 4, 5, 9])
def test_the_first_report_of_the_draws_is_about_them_alone(warmup: int) -> None:
    """With log α for every five trajectories, those of warm-up that were not yet reported are not counted."""
    target = gaussian()
    kernel = ggmc.GGMC(0.7, steps=2, adjust=False, monitor_every=5)
    chains = Chains(target, kernel, chains=3, warmup=warmup, seed=0)
    for _ in range(warmup):
        chains.advance()
    assert not chains.warming
    start, works = target.potential(chains.state.position), []
    while True:
        info = chains.advance()
        works.append(info.work)
        if info.energy_error.isfinite().all():
            break
    assert len(works) == 5 - warmup % 5
    end = target.potential(chains.state.position)
    torch.testing.assert_close(info.energy_error, end - start + sum(works))


def test_a_resumed_run_keeps_the_work_that_is_not_yet_reported() -> None:
    kernel = ggmc.GGMC(0.7, steps=2, adjust=False, monitor_every=5)
    one = Chains(gaussian(), kernel, chains=3, warmup=3, seed=0)
    for _ in range(6):
        one.advance()
    other = Chains(gaussian(), kernel, chains=3, warmup=3, seed=1, stored=one.state_dict())
    for _ in range(6):
        here, there = one.advance(), other.advance()
        assert torch.equal(here.log_accept.nan_to_num(9.0), there.log_accept.nan_to_num(9.0))


def test_what_stops_the_chains_is_raised_after_the_draws_so_far() -> None:
    chains = Chains(gaussian(), ggmc.MALA(0.5), chains=2, warmup=0, seed=0)

    def stop(info: Any, warming: bool, number: int) -> None:
        if chains.drawn == BLOCK + 3:
            raise RuntimeError("enough")

    store = MemoryStore()
    with Interrupts() as interrupts, pytest.raises(RuntimeError, match="enough"):
        Run(chains, store).go(1000, stop, interrupts)
    assert store.rows().shape == (2, BLOCK + 3, 2)
    assert torch.equal(torch.tensor(store.rows()[:, -1]), chains.state.position)


def test_an_unknown_potential_is_reported_as_nan() -> None:
    kernel = ggmc.GGMC(0.5, adjust=False, monitor_every=3)
    trace = ggmc.sample(gaussian(), kernel, draws=9, warmup=0, chains=2, progress=False)
    lp = torch.from_numpy(trace.stats["lp"])
    assert lp.isfinite().all(0).tolist() == [False, False, True] * 3
    expected = -(torch.from_numpy(trace.positions) ** 2).sum(-1) / 2
    torch.testing.assert_close(lp[:, 2::3], expected[:, 2::3])
