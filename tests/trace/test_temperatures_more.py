from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn

import ggmc
from tests.support.posteriors import (
    NORMAL,
    X,
    Y,
    line_trace,
    posterior,
)

F64 = torch.float64


def test_one_chain_of_two_draws_has_temperatures() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y)
    trace = ggmc.sample(target, ggmc.HMC(0.01, steps=1), draws=2, warmup=0, chains=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(trace.temperatures().loc["all", "configurational_low"])


@pytest.fixture
def trace() -> ggmc.Trace:
    return line_trace()


def test_temperatures_have_their_intervals(trace: ggmc.Trace) -> None:
    table = trace.temperatures(draws=200, level=0.9999)
    assert list(table.index) == ["all", "weight", "bias"]
    for kind in ("kinetic", "configurational"):
        assert (table[f"{kind}_low"] < 1).all()
        assert (table[f"{kind}_high"] > 1).all()
    narrow = trace.temperatures(draws=200, level=0.5)
    assert (narrow["kinetic_high"] < table["kinetic_high"]).all()


def test_a_hot_chain_is_seen_to_be_hot() -> None:
    module = nn.Linear(1, 1).double()
    kernel = ggmc.GGMC(0.05, friction=10.0, steps=5, temperature=4.0)
    warm = ggmc.sample(posterior(module=module), kernel, draws=150, warmup=20, chains=4, progress=False)
    table = warm.temperatures(draws=100, level=0.99)
    assert 3 < table.loc["all", "kinetic"] < 5
    assert table.loc["all", "kinetic_low"] > 2
