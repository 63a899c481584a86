"""Every kernel leaves every target's law where it is, positions and momenta together."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import ggmc
from ggmc.dynamics.mass import LowRank
from tests.support.invariance import Case, funnel, independence_violations, quartic, skewed, violations

WORDS = ["OBABO", "BAOAB", "ABOBA", "OABAO", "O(BAB)O", "O(ABA)O", "O(BABAB)O", "AOBOA"]
STAGES = ["O(BCSS3)O", "OBCSS2O", "O(BCSS4d)O"]

KERNELS: list[Any] = [
    *[lambda h, T, M, w=w: ggmc.GGMC(h, 0.7, 1, w, temperature=T, mass=M) for w in WORDS],
    *[lambda h, T, M, w=w: ggmc.GGMC(h, 0.7, 3, w, temperature=T, mass=M) for w in WORDS],
    *[lambda h, T, M, w=w: ggmc.GGMC(2.2 * h, 0.7, 2, w, temperature=T, mass=M) for w in STAGES],
    lambda h, T, M: ggmc.HMC(2.2 * h, 2, temperature=T, mass=M, scheme="O(ME2)O"),
    lambda h, T, M: ggmc.MALT(2.2 * h, 0.7, 2, temperature=T, mass=M, scheme="OBCSS3O"),
    lambda h, T, M: ggmc.GGMC(h, 0.13, 1, temperature=T, mass=M),
    lambda h, T, M: ggmc.GGMC(h, math.inf, 2, temperature=T, mass=M),
    lambda h, T, M: ggmc.GGMC(h, 0.5, (1, 4), "O(BAB)O", temperature=T, mass=M),
    lambda h, T, M: ggmc.HMC(h, 3, temperature=T, mass=M),
    lambda h, T, M: ggmc.HMC(h, (1, 5), temperature=T, mass=M),
    lambda h, T, M: ggmc.MALA(h, temperature=T, mass=M),
    lambda h, T, M: ggmc.MALT(h, 0.7, 4, temperature=T, mass=M),
]

LOW_RANK = LowRank(
    torch.tensor([1.0, 0.5], dtype=torch.float64),
    torch.tensor([[0.6], [0.8]], dtype=torch.float64),
    torch.tensor([3.0], dtype=torch.float64),
)
DENSE = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=torch.float64)


def _cases() -> list[Any]:
    one = torch.tensor([2.5], dtype=torch.float64)
    settings: list[tuple[Any, float, Any]] = [
        (quartic, 0.8, None),
        (lambda: quartic(0.4), 0.7, one),
        (skewed, 1.1, None),
        (lambda: skewed(2.0), 1.5, one),
        (funnel, 0.6, None),
        (funnel, 0.8, torch.tensor([2.0, 0.5], dtype=torch.float64)),
        (funnel, 0.8, DENSE),
    ]
    settings += [(funnel, 0.8, LOW_RANK), (lambda: skewed(2.0), 1.5, LowRank(one, one[:, None] / 2.5, 0 * one + 0.6))]
    # Every kernel on the two targets that show most; then every setting with one kernel of each kind.
    table = [(make, *settings[i]) for make in KERNELS for i in (0, 6)]
    some = [KERNELS[i] for i in (0, 8, 12, 17, -1)]
    table += [(make, *setting) for setting in settings for make in some]
    return table


@pytest.mark.parametrize(("make", "case", "step_size", "mass"), _cases())
def test_exact_draws_stay_exact(make: Any, case: Any, step_size: float, mass: Any) -> None:
    case = case()
    assert violations(case, make(step_size, case.temperature, mass)) == {}


def test_the_step_sizes_are_large_enough_for_rejections_to_matter() -> None:
    case = quartic()
    generator = torch.Generator().manual_seed(0)
    init, step = ggmc.GGMC(0.8, 0.13).bind(case.target)
    _, info = step(init(case.exact(10_000, generator), generator), generator)
    assert 0.5 < info.accepted.double().mean().item() < 0.97


@pytest.mark.parametrize("case", [quartic, skewed, funnel])
def test_without_the_test_the_bias_shows(case: Any) -> None:
    kernel = ggmc.GGMC(0.9, 0.5, 3, adjust=False)
    assert violations(case(), kernel) != {}


def test_the_published_example() -> None:
    """U = x⁴/4 + x, h = 0.8, a = 0.9: truth E[x] = −0.6224, E[x²] = 0.9170."""
    case = quartic()
    draws = case.exact(1_000_000, torch.Generator().manual_seed(1))
    assert draws.mean().item() == pytest.approx(-0.6224, abs=5e-3)
    assert (draws**2).mean().item() == pytest.approx(0.9170, abs=5e-3)
    assert violations(case, ggmc.GGMC(0.8, -math.log(0.9) / 0.8), trajectories=60) == {}


def test_constrained_targets_carry_their_jacobian() -> None:
    """An exponential variable through the positive constraint is the skewed target, moments and all."""
    from torch.distributions import constraints

    plain = skewed()
    target = ggmc.Density(lambda x: -x.sum(), torch.ones(1, dtype=torch.float64), constraints.positive)
    assert violations(Case("exponential", target, plain.exact), ggmc.GGMC(1.1, 0.7, 2)) == {}


def test_chains_are_independent() -> None:
    assert independence_violations(quartic(), ggmc.GGMC(0.9, 2.0, 2)) == {}
