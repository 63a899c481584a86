"""Guides: what their gradients are, whatever the sampler makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput, NotExact
from ggmc.guides import control_variate
from ggmc.targets.data import Batches
from tests.support.invariance import noisy_funnel
from tests.targets.test_data_density import examples, logistic, rows

F64 = torch.float64
ANCHOR = torch.tensor([0.3, -0.2, 0.1], dtype=F64)


def over_all_batches(field: Any, position: Tensor) -> Tensor:
    """[batches, chains, d]: every batch's gradient."""
    return torch.stack([field(position, torch.full((len(position),), j))[0] for j in range(field.epoch)])


# Batches


@pytest.mark.parametrize(("number", "size"), [(103, 10), (103, 103), (103, 500), (103, 1), (100, 7), (12, 5)])
def test_batches_hold_every_example_once(number: int, size: int) -> None:
    batches = Batches(logistic(number).data, size)
    real = batches.weights > 0
    assert sorted(batches.indices[real].tolist()) == list(range(number))
    assert max(batches.sizes) <= size
    assert max(batches.sizes) - min(batches.sizes) <= 1
    assert set(batches.weights[real].tolist()) == {float(batches.count)}


def test_the_cut_is_random_and_fixed_by_its_seed() -> None:
    data = logistic().data
    assert torch.equal(Batches(data, 10).indices, Batches(data, 10).indices)
    assert not torch.equal(Batches(data, 10).indices, Batches(data, 10, seed=1).indices)
    assert Batches(data, 103).indices[0].tolist() != list(range(103))


def test_each_chain_reads_its_own_batch() -> None:
    batches = Batches(logistic().data, 10)
    (x, s), weights = batches[torch.tensor([3, 0, 3])]
    assert x.shape == (3, 10, 3)
    assert torch.equal(x[0], x[2])
    assert torch.equal(x[1], examples()[0][batches.indices[0]])
    assert weights.shape == s.shape == (3, 10)


# Gradients


@pytest.mark.parametrize("size", [10, 11, 50, 103, 1000])
@pytest.mark.parametrize("curvature", [None, "none", "diagonal", "dense"])
def test_the_mean_over_all_batches_is_the_exact_gradient(size: int, curvature: str | None) -> None:
    target = logistic()
    guide: Any = ggmc.Minibatch(size)
    if curvature is not None:
        guide = ggmc.ControlVariate(size, curvature=curvature, anchor=ANCHOR)
    mean = over_all_batches(guide.bind(target), rows()).mean(0)
    torch.testing.assert_close(mean, target.potential_and_gradient(rows())[1])


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
    torch.testing.assert_close(field.mass(1.0).matrix, hessian)
    diagonal: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(target)
    torch.testing.assert_close(diagonal.mass(1.0).matrix, hessian.diagonal())


def test_a_large_diagonal_is_estimated_without_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggmc.guides.anchor.EXACT_DIAGONAL", 2)
    monkeypatch.setattr("ggmc.guides.anchor.PROBES", 4000)
    estimated: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(logistic())
    monkeypatch.setattr("ggmc.guides.anchor.EXACT_DIAGONAL", 1024)
    exact: Any = ggmc.ControlVariate(10, curvature="diagonal", anchor=ANCHOR).bind(logistic())
    torch.testing.assert_close(estimated.curvature, exact.curvature, rtol=0.05, atol=0)


def test_a_mass_is_positive_where_the_curvature_is_not() -> None:
    case = noisy_funnel()
    field: Any = ggmc.ControlVariate(4, curvature="dense", anchor=torch.tensor([1.0, 5.0], dtype=F64)).bind(case.target)
    assert torch.linalg.eigvalsh(field.curvature).min() < 0
    assert torch.linalg.eigvalsh(field.mass(1.0).matrix).min() > 0


def test_the_anchor_is_the_mode() -> None:
    target = logistic()
    field: Any = ggmc.ControlVariate(10).bind(target)
    assert target.potential_and_gradient(field.anchor[None])[1].norm() < 1e-3
    torch.testing.assert_close(field.gradient_at_anchor, target.potential_and_gradient(field.anchor[None])[1][0])


def test_chains_start_around_the_anchor_as_widely_as_the_curvature_says() -> None:
    field: Any = ggmc.ControlVariate(10, curvature="dense").bind(logistic())
    starts = field.starts(4000, 0.25, torch.Generator().manual_seed(0))
    wanted = 4 * 0.25 * torch.linalg.inv(field.curvature)
    torch.testing.assert_close(torch.cov(starts.mT), wanted, rtol=0.15, atol=0.02)


