"""Forms of data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import ggmc
from ggmc.errors import BadInput, NotExact
from tests.support.logistic import direct, examples, log_likelihood, log_prior, rows

F64 = torch.float64


class Items(Dataset[Any]):
    def __init__(self, noise: float = 0.0):
        self.x, self.s = examples()
        self.noise = noise

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Any:
        return self.x[i] + self.noise * torch.randn(3, dtype=F64), self.s[i]


@pytest.mark.parametrize(
    "data",
    [
        examples(),
        list(examples()),
        TensorDataset(*examples()),
        Items(),
        DataLoader(Items(), batch_size=10, drop_last=True),
    ],
    ids=lambda d: type(d).__name__,
)
def test_every_form_of_data_is_the_same_target(data: Any) -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))
    assert target.num_data == 103
    torch.testing.assert_close(target.potential(rows()), direct(rows()))


def test_a_dict_of_tensors_comes_as_a_dict() -> None:
    x, s = examples()
    target = ggmc.DataDensity(
        log_prior, lambda w, b: log_likelihood(w, (b["x"], b["s"])), {"x": x, "s": s}, torch.zeros(3, dtype=F64)
    )
    torch.testing.assert_close(target.potential(rows()), direct(rows()))


def test_data_too_large_to_keep_are_read_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.targets.data.IN_MEMORY", 1000)
    target = ggmc.DataDensity(log_prior, log_likelihood, Items(), torch.zeros(3, dtype=F64))
    torch.testing.assert_close(target.potential(rows()), direct(rows()))
    kernel = ggmc.GGMC(0.1, guide=ggmc.Minibatch(20))
    trace = ggmc.sample(target, kernel, draws=10, warmup=5, progress=False)
    assert trace["theta"].shape == (4, 10, 3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ((torch.zeros(3, 2), torch.zeros(4)), r"one length.*lengths \[3, 4\]"),
        ((torch.zeros(0, 2),), "at least one example"),
        ("text", "must be tensors, a map-style Dataset or a DataLoader"),
        (((1.0, 2.0),), "tensors with one row per example"),
        (torch.tensor(1.0), "one row per example"),
        (type("Stream", (IterableDataset,), {"__iter__": lambda self: iter([])})(), "by its number"),
    ],
)
def test_other_data_are_refused(data: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))


def test_data_whose_access_is_random() -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, Items(noise=0.1), torch.zeros(3, dtype=F64))
    with pytest.raises(NotExact, match=r"another example 0 each time it is read \(random augmentation\?\)"):
        ggmc.HMC(0.1, 3).bind(target)
    trace = ggmc.sample(target, ggmc.GGMC(0.01, adjust=False), draws=2, warmup=0, progress=False)
    assert trace.num_draws == 2


class Scaled(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        x, s = super().__getitem__(index)
        return 2 * x, s


def doubled(items: Any) -> Any:
    x, s = torch.utils.data.default_collate(items)
    return 2 * x, s


@pytest.mark.parametrize(
    "data", [Scaled(*examples()), DataLoader(TensorDataset(*examples()), collate_fn=doubled)], ids=["items", "collate"]
)
def test_a_dataset_is_read_the_way_it_reads_itself(data: Any) -> None:
    x, s = examples()
    target = ggmc.DataDensity(log_prior, log_likelihood, data, torch.zeros(3, dtype=F64))
    plain = ggmc.DataDensity(log_prior, log_likelihood, (2 * x, s), torch.zeros(3, dtype=F64))
    torch.testing.assert_close(target.potential(rows()), plain.potential(rows()))


class Labelled(Dataset[Any]):
    """Numbers, arrays, names, and a missing value."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, i: int) -> Any:
        import numpy as np

        return {"x": np.full(3, float(i)), "s": 1 if i % 2 else -1, "name": f"number {i}", "gap": float("nan")}


def test_examples_of_numpy_numbers_and_names() -> None:
    def named(items: Any) -> Any:
        joined = torch.utils.data.default_collate([{k: v for k, v in item.items() if k != "name"} for item in items])
        return joined["x"] / 30, joined["s"].double(), joined["gap"]

    data = DataLoader(Labelled(), collate_fn=named)
    target = ggmc.DataDensity(log_prior, lambda w, b: log_likelihood(w, b[:2]), data, torch.zeros(3, dtype=F64))
    assert target.not_exact is None
    assert target.num_data == 30
