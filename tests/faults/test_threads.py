"""Two calls in two threads of one process: neither changes what the other finds, or what is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.distributions import Distribution, Normal

import ggmc
from tests.support.posteriors import NORMAL, X, Y

F64 = torch.float64


def at_once(*works: Callable[[], object]) -> None:
    """Carry out several works in threads that start together; what fails in one fails the test."""
    barrier = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_validation_of_distributions_is_left_as_it_was() -> None:
    target = ggmc.Density(lambda x: Normal(0.0, 1.0).log_prob(x).sum(), torch.zeros(2, dtype=F64))

    def work() -> None:
        for _ in range(20):
            target.potential_and_gradient(torch.ones(2, 2, dtype=F64))

    before = Distribution._validate_args  # pyright: ignore[reportPrivateUsage]
    for _ in range(20):
        at_once(work, work, work)
        assert Distribution._validate_args is before  # pyright: ignore[reportPrivateUsage]


def test_runs_are_what_they_are_alone() -> None:
    target = ggmc.Density(lambda x: Normal(0.0, 1.0).log_prob(x).sum(), torch.zeros(2, dtype=F64))

    def draws(seed: int) -> np.ndarray:
        return ggmc.sample(target, ggmc.HMC(0.5, 3), 60, 20, seed=seed, progress=False).positions

    alone = [draws(seed) for seed in range(3)]
    found: dict[int, np.ndarray] = {}
    at_once(*(lambda seed=seed: found.update({seed: draws(seed)}) for seed in range(3)))
    for seed in range(3):
        np.testing.assert_array_equal(found[seed], alone[seed])


def test_calls_with_different_weights_do_not_meet() -> None:
    """A call puts its weights into the module while it lasts; here each layer takes its time."""

    class Slow(torch.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            first = super().forward(input)
            time.sleep(0.002)
            return first + super().forward(input)

    posterior = ggmc.Posterior(Slow(2, 1), ggmc.likelihoods.Gaussian(0.5), NORMAL, X, Y, vectorise=False)
    rows = posterior.starts(2, torch.Generator().manual_seed(0))
    alone = [posterior.outputs(row[None], X) for row in rows]
    found: dict[int, torch.Tensor] = {}
    for _ in range(5):
        at_once(*(lambda i=i: found.update({i: posterior.outputs(rows[i][None], X)}) for i in range(2)))
        for i in range(2):
            assert torch.equal(found.pop(i), alone[i])


def test_predictions_draw_from_a_generator_of_their_own() -> None:
    torch.manual_seed(0)
    posterior = ggmc.Posterior(torch.nn.Linear(2, 1), ggmc.likelihoods.Gaussian(0.5), NORMAL, X, Y, vectorise=True)
    rows = posterior.starts(50, torch.Generator().manual_seed(0))

    def outcomes() -> np.ndarray:
        found = posterior.predict(rows, X, seed=3).outcomes
        assert found is not None
        return found

    alone, state = outcomes(), torch.get_rng_state()
    found: list[np.ndarray] = []

    def disturb() -> None:
        generator = torch.Generator().manual_seed(1)
        for _ in range(200):
            torch.randn(3, generator=generator)

    for _ in range(10):
        at_once(lambda: found.append(outcomes()), lambda: found.append(outcomes()), disturb)
    for one in found:
        np.testing.assert_array_equal(one, alone)
    assert torch.equal(torch.get_rng_state(), state)
