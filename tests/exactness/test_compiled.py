"""Compiled trajectories leave the distribution where it is; compiled wrongly, they must not pass."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics import compiled_stretch
from ggmc.programs.compiled import Compiled
from tests.support.invariance import funnel, noisy_funnel, noisy_quartic, quartic, skewed, violations

F64 = torch.float64
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
ANCHOR = torch.full((1,), -0.5, dtype=F64)
DENSE = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64)


@pytest.mark.parametrize(
    "make", [quartic, skewed, lambda: quartic(0.5), funnel], ids=["quartic", "skewed", "cold", "2d"]
)
@pytest.mark.parametrize("scheme", ["OBABO", "O(BAB)O", "O(ABA)O", "O(BCSS3)O", "ACA"])
def test_exact_draws_stay_exact(scheme: str, make: Any) -> None:
    case = make()
    kernel = ggmc.GGMC(0.5, 0.5, (1, 6), scheme, temperature=case.temperature)
    assert violations(case, kernel, trajectories=6, chains=30_000, compiled=True) == {}


@pytest.mark.parametrize("scheme", ["OBABO", "O(ABA)O"])
@pytest.mark.parametrize(
    "guide",
    [
        ggmc.Minibatch(4),
        ggmc.Minibatch(5, "iid"),
        ggmc.Minibatch(5, recut=True),
        ggmc.ControlVariate(4, "palindrome", "dense", ANCHOR),
        ggmc.Surrogate(lambda x: -((x + 0.3) ** 2).sum()),
    ],
    ids=["sweeps", "iid", "cut anew", "control variates", "surrogate"],
)
def test_with_noisy_gradients(guide: Any, scheme: str) -> None:
    kernel = ggmc.GGMC(0.35, 0.5, 7, scheme, guide)
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000, compiled=True) == {}


def test_with_a_dense_mass() -> None:
    kernel = ggmc.GGMC(0.4, 0.7, 6, "O(ABA)O", ggmc.Minibatch(4), mass=DENSE)
    assert violations(noisy_funnel(), kernel, trajectories=6, chains=30_000, compiled=True) == {}


class LosesWork(Compiled):
    """Only the last step's work is counted."""

    def __init__(self, *arguments: Any, **options: Any):
        calls, inputs, results, carried, *rest = arguments
        super().__init__(calls, inputs, results, {a: b for a, b in carried.items() if a != 2}, *rest, **options)


class KeepsTheFirstOfEach(Compiled):
    """All steps read the tape's first entry, the first noise and the first step's numbers."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        for number in range(len(self._steps)):
            self._steps[number] = 0


class KicksTwice(Compiled):
    """What was known of the gradient is not carried on: each step begins with that of the first."""

    def __init__(self, *arguments: Any, **options: Any):
        calls, inputs, results, carried, *rest = arguments
        super().__init__(calls, inputs, results, {a: b for a, b in carried.items() if a != 3}, *rest, **options)


@pytest.mark.parametrize(
    ("bug", "kernel"),
    [
        (LosesWork, ggmc.GGMC(0.5, 0.5, 6, "O(BAB)O")),
        (LosesWork, ggmc.GGMC(0.35, 0.5, 7, "O(ABA)O", ggmc.Minibatch(4))),
        (KicksTwice, ggmc.GGMC(0.5, 0.5, 6, "O(BAB)O")),
        (KeepsTheFirstOfEach, ggmc.GGMC(0.6, 2.0, 5, "OBABO")),
    ],
)
def test_planted_bugs_are_found(bug: type[Compiled], kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_stretch, "Compiled", bug)
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000, compiled=True) != {}
