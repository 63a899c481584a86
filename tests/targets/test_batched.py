from __future__ import annotations

import pytest
import torch

from ggmc.targets import batched as over_chains
from ggmc.targets.batched import OverChains
from ggmc.targets.layout import Layout

F64 = torch.float64


@pytest.mark.parametrize("vectorised", [True, False, None])
@pytest.mark.parametrize("chains", [1, 3])
def test_all_ways_over_chains_give_the_same_value_and_gradient(vectorised: bool | None, chains: int) -> None:
    layout = Layout({"w": (3, 2), "b": (2,)})
    x, own = torch.randn(5, 3, dtype=F64), torch.randn(chains, 4, dtype=F64)
    position = torch.randn(chains, layout.size, dtype=F64)

    def function(p: dict[str, torch.Tensor], shared: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        return (shared @ p["w"] + p["b"]).tanh().sum() * own.square().sum()

    over = OverChains(function, layout, (None, 0), vectorised)
    leaf = position.clone().requires_grad_()
    expected = torch.stack([function(layout.views(row), x, o) for row, o in zip(leaf, own, strict=True)])
    (gradient,) = torch.autograd.grad(expected.sum(), leaf)
    for _ in range(2):  # the second call of a size is not measured any more
        values, slopes = over.with_gradient(position, x, own)
        assert torch.allclose(values, expected)
        assert torch.allclose(slopes, gradient)
        assert torch.allclose(over(position, x, own), expected)
        assert not any(tensor.requires_grad for tensor in (values, slopes, position))
    assert over(leaf, x, own).requires_grad


@pytest.mark.parametrize("vectorised", [True, False])
def test_a_function_that_does_not_depend_on_its_row_has_no_slope(vectorised: bool) -> None:
    over = OverChains(lambda p: torch.zeros((), dtype=F64), Layout({"x": (2,)}), (), vectorised)
    values, slopes = over.with_gradient(torch.ones(3, 2, dtype=F64))
    assert values.tolist() == [0, 0, 0]
    assert not slopes.any()


def test_the_quicker_way_over_chains_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"_gradient_at_once": 1.0, "_gradient_one_by_one": 2.0}
    over = OverChains(lambda p: p["x"].sum(), Layout({"x": (2,)}), (), None)
    monkeypatch.setattr(over_chains, "_seconds", lambda call: seconds[call.__defaults__[0].__name__])
    over.with_gradient(torch.ones(3, 2))
    seconds["_gradient_at_once"] = 3.0
    over.with_gradient(torch.ones(3, 2))  # already known for this size
    over.with_gradient(torch.ones(4, 2))
    assert over.measured() == [[1, 1, 0, 1], [1, 2, 0, 0]]  # with gradient, log2 of the sizes, whether at once


def test_what_was_measured_can_be_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    def unused(call: object) -> float:
        raise AssertionError("measured again")

    over = OverChains(lambda p: p["x"].sum(), Layout({"x": (2,)}), (), None)
    over.with_gradient(torch.ones(3, 2))
    over(torch.ones(5, 2))
    again = OverChains(lambda p: p["x"].sum(), Layout({"x": (2,)}), (), None)
    again.restore_measured(over.measured())
    assert again.measured() == over.measured()
    monkeypatch.setattr(over_chains, "_seconds", unused)
    again.with_gradient(torch.ones(2, 2))
    again(torch.ones(4, 2))
