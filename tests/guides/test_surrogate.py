"""Surrogates: the gradient of another density."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.distributions import constraints

import ggmc
from ggmc.errors import BadInput

F64 = torch.float64


def test_a_surrogate_has_its_own_gradient_on_the_targets_coordinates() -> None:
    start = {"a": torch.ones((), dtype=F64), "b": torch.zeros(2, dtype=F64)}
    target = ggmc.Density(lambda p: -p["a"] - (p["b"] ** 2).sum(), start, {"a": constraints.positive})
    other = ggmc.Density(lambda p: -2 * p["a"] - (p["b"] ** 4).sum(), start, {"a": constraints.positive})
    position = torch.randn(4, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    gradient, potential = ggmc.Surrogate(other.log_prob).bind(target)(position, None)
    torch.testing.assert_close(gradient, other.potential_and_gradient(position)[1])
    assert potential is None


def test_a_surrogate_need_not_depend_on_all_parameters() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(3, dtype=F64))
    gradient, _ = ggmc.Surrogate(lambda x: -(x[:1] ** 2).sum()).bind(target)(torch.ones(2, 3, dtype=F64), None)
    assert torch.equal(gradient, torch.tensor([[2.0, 0.0, 0.0]], dtype=F64).expand(2, 3))


@pytest.mark.parametrize("log_prob", [1.0, None, "log_prob"])
def test_a_surrogate_needs_a_function(log_prob: Any) -> None:
    with pytest.raises(BadInput, match="needs a log density to call"):
        ggmc.Surrogate(log_prob)
