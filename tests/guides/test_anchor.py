"""The anchor: found, or given on the scale of the user's values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import LogNormal, Normal, constraints

import ggmc
from ggmc.errors import BadInput
from ggmc.guides import control_variate
from ggmc.guides.anchor import given_anchor
from tests.support.fields import over_all_batches
from tests.support.logistic import logistic, rows

F64 = torch.float64
ANCHOR = torch.tensor([0.3, -0.2, 0.1], dtype=F64)


def test_the_anchor_is_the_mode() -> None:
    target = logistic()
    field: Any = ggmc.ControlVariate(10).bind(target)
    assert target.potential_and_gradient(field.anchor[None])[1].norm() < 1e-3
    torch.testing.assert_close(field.gradient_at_anchor, target.potential_and_gradient(field.anchor[None])[1][0])


def test_an_anchor_in_another_precision_or_form() -> None:
    for anchor in (ANCHOR.float(), ANCHOR):
        guide = ggmc.ControlVariate(10, curvature="dense", anchor=anchor)
        gradient, _ = guide.bind(logistic())(rows(), torch.zeros(4, dtype=torch.long))
        assert gradient.dtype == F64
    for bad in (ANCHOR * torch.nan, ANCHOR[:2]):
        with pytest.raises(BadInput, match=r"anchor must be finite values|must end in shape"):
            ggmc.ControlVariate(10, anchor=bad).bind(logistic())


# Constrained values


def scale_model(dtype: torch.dtype = F64) -> ggmc.DataDensity:
    """A mean, and a standard deviation that must be positive."""
    y = 2 + 3 * torch.randn(60, generator=torch.Generator().manual_seed(0), dtype=F64)
    start = {"mu": torch.zeros((), dtype=dtype), "sigma": torch.ones(2, dtype=dtype)}

    def log_prior(p: dict[str, Tensor]) -> Tensor:
        return Normal(0.0, 5.0).log_prob(p["mu"]) + LogNormal(0.0, 1.0).log_prob(p["sigma"]).sum()

    def log_likelihood(p: dict[str, Tensor], y: Tensor) -> Tensor:
        return Normal(p["mu"], p["sigma"].sum()).log_prob(y)

    return ggmc.DataDensity(log_prior, log_likelihood, y.to(dtype), start, {"sigma": constraints.positive})


VALUES = {"mu": torch.tensor(1.5, dtype=F64), "sigma": torch.tensor([0.25, 3.0], dtype=F64)}
ROW = torch.cat([VALUES["mu"][None], VALUES["sigma"].log()])


def anchor_violations(target: ggmc.DataDensity, values: dict[str, Tensor]) -> list[str]:
    """What is wrong with how a field uses the anchor that was given."""
    field: Any = ggmc.ControlVariate(10, anchor=values).bind(target)
    found: list[str] = []
    if not torch.allclose(field.anchor, ROW, rtol=0, atol=1e-12):
        found.append("row")
    if not all(torch.allclose(field.anchor_values[name], values[name], rtol=1e-12) for name in values):
        found.append("values")
    if over_all_batches(field, ROW[None]).std(0).norm() > 1e-9:
        found.append("noise at the anchor")
    return found


def test_an_anchor_is_given_on_the_scale_of_the_users_values() -> None:
    assert anchor_violations(scale_model(), VALUES) == []


def test_a_planted_bug_that_takes_the_values_for_the_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def values_as_row(target: Any, values: dict[str, Tensor]) -> Tensor:
        return target.layout.flatten(values)

    monkeypatch.setattr(control_variate, "given_anchor", values_as_row)
    assert anchor_violations(scale_model(), VALUES) == ["row", "values", "noise at the anchor"]


def test_an_anchor_outside_the_constraints_is_refused() -> None:
    for sigma in (-1.0, 0.0):
        values = VALUES | {"sigma": torch.tensor([sigma, 1.0], dtype=F64)}
        with pytest.raises(BadInput, match="anchor must be finite values in the form of start, inside its constraints"):
            ggmc.ControlVariate(10, anchor=values).bind(scale_model())


def test_the_users_values_are_copied() -> None:
    given = ANCHOR.clone()
    row = given_anchor(logistic(), given)
    given.add_(1)
    assert torch.equal(row, ANCHOR)


@pytest.mark.parametrize("anchor", [None, VALUES], ids=["found", "given"])
@pytest.mark.parametrize("curvature", ["none", "dense"])
def test_another_size_keeps_the_anchor(anchor: Any, curvature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = scale_model()
    guide = ggmc.ControlVariate("auto", "epoch", curvature, anchor, seed=3)
    field = guide.with_size(10).bind(target)
    monkeypatch.setattr(control_variate, "find_anchor", None)  # found once is enough
    other = guide.with_size(20, field)
    again = other.bind(target)
    assert (again.epoch, field.epoch) == (3, 6)
    torch.testing.assert_close(again.anchor, field.anchor, rtol=0, atol=1e-12)
    assert replace(other, anchor=None) == ggmc.ControlVariate(20, "epoch", curvature, None, seed=3)


def test_without_a_field_the_anchor_stays_as_it_was_given() -> None:
    assert ggmc.ControlVariate(10).with_size(20).anchor is None
    guide = ggmc.ControlVariate(10, anchor=ANCHOR)
    assert guide.with_size(20).anchor is ANCHOR
    assert torch.equal(guide.with_size(20, ggmc.Minibatch(5).bind(logistic())).anchor, ANCHOR)  # pyright: ignore


def test_single_tensors_keep_their_anchor_too() -> None:
    target = logistic()
    field = ggmc.ControlVariate(10).bind(target)
    again = ggmc.ControlVariate(10).with_size(30, field).bind(target)
    assert torch.equal(again.anchor, field.anchor)
    assert again(rows(), torch.zeros(4, dtype=torch.long))[0].isfinite().all()


def test_a_search_that_finds_no_mode_says_so() -> None:
    def log_likelihood(w: Tensor, batch: Tensor) -> Tensor:
        return torch.exp(w) + 0 * batch  # grows without bound

    target = ggmc.DataDensity(lambda w: w.sum(), log_likelihood, torch.zeros(4, dtype=F64), torch.zeros(1, dtype=F64))
    with pytest.raises(BadInput, match="left the support"):
        ggmc.ControlVariate(2).bind(target)