def test_a_surrogate_has_its_own_gradient_on_the_targets_coordinates() -> None:
    from torch.distributions import constraints

    start = {"a": torch.ones((), dtype=F64), "b": torch.zeros(2, dtype=F64)}
    target = ggmc.Density(lambda p: -p["a"] - (p["b"] ** 2).sum(), start, {"a": constraints.positive})
    other = ggmc.Density(lambda p: -2 * p["a"] - (p["b"] ** 4).sum(), start, {"a": constraints.positive})
    position = torch.randn(4, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    gradient, potential = ggmc.Surrogate(other.log_prob).bind(target)(position, None)
    torch.testing.assert_close(gradient, other.potential_and_gradient(position)[1])
    assert potential is None


def test_the_configurational_temperature_is_told_only_by_exact_gradients() -> None:
    import numpy as np

    for guide, known in ((ggmc.Exact(), True), (ggmc.Surrogate(lambda w: -(w**2).sum()), False)):
        trace = ggmc.sample(logistic(), ggmc.HMC(0.1, 2, guide=guide), draws=5, warmup=0, progress=False)
        assert np.isfinite(trace.stats["configurational_temperature"]).all() == known


# Refusals


@pytest.mark.parametrize("guide", [ggmc.Minibatch(10), ggmc.ControlVariate(10)], ids=str)
def test_a_target_without_data_has_no_minibatches(guide: Any) -> None:
    plain = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2, dtype=F64))
    with pytest.raises(BadInput, match="needs a target with data, such as ggmc"):
        ggmc.GGMC(0.1, guide=guide).bind(plain)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ggmc.Minibatch(0), "size must be a whole number of at least 1, got 0"),
        (lambda: ggmc.Minibatch("all"), "size must be a whole number"),
        (lambda: ggmc.ControlVariate(10, curvature="full"), "curvature must be one of"),
        (lambda: ggmc.Surrogate(1.0), "needs a log density to call"),  # pyright: ignore[reportArgumentType]
        (lambda: ggmc.GGMC(0.1, guide=ggmc.Minibatch("auto")), 'size="auto" is found in warm-up'),
        (lambda: ggmc.Minibatch("auto").bind(logistic()), 'size="auto" is found in warm-up'),
    ],
)
def test_settings_that_are_refused(make: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        make()


def test_an_anchor_that_moves_is_refused() -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, anchor=ANCHOR), steps=2, mass=[1.0, 2.0, 3.0])
    field: Any = kernel.guide.bind(target)
    init, step = kernel.on(target, field)
    generator = torch.Generator().manual_seed(0)
    state = init(rows(), generator)
    state, _ = step(state, generator)
    field.anchor = field.anchor + 0.1
    with pytest.raises(NotExact, match="the anchor of the control variates, was changed after the kernel was bound"):
        step(state, generator)
    init, step = kernel.on(target, field)
    step(state, generator)
    field.anchor.add_(0.1)
    with pytest.raises(NotExact, match="what adapts while sampling voids exactness"):
        step(state, generator)


def test_a_mass_that_adapts_is_refused() -> None:
    target = logistic()
    kernel = ggmc.GGMC(0.1, steps=2, mass=torch.tensor([1.0, 2.0, 3.0], dtype=F64))
    init, step = kernel.bind(target)
    generator = torch.Generator().manual_seed(0)
    state, _ = step(init(rows(), generator), generator)
    kernel.mass.matrix.mul_(2)
    with pytest.raises(NotExact, match="Bind the kernel again"):
        step(state, generator)


def test_an_anchor_in_another_precision_or_form() -> None:
    for anchor in (ANCHOR.float(), ANCHOR):
        guide = ggmc.ControlVariate(10, curvature="dense", anchor=anchor)
        gradient, _ = guide.bind(logistic())(rows(), torch.zeros(4, dtype=torch.long))
        assert gradient.dtype == F64
    for bad in (ANCHOR * torch.nan, ANCHOR[:2]):
        with pytest.raises(BadInput, match=r"anchor must be finite values|must end in shape"):
            ggmc.ControlVariate(10, anchor=bad).bind(logistic())


def test_runs_with_an_anchor_or_functions_of_the_users_can_be_exported() -> None:
    for guide in (ggmc.ControlVariate(10, anchor=ANCHOR), ggmc.Surrogate(lambda w: -20 * (w[:2] ** 2).sum())):
        trace = ggmc.sample(logistic(), ggmc.GGMC(0.1, steps=2, guide=guide), draws=10, warmup=0, progress=False)
        assert "kernel" in trace.to_datatree()["posterior"].attrs


@pytest.mark.parametrize("kind", [ggmc.SGLD, ggmc.SGHMC])
def test_baselines_have_no_warm_up_to_find_a_batch_size(kind: Any) -> None:
    with pytest.raises(BadInput, match='size="auto" is found in warm-up'):
        kind(0.1, guide=ggmc.Minibatch("auto"))
