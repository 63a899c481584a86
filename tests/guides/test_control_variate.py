"""Control variates: the noise they take out, and what they know at the anchor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput
from ggmc.guides import control_variate
from tests.support.fields import over_all_batches
from tests.support.logistic import examples, logistic, rows

F64 = torch.float64
ANCHOR = torch.tensor([0.3, -0.2, 0.1], dtype=F64)


def noise(curvature: str | None, distance: float) -> float:
    target = logistic()
    guide: Any = ggmc.Minibatch(10) if curvature is None else ggmc.ControlVariate(10, "iid", curvature, ANCHOR)
    position = ANCHOR + distance * torch.tensor([[1.0, -0.5, 0.7]], dtype=F64)
    return over_all_batches(guide.bind(target), position).std(0).norm().item()


def test_control_variates_have_no_noise_at_the_anchor() -> None:
    assert noise(None, 0.0) > 1
    for curvature in ("none", "diagonal", "dense"):
        assert noise(curvature, 0.0) < 1e-12


@pytest.mark.parametrize(("curvature", "power"), [("none", 1), ("dense", 2)])
def test_the_noise_falls_with_the_distance_or_its_square(curvature: str, power: int) -> None:
    ratio = noise(curvature, 1e-2) / noise(curvature, 1e-3)
    assert ratio == pytest.approx(10**power, rel=0.1)


def test_what_does_not_fit_in_memory_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Any = ggmc.ControlVariate(10, anchor=ANCHOR).bind(logistic())
    monkeypatch.setattr(control_variate, "CACHE", 100)
    again: Any = ggmc.ControlVariate(10, anchor=ANCHOR).bind(logistic())
    assert kept._gradients is not None
    assert again._gradients is None
    torch.testing.assert_close(over_all_batches(kept, rows()), over_all_batches(again, rows()))
    with pytest.raises(BadInput, match=r'curvature="dense" needs 11 batches × 3² numbers'):
        ggmc.ControlVariate(10, curvature="dense", anchor=ANCHOR).bind(logistic())


def test_curvature_is_the_hessian_and_the_mass() -> None:
    target = logistic()
    field: Any = ggmc.ControlVariate(10, curvature="dense", anchor=ANCHOR).bind(target)
    hessian: Any = torch.autograd.functional.hessian(
        lambda w: -(target.log_prior(w) + target.log_likelihood(w, examples()).sum()), ANCHOR
    )
    torch.testing.assert_close(field.curvature, hessian)
    torch.testing.assert_close(field.mass(), hessian)
    diagonal: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(target)
    torch.testing.assert_close(diagonal.mass(), hessian.diagonal())


def test_a_large_diagonal_is_estimated_without_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.guides.anchor.EXACT_DIAGONAL", 2)
    monkeypatch.setattr("ggmc.guides.anchor.PROBES", 4000)
    estimated: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(logistic())
    monkeypatch.setattr("ggmc.guides.anchor.EXACT_DIAGONAL", 1024)
    exact: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(logistic())
    torch.testing.assert_close(estimated.curvature, exact.curvature, rtol=0.05, atol=0)


def test_a_mass_is_positive_where_the_curvature_is_not() -> None:
    def log_likelihood(p: Tensor, batch: Tensor) -> Tensor:  # a funnel
        v, x = p[0], p[1]
        return -((x - v) ** 2 * torch.exp(-v) / 2 + v / 2) / 12 - 0.4 * batch * torch.sin(x + v)

    pulls = torch.linspace(-1, 1, 12, dtype=F64)  # over all data they cancel
    target = ggmc.DataDensity(lambda p: -(p[0] ** 2) / 2, log_likelihood, pulls, torch.zeros(2, dtype=F64))
    field: Any = ggmc.ControlVariate(4, curvature="dense", anchor=torch.tensor([1.0, 5.0], dtype=F64)).bind(target)
    assert torch.linalg.eigvalsh(field.curvature).min() < 0
    assert torch.linalg.eigvalsh(field.mass()).min() > 0


@pytest.mark.parametrize("curvature", ["diagonal", "dense"])
def test_a_negative_curvature_has_its_absolute_value_as_mass(curvature: str) -> None:
    def two_wells(w: Tensor, batch: Tensor) -> Tensor:  # the curvature of each coordinate is 12 w² − 4
        return -((w**2 - 1) ** 2).sum() / 5 + 0 * batch

    start = torch.tensor([0.5, 2.0], dtype=F64)
    target = ggmc.DataDensity(lambda w: 0 * w.sum(), two_wells, torch.zeros(5, dtype=F64), start)
    field: Any = ggmc.ControlVariate(2, curvature=curvature, anchor=start).bind(target)
    mass = field.mass() if curvature == "diagonal" else field.mass().diagonal()
    torch.testing.assert_close(mass, torch.tensor([1.0, 44.0], dtype=F64))


def test_starts_are_correlated_as_the_curvature_says() -> None:
    data = torch.tensor([[3.0, 2.8], [2.9, 3.1], [3.2, 3.0], [0.1, 0.3]], dtype=F64)
    target = ggmc.DataDensity(
        lambda w: -(w**2).sum() / 2, lambda w, x: -((x @ w) ** 2) / 2, data, torch.zeros(2, dtype=F64)
    )
    field: Any = ggmc.ControlVariate(2, curvature="dense").bind(target)
    hessian = torch.eye(2, dtype=F64) + data.mT @ data
    starts = field.starts(4000, 0.25, torch.Generator().manual_seed(0))
    whitened = starts @ torch.linalg.cholesky(hessian) / (2 * 0.25**0.5)  # twice as wide as the normal at T = 0.25
    torch.testing.assert_close(torch.cov(whitened.mT), torch.eye(2, dtype=F64), rtol=0, atol=0.12)


def test_chains_start_around_the_anchor_as_widely_as_the_curvature_says() -> None:
    field: Any = ggmc.ControlVariate(10, curvature="dense").bind(logistic())
    starts = field.starts(4000, 0.25, torch.Generator().manual_seed(0))
    wanted = 4 * 0.25 * torch.linalg.inv(field.curvature)
    torch.testing.assert_close(torch.cov(starts.mT), wanted, rtol=0.15, atol=0.02)


def test_what_is_known_at_the_anchor_cannot_be_replaced() -> None:
    field: Any = ggmc.ControlVariate(10, curvature="dense", anchor=ANCHOR).bind(logistic())
    for name in ("anchor", "gradient_at_anchor", "curvature"):
        with pytest.raises(AttributeError):
            setattr(field, name, torch.zeros(3))
    assert any(tensor is field.anchor for tensor in field.frozen())


def test_an_unknown_curvature_is_refused() -> None:
    with pytest.raises(BadInput, match=r"curvature must be one of \['none', 'diagonal', 'dense'\], got 'full'"):
        ggmc.ControlVariate(10, curvature="full")


@pytest.mark.parametrize(("curvature", "least"), [("diagonal", 1e-6), ("dense", 1e-9)])
def test_a_direction_without_curvature_has_a_small_mass(curvature: str, least: float) -> None:
    target = ggmc.DataDensity(
        lambda w: -(w[0] ** 2) * 2 + 0 * w[1], lambda w, x: 0 * x * w.sum(), torch.ones(4, dtype=F64), ANCHOR[:2]
    )
    field: Any = ggmc.ControlVariate(2, curvature=curvature, anchor=ANCHOR[:2]).bind(target)
    mass = field.mass() if curvature == "diagonal" else torch.linalg.eigvalsh(field.mass()).flip(0)
    torch.testing.assert_close(mass, torch.tensor([4.0, 4 * least], dtype=F64), rtol=1e-6, atol=0)


def test_starts_of_a_diagonal_curvature_have_its_scales() -> None:
    field: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(logistic())
    starts = field.starts(5, 0.25, torch.Generator().manual_seed(0))
    noise = torch.randn(5, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(starts, ANCHOR + 2 * 0.5 * noise / field.curvature.sqrt())
