"""Data sets with a form of their own: collate functions, examples read on demand, and randomness in some of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import ggmc
from ggmc.errors import NotExact
from tests.support.logistic import examples, log_likelihood, log_prior, logistic, rows

F64 = torch.float64


class Pairs(Dataset[Any]):
    """Examples as pairs, with noise in the labels from one example on."""

    def __init__(self, label_noise: float = 0.0, from_example: int = 0):
        self.x, self.s = examples()
        self.label_noise, self.from_example = label_noise, from_example

    def __len__(self) -> int:
        return 103

    def __getitem__(self, i: int) -> Any:
        noise = self.label_noise * torch.randn((), dtype=F64) if i >= self.from_example else 0.0
        return self.x[i], self.s[i] + noise


@pytest.mark.parametrize("memory", [1000, 2**31])
def test_a_loaders_collate_function_is_used(monkeypatch: pytest.MonkeyPatch, memory: int) -> None:
    monkeypatch.setattr("ggmc.targets.data.IN_MEMORY", memory)

    def halved(pairs: list[Any]) -> Any:
        return torch.stack([x for x, _ in pairs]) / 2, torch.stack([s for _, s in pairs])

    target = ggmc.DataDensity(
        log_prior, log_likelihood, DataLoader(Pairs(), collate_fn=halved), torch.zeros(3, dtype=F64)
    )
    x, s = examples()
    expected = torch.stack([-(log_prior(w) + log_likelihood(w, (x / 2, s)).sum()) for w in rows()])
    torch.testing.assert_close(target.potential(rows()), expected)


def test_batches_read_on_demand_are_those_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = torch.tensor([2, 0, 5, 2])
    kept = ggmc.Minibatch(20).bind(logistic())(rows(), entry)[0]
    for module in ("ggmc.targets.data", "ggmc.guides.batches"):
        monkeypatch.setattr(f"{module}.IN_MEMORY", 1000)
    target = ggmc.DataDensity(log_prior, log_likelihood, Pairs(), torch.zeros(3, dtype=F64))
    torch.testing.assert_close(ggmc.Minibatch(20).bind(target)(rows(), entry)[0], kept)


@pytest.mark.parametrize("dataset", [Pairs(0.1), Pairs(0.1, from_example=50)], ids=["all", "some"])
def test_randomness_in_labels_and_in_some_examples_only_is_seen(dataset: Any) -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, dataset, torch.zeros(3, dtype=F64))
    with pytest.raises(NotExact, match="each time it is read"):
        ggmc.HMC(0.1, 3).bind(target)
