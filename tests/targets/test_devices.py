"""Nothing is made on torch's default device: all is where the target is.

Within `with torch.device("meta")` a tensor made without a device has no values, so that any use of it fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import constraints
from torch.utils.data import TensorDataset

import ggmc
from ggmc.guides.batches import Batches
from ggmc.targets.data import OnDemand, as_data
from tests.support.logistic import examples, log_likelihood, log_prior, rows

F64 = torch.float64
CPU = torch.device("cpu")
START = torch.zeros(3, dtype=F64)
DATA, ROWS = examples(), rows()
SHARES = torch.tensor([0.2, 0.3, 0.5], dtype=F64)


@pytest.fixture(autouse=True)
def _elsewhere() -> Iterator[None]:
    with torch.device("meta"):
        yield


def generator() -> torch.Generator:
    return torch.Generator("cpu").manual_seed(0)


def used(target: Any, position: Tensor) -> None:
    """Ask a target for everything that any target has."""
    assert target.device == CPU
    potential, gradient = target.potential_and_gradient(position)
    for found in (
        potential,
        gradient,
        target.potential(position),
        target.potential(position, potential - 1),
        target.starts(3, generator()),
        target.unconstrain(target.constrain(position)),
    ):
        assert found.device == CPU
        assert found.isfinite().all()


@pytest.mark.parametrize(
    ("start", "constraint"),
    [
        (START, None),
        (SHARES, constraints.simplex),
        (START + 1, constraints.positive),
        (START + 0.5, constraints.interval(-1.0, 2.0)),
        (np.zeros(3), None),
    ],
    ids=["free", "simplex", "positive", "interval", "array"],
)
def test_a_density(start: Any, constraint: Any) -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2 + x[0], start, constraint)
    used(target, target.start.expand(3, -1) + 0.1)


def test_numbers_are_made_on_the_cpu() -> None:
    target = ggmc.Density(lambda p: -(p["a"] ** 2) - p["b"] ** 2, {"a": 0.5, "b": np.float64(1.0)})
    assert target.start.tolist() == [0.5, 1.0]
    assert target.unconstrain({"a": 1.0, "b": 2.0}).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("bound", [None, 0.0])
@pytest.mark.parametrize("vectorise", [True, False, None])
def test_a_density_with_data(bound: float | None, vectorise: bool | None) -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, DATA, START, bound=bound, vectorise=vectorise)
    used(target, ROWS)
    batches = Batches(target.data, 20)
    batch, weights = batches[torch.zeros(4, dtype=torch.long, device="cpu")]
    for found in (
        target.batch_gradient(ROWS, batch, weights),
        target.batch_hessian_products(ROWS, batch, weights, ROWS),
        target.log_likelihoods(ROWS),
        target.log_likelihoods(ROWS, DATA),
    ):
        assert found.device == CPU
        assert found.isfinite().all()


def test_where_linear_algebra_fails() -> None:
    def log_prob(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(torch.diag(1 + x)).diagonal().log().sum() - x.square().sum()

    target = ggmc.Density(log_prob, START)
    far = torch.stack([START, START - 5])
    assert target.potential(far).isfinite().tolist() == [True, False]


def test_data_read_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.targets.data.IN_MEMORY", 0)

    class Items(TensorDataset):
        pass

    data = as_data(Items(*DATA), CPU)
    assert isinstance(data, OnDemand)
    target = ggmc.DataDensity(log_prior, log_likelihood, data, START)
    used(target, ROWS)
    assert Batches(data, 10)[torch.zeros(2, dtype=torch.long, device="cpu")][1].device == CPU
