"""Every guide, tape and scheme leaves the law where it is, however wrong its gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import LowRank
from ggmc.dynamics.schedule import Along, Cosine, Cyclical, Over, ThereAndBack
from tests.support.augmentations import Mirrored, Shifted
from tests.support.invariance import independence_violations, noisy_funnel, noisy_quartic, quartic, violations

F64 = torch.float64
ORDERS = ["iid", "epoch", "palindrome"]
CURVATURES = ["none", "diagonal", "dense"]
SCHEMES = ["OBABO", "O(ABA)O", "O(BAB)O", "BAOAB", "ABOBA", "ACA", "O(BCSS3d)O", "OBCSS2O"]


def mirrored(entries: int, batches: int, generator: torch.Generator) -> torch.Tensor:
    """A reversible order of one's own: half a tape of one batch, and its mirror image."""
    out = torch.randint(batches, (entries - entries // 2,), generator=generator)
    return torch.cat([out, out.flip(0)[entries % 2 :]])


def guides(d: int) -> dict[str, Any]:
    anchor = torch.full((d,), -0.5, dtype=F64)
    found: dict[str, Any] = {"exact": ggmc.Exact(), "surrogate": ggmc.Surrogate(lambda x: -((x + 0.3) ** 2).sum())}
    for order in ORDERS:
        found[f"minibatch, {order}"] = ggmc.Minibatch(4, order)
        found[f"uneven minibatch, {order}"] = ggmc.Minibatch(5, order)
        found[f"uneven minibatch cut anew, {order}"] = ggmc.Minibatch(5, order, recut=True)
        found[f"minibatch of shifted examples, {order}"] = ggmc.Minibatch(4, order, augment=Shifted())
        found[f"uneven minibatch of mirrored examples cut anew, {order}"] = ggmc.Minibatch(
            5, order, recut=True, augment=Mirrored()
        )
        for curvature in CURVATURES:
            found[f"control variate, {order}, {curvature}"] = ggmc.ControlVariate(4, order, curvature, anchor)
    return found


NAMES = list(guides(1))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", NAMES)
def test_exact_draws_stay_exact(name: str, scheme: str) -> None:
    guide = guides(1)[name]
    case = noisy_quartic()
    for steps in (1, 7):
        kernel = ggmc.GGMC(0.35, 0.5, steps, scheme, guide)
        assert violations(case, kernel, trajectories=6, chains=30_000) == {}, steps


@pytest.mark.parametrize("name", [name for name in NAMES if "uneven" not in name])
def test_in_two_dimensions_with_a_dense_mass(name: str) -> None:
    mass = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64)
    kernel = ggmc.GGMC(0.4, 0.7, 6, "O(ABA)O", guides(2)[name], mass=mass)
    assert violations(noisy_funnel(), kernel, trajectories=6, chains=30_000) == {}


@pytest.mark.parametrize("name", ["exact", *[f"minibatch, {o}" for o in ORDERS], "control variate, palindrome, dense"])
def test_in_two_dimensions_with_a_mass_of_low_rank(name: str) -> None:
    column = torch.tensor([[0.6], [0.8]], dtype=F64)
    mass = LowRank(torch.tensor([1.0, 0.5], dtype=F64), column, torch.tensor([3.0], dtype=F64))
    kernel = ggmc.GGMC(0.4, 0.7, 6, "O(ABA)O", guides(2)[name], mass=mass)
    assert violations(noisy_funnel(), kernel, trajectories=6, chains=30_000) == {}


@pytest.mark.parametrize("name", [name for name in NAMES if "uneven" not in name])
def test_forty_steps_between_tests(name: str) -> None:
    kernel = ggmc.GGMC(0.12, 0.3, 40, "O(ABA)O", guides(1)[name])
    assert violations(noisy_quartic(), kernel, trajectories=4, chains=20_000) == {}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "exact"])
def test_without_the_test_the_bias_shows(name: str) -> None:
    kernel = ggmc.GGMC(0.35, 0.5, 7, "OBABO", guides(1)[name], adjust=False)
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000) != {}


@pytest.mark.parametrize("order", ORDERS)
def test_at_another_temperature(order: str) -> None:
    kernel = ggmc.GGMC(0.3, 0.5, 6, guide=ggmc.Minibatch(4, order), temperature=0.4)
    assert violations(noisy_quartic(0.4), kernel, trajectories=6, chains=30_000) == {}


@pytest.mark.parametrize("order", ORDERS)
def test_amagold(order: str) -> None:
    mass = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64)
    kernel = ggmc.AMAGOLD(0.35, 1.5, 5, ggmc.Minibatch(4, order), mass=mass)
    assert violations(noisy_funnel(), kernel, trajectories=6, chains=30_000) == {}
    assert violations(noisy_funnel(), replace(kernel, adjust=False), trajectories=6, chains=30_000) != {}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", [ggmc.HMC, ggmc.MALT])
def test_other_kernels_with_minibatches(kind: Any, order: str) -> None:
    kernel = kind(step_size=0.35, steps=5, guide=ggmc.Minibatch(4, order))
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000) == {}


def test_an_order_of_ones_own() -> None:
    order = ggmc.CustomOrder(mirrored, reversible=True)
    kernel = ggmc.GGMC(0.35, 0.5, 4, "O(ABA)O", ggmc.Minibatch(4, order))
    assert violations(noisy_quartic(), kernel, trajectories=3, chains=10_000) == {}


SCHEDULED = {
    "there and back": Along(ThereAndBack(Cosine(0.2))),
    "cyclical there and back": Along(Cyclical(2, ThereAndBack(Cosine(0.3)))),
    "either way": Along(Cosine(0.2), either_way=True),
    "warm in the middle": Along(temperature=ThereAndBack(lambda x: 3.0 - 2.0 * x)),
    "cold in the middle": Along(temperature=ThereAndBack(lambda x: 0.3 + 0.7 * x)),
    "both, either way": Along(Cosine(0.3), lambda x: 0.5 + x, either_way=True),
}


@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(4)], ids=str)
@pytest.mark.parametrize("scheme", ["OBABO", "ACA", "BAOAB", "O(ABA)O"])
@pytest.mark.parametrize("along", SCHEDULED.values(), ids=SCHEDULED)
def test_schedules_along_a_trajectory(along: Along, scheme: str, guide: Any) -> None:
    if scheme == "O(ABA)O" and not along.keeps_temperature:
        pytest.skip("no noise on the way for a temperature to change")
    kernel = ggmc.GGMC(0.6, 0.8, 6, scheme, guide, along=along)
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000) == {}


def test_step_sizes_that_change_over_the_run() -> None:
    kernel = ggmc.GGMC(0.7, 0.5, 3, over=Over(5, Cosine(0.1)))
    assert violations(quartic(), kernel, trajectories=15) == {}


def test_chains_with_tapes_are_independent() -> None:
    for augment in (None, Shifted()):
        kernel = ggmc.GGMC(0.35, 2.0, 6, guide=ggmc.Minibatch(4, augment=augment))
        assert independence_violations(noisy_quartic(), kernel) == {}


def test_infinite_friction_with_minibatches() -> None:
    kernel = ggmc.GGMC(0.4, math.inf, 3, "OBABO", ggmc.Minibatch(4, "iid"))
    assert violations(noisy_quartic(), kernel, trajectories=6, chains=30_000) == {}
