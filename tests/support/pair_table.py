"""The table of pairs: settings of which every two meet, a target with exact draws, and what the early stop may change.

The target is a posterior of two weights under a bounded likelihood, neither symmetric nor Gaussian. Its exact draws
come from rejection: draws of the tempered prior, each kept with the probability that is its tempered likelihood.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

import ggmc
from ggmc.dynamics.mass import LowRank
from ggmc.dynamics.schedule import Along, Cosine, Over, ThereAndBack
from tests.support.augmentations import Mirrored, Shifted
from tests.support.invariance import Case
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
    "low rank": LowRank(
        torch.tensor([1.0, 0.5], dtype=F64),
        torch.tensor([[0.6], [0.8]], dtype=F64),
        torch.tensor([3.0], dtype=F64),
    ),
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
    "palindrome of mirrored examples": ggmc.Minibatch(4, augment=Mirrored()),
    "iid of shifted examples cut anew": ggmc.Minibatch(5, "iid", recut=True, augment=Shifted(0.5)),
    "control variate": ggmc.ControlVariate(4, curvature="dense", anchor=ANCHOR),
    "control variate, diagonal": ggmc.ControlVariate(5, "epoch", "diagonal", anchor=ANCHOR),
}
WORDS = {"OBABO": "OBABO", "O(ABA)O": "O(ABA)O", "ACA": "ACA", "BAOAB": "BAOAB", "OBCSS3O": "OBCSS3O"}


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
