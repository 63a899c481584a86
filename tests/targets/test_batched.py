from __future__ import annotations

import pytest
import torch
from torch import Tensor

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
    for _ in range(2):
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


def test_the_way_over_chains_depends_on_the_size_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors for all chains at once, large ones in a loop; what is asked for is done."""
    asked: list[bool] = []
    vmap = torch.func.vmap
    monkeypatch.setattr(torch.func, "vmap", lambda *a, **b: asked.append(True) or vmap(*a, **b))

    def at_once(examples: int, vectorised: bool | None) -> bool:
        def function(p: dict[str, Tensor], x: Tensor, own: Tensor) -> Tensor:
            return (x @ p["w"]).tanh().sum() * own.sum()

        over = OverChains(function, Layout({"w": (2, 8)}), (None, 0), vectorised)
        asked.clear()
        over.with_gradient(torch.ones(3, 16), torch.ones(examples, 2), torch.ones(3, 5))
        over(torch.ones(3, 16), torch.ones(examples, 2), torch.ones(3, 5))
        assert len(asked) in (0, 2)  # the value and its gradient go the same way
        return bool(asked)

    assert at_once(examples=20, vectorised=None)
    assert not at_once(examples=20_000, vectorised=None)
    assert at_once(examples=20_000, vectorised=True)
    assert not at_once(examples=20, vectorised=False)
