"""The cost model of docs/scaling.md, against sums made by hand, and its table against the one that is printed there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.cost_model import (
    GPUS,
    Cluster,
    Link,
    Work,
    cost_of_step,
    cost_of_test,
    smallest_batch,
    steps_between_tests,
    table,
)
from benchmarks.two_ranks import fitted

ROOT = Path(__file__).parent.parent
CLUSTER = Cluster(per_node=8, inside=Link(1e-6, 1e11), between=Link(1e-5, 1e10))


def test_an_all_reduce_by_hand() -> None:
    # In a node of 8: 14 messages, 14/8 of 1e9 bytes at 1e11 bytes per second.
    assert CLUSTER.all_reduce(1e9, 8) == pytest.approx(0.0175 + 14e-6)
    # And between 4 nodes: 6 messages, 6/4 of the bytes at 1e10.
    assert CLUSTER.all_reduce(1e9, 32) == pytest.approx(0.0175 + 14e-6 + 0.15 + 6e-5)
    assert CLUSTER.all_reduce(1e9, 1) == 0


def test_a_step_and_a_test_by_hand() -> None:
    work = Work(parameters=1e6, examples=1e5, gradients=1e3, moved=10, memory=1e12, chains=2)
    step = cost_of_step(work, CLUSTER, 8, 800)
    assert step.compute == pytest.approx(2 * 100 / 1e3 + 10 * 8e6 / 1e12)
    assert step.communication == CLUSTER.all_reduce(8e6, 8)
    test = cost_of_test(work, CLUSTER, 8)
    assert test.compute == pytest.approx(2 * 12_500 / 3e3)
    assert test.communication == CLUSTER.all_reduce(16, 8) + CLUSTER.all_reduce(32, 8)
    alone = cost_of_step(work, CLUSTER, 1, 800)
    assert alone.share == 0


@pytest.mark.parametrize("gpus", GPUS)
@pytest.mark.parametrize("chains", [1, 4])
def test_what_is_said_to_cost_a_tenth_does(gpus: int, chains: int) -> None:
    work, cluster = Work(chains=chains), Cluster()
    batch = smallest_batch(work, cluster, gpus)
    assert cost_of_step(work, cluster, gpus, batch).share <= 0.1
    assert cost_of_step(work, cluster, gpus, batch - gpus).share > 0.1
    steps = steps_between_tests(work, cluster, gpus, batch)
    step, test = cost_of_step(work, cluster, gpus, batch).seconds, cost_of_test(work, cluster, gpus).seconds
    assert test / (steps * step + test) <= 0.1 < test / ((steps - 1) * step + test)


def test_the_fit_finds_a_link_through_noise() -> None:
    sizes = [10**power for power in range(3, 8)]
    exact = [2e-4 + 4 * size / 1e9 for size in sizes]
    link = fitted(sizes, exact)
    assert link.all_reduce(4e5, 2) == pytest.approx(2e-4 + 4e-4)
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal(len(sizes)))
    noisy = fitted(sizes, list(noise * exact))
    assert 2 * noisy.latency == pytest.approx(2e-4, rel=0.3)
    assert noisy.bandwidth == pytest.approx(1e9, rel=0.3)


def test_the_page_has_the_table_that_the_command_prints() -> None:
    assert table(Work(), Cluster(), 128) in (ROOT / "docs" / "scaling.md").read_text()
