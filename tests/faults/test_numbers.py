"""Numbers that are not finite, in one chain or in all: the others go on, and what cannot go on says why."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput

F64 = torch.float64


def walled(x: Tensor) -> Tensor:
    """A normal density that is NaN beyond 2."""
    return torch.where((x > 2).any(), torch.nan, -(x**2).sum() / 2)


def test_a_chain_that_meets_nan_stays_and_the_others_go_on() -> None:
    target = ggmc.Density(walled, torch.zeros(1, dtype=F64))
    start = torch.tensor([[1.99], [0.0], [-1.0]], dtype=F64)
    trace = ggmc.sample(target, ggmc.HMC(0.9, 3), draws=400, warmup=0, chains=3, start=start, progress=False)
    assert np.isfinite(trace.positions).all()
    assert np.isfinite(trace.stats["lp"]).all()
    assert (trace.positions <= 2).all()
    assert trace.stats["diverging"].any()
    assert (trace.positions.std(1) > 0.3).all()


def test_a_warm_up_in_which_nothing_is_accepted_ends_and_says_so() -> None:
    def only_here(x: Tensor) -> Tensor:
        return torch.where((x == 0).all(), 0.0, torch.nan) + 0 * x.sum()

    target = ggmc.Density(only_here, torch.zeros(2, dtype=F64), jitter=0.0)
    with pytest.raises(BadInput, match=r"not one of the last 30 trajectories of warm-up was accepted.*start elsewhere"):
        ggmc.sample(target, progress=False)


def squares(*x: float) -> ggmc.DataDensity:
    data, start = torch.tensor(x, dtype=F64), torch.zeros(1, dtype=F64)
    return ggmc.DataDensity(lambda w: -(w**2).sum(), lambda w, b: -((b - w) ** 2), data, start, jitter=0.0)


def test_the_example_without_a_likelihood_is_named() -> None:
    with pytest.raises(BadInput, match=r"the log likelihood of example 3 is -inf at the start: correct or remove"):
        squares(1.0, 2.0, 3.0, math.inf, 5.0, 6.0)
    target = squares(1.0, 2.0, math.nan, 4.0, math.nan, 6.0)  # not among the few that are tried at once
    with pytest.raises(BadInput, match=r"where example 2 and 1 more has a log likelihood of nan"):
        ggmc.sample(target, ggmc.HMC(0.1, 2), progress=False)


@pytest.mark.parametrize("start", [torch.zeros(0), {"a": torch.zeros(0, 3), "b": torch.zeros(2, 0)}], ids=str)
def test_no_numbers_at_all(start: object) -> None:
    with pytest.raises(BadInput, match="start must hold at least one number"):
        ggmc.Density(lambda p: torch.zeros(()), start)  # pyright: ignore[reportArgumentType]
