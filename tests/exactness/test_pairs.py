"""Pairs of features: every two of schedule, mass, temperature, guide, friction, word and early stop meet in a run.

The target is a posterior of two weights under a bounded likelihood, neither symmetric nor Gaussian. Its exact draws
come from rejection: draws of the tempered prior, each kept with the probability that is its tempered likelihood.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

import ggmc
from ggmc.dynamics.schedule import Along, Cosine, Flat, Over, ThereAndBack
from ggmc.targets.potential import SumOverData
from tests.support.invariance import Case, violations
from tests.support.pairs import Row, all_pairs

F64 = torch.float64

SCHEDULES: dict[str, Any] = {
    "flat": {},
    "there and back": {"along": Along(ThereAndBack(Cosine(0.3)))},
    "warm on the way": {"along": Along(temperature=ThereAndBack(lambda x: 2.5 - 1.0 * x))},
    "either way": {"along": Along(Cosine(0.3), lambda x: 0.6 + x, either_way=True)},
    "over the run": {"over": Over(3, Cosine(0.4))},
}
MASSES: dict[str, Any] = {
    "identity": None,
    "diagonal": torch.tensor([2.0, 0.5], dtype=F64),
    "dense": torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64),
}
TEMPERATURES = {"T = 1": 1.0, "T = 0.6": 0.6, "T = 1.7": 1.7}
FRICTIONS = {"γ = 0.3": 0.3, "γ = 2": 2.0, "γ = ∞": math.inf}
ANCHOR = torch.tensor([0.4, -0.2], dtype=F64)
GUIDES: dict[str, Any] = {
    "exact": ggmc.Exact(),
    "surrogate": ggmc.Surrogate(lambda w: -((w - 0.2) ** 2).sum()),
    "palindrome": ggmc.Minibatch(4),
    "epoch": ggmc.Minibatch(5, "epoch"),
    "iid": ggmc.Minibatch(4, "iid"),
    "palindrome cut anew": ggmc.Minibatch(5, recut=True),
    "iid cut anew": ggmc.Minibatch(4, "iid", recut=True),
    "control variate": ggmc.ControlVariate(4, curvature="dense", anchor=ANCHOR),
    "control variate, diagonal": ggmc.ControlVariate(5, "epoch", "diagonal", anchor=ANCHOR),
}
WORDS = {"OBABO": "OBABO", "O(ABA)O": "O(ABA)O", "ACA": "ACA", "BAOAB": "BAOAB"}


SHARE = 0.35  # of a term in the likelihood, so that enough draws of the prior are kept


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(8)
    x = torch.randn(12, 2, generator=generator, dtype=F64) * torch.tensor([1.5, 0.7], dtype=F64)
    sign = torch.where(torch.rand(12, generator=generator) < 0.8, 1.0, -1.0).double()
    return x, sign


def log_likelihood(w: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
    x, sign = batch
    return SHARE * logsigmoid(sign * (x @ w + 0.5 * w[0] * w[1]))


def case(temperature: float, bound: float | None = 0.0) -> Case:
    data = examples()
    start = torch.zeros(2, dtype=F64)
    target = ggmc.DataDensity(lambda w: -(w**2).sum() / 2, log_likelihood, data, start, bound=bound)

    return Case(f"bounded at T = {temperature:g}", target, lambda n, _: exact_draws(n, temperature), temperature)


@lru_cache(maxsize=8)
def exact_draws(n: int, temperature: float) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    x, sign = examples()
    kept: list[Tensor] = []
    while sum(map(len, kept)) < n:
        w = math.sqrt(temperature) * torch.randn(100_000, 2, generator=generator, dtype=F64)
        terms = SHARE * logsigmoid(sign * (w @ x.mT + 0.5 * (w[:, 0] * w[:, 1])[:, None])).sum(1)
        u = torch.rand(len(w), generator=generator, dtype=F64)
        kept.append(w[u.log() < terms / temperature])
    return torch.cat(kept)[:n]


def allowed(row: Row) -> bool:
    if row["word"] == "ACA" and row["friction"] == "γ = ∞":
        return False  # C has no such limit
    return row["word"] != "O(ABA)O" or row["schedule"] not in ("warm on the way", "either way")


TABLE = all_pairs(
    {
        "schedule": list(SCHEDULES),
        "mass": list(MASSES),
        "temperature": list(TEMPERATURES),
        "guide": list(GUIDES),
        "friction": list(FRICTIONS),
        "word": list(WORDS),
    },
    allowed,
)
IDS = [", ".join(row.values()) for row in TABLE]


def kernel_of(row: Row, step_size: float = 0.6, steps: int = 4) -> ggmc.GGMC:
    return ggmc.GGMC(
        step_size,
        FRICTIONS[row["friction"]],
        steps,
        WORDS[row["word"]],
        GUIDES[row["guide"]],
        TEMPERATURES[row["temperature"]],
        MASSES[row["mass"]],
        **SCHEDULES[row["schedule"]],
    )


@pytest.mark.parametrize("row", TABLE, ids=IDS)
def test_exact_draws_stay_exact(row: Row) -> None:
    assert violations(case(TEMPERATURES[row["temperature"]]), kernel_of(row), trajectories=6, chains=30_000) == {}


def test_the_draws_that_start_it_are_exact() -> None:
    """Their mean log likelihood ratio against a grid, at each temperature."""
    grid = torch.linspace(-9, 9, 1201, dtype=F64)
    points = torch.cartesian_prod(grid, grid)
    for temperature in TEMPERATURES.values():
        this = case(temperature)
        weights = torch.softmax(-this.target.potential(points) / temperature, 0)
        draws = exact_draws(30_000, temperature)
        for moment in (lambda p: p, lambda p: p**2, lambda p: p[:, :1] * p[:, 1:]):
            truth = (weights[:, None] * moment(points)).sum(0)
            error = moment(draws).std(0) / math.sqrt(len(draws))
            assert ((moment(draws).mean(0) - truth).abs() < 5 * error).all()


def test_the_steps_are_long_enough_for_the_test_to_matter() -> None:
    """Without the test most rows show their bias."""
    from dataclasses import replace

    rows = [row for row in TABLE if row["guide"] != "exact"][::5]
    biased = [
        violations(case(TEMPERATURES[row["temperature"]]), replace(kernel_of(row), adjust=False), 6, 30_000) != {}
        for row in rows
    ]
    assert sum(biased) > len(biased) / 2


def path(row: Row, early_stop: bool) -> Tensor:
    target = case(TEMPERATURES[row["temperature"]]).target
    kernel = kernel_of(row, step_size=1.5)
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    sampler.early_stop = early_stop
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(torch.zeros(2, 2, dtype=F64), generator)
    seen: list[Tensor] = []
    for _ in range(60):
        state, info = sampler.step(state, sampler.parameters, generator)
        assert state.potential is not None
        seen.append(torch.cat([state.position.flatten(), state.momentum.flatten(), state.potential]))
        seen.append(info.accepted.double())
    return torch.cat(seen)


def test_the_early_stop_changes_no_decision_whatever_it_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.targets.potential.LEAST_CHUNK", 1)
    stream, stopped = SumOverData._stream, 0

    def counting(self: Any, position: Tensor, limit: Tensor | None) -> Tensor:
        nonlocal stopped
        found = stream(self, position, limit)
        if limit is not None:
            stopped += not torch.equal(found, stream(self, position, None))
        return found

    monkeypatch.setattr(SumOverData, "_stream", counting)
    by_row: dict[str, int] = {}
    for row, name in zip(TABLE, IDS, strict=True):
        stopped = 0
        assert torch.equal(path(row, early_stop=True), path(row, early_stop=False)), name
        by_row[name] = stopped
    assert sum(count > 0 for count in by_row.values()) > len(by_row) / 2  # it did stop


def test_no_schedule_is_the_flat_one() -> None:
    assert Along().keeps_temperature
    assert Over(3).temperature == Flat()
