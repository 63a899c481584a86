"""What warm-up begins with: its sampler, the acceptance it wants, the mass, the starts and the first momenta."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.targets.base import Advice
from ggmc.warmup import Warmup
from ggmc.warmup.defaults import advised_mass
from tests.support.gaussians import gaussian
from tests.support.logistic import examples, log_likelihood, log_prior, logistic

F64 = torch.float64


def test_every_trajectory_of_warm_up_tells_its_whole_log_alpha() -> None:
    """Thinned reports, comparisons with the exact gradient and sums that stop early are for the draws alone."""
    for options in ({"monitor_every": 5, "adjust": False}, {"explain": 1.0}):
        tuned, given = (Warmup(ggmc.GGMC(h, **options), logistic(bound=0.0), 50).sampler for h in (None, 0.1))  # pyright: ignore[reportArgumentType]
        programs: list[Any] = [tuned.program, given.program]  # pyright: ignore[reportAttributeAccessIssue]
        assert (programs[0].monitor_every, programs[0].explain) == (1, 0.0)
        assert (programs[1].monitor_every, programs[1].explain) == (
            options.get("monitor_every", 1),
            options.get("explain", 0.0),
        )
        assert (tuned.early_stop, given.early_stop) == (False, True)


ADVICE = Advice(acceptance=0.7)


@pytest.mark.parametrize(
    ("kernel", "target", "wanted"),
    [
        (ggmc.GGMC(guide=ggmc.Minibatch(100)), logistic(400), 0.65),
        (ggmc.GGMC(guide=ggmc.Minibatch(100, "iid")), logistic(400), 0.65),
        (ggmc.GGMC(guide=ggmc.ControlVariate(100)), logistic(400), 0.9),
        (ggmc.GGMC(guide=ggmc.Surrogate(lambda w: -(w**2).sum())), logistic(400), 0.8),
        (ggmc.GGMC(friction=torch.inf, steps=1), logistic(400), 0.6),
        (ggmc.GGMC(friction=torch.inf, steps=2), logistic(400), 0.8),
        (ggmc.HMC(), logistic(400), 0.8),
        (ggmc.GGMC(), logistic(400, advice=ADVICE), 0.7),
        (ggmc.GGMC(guide=ggmc.Minibatch(100)), logistic(400, advice=ADVICE), 0.7),
    ],
)
def test_the_wanted_acceptance_suits_the_guide_and_the_kernel_unless_one_is_advised(
    kernel: Any, target: Any, wanted: float
) -> None:
    assert Warmup(kernel, target, 100).wanted == wanted
    assert Warmup(kernel, target, 100, wanted=0.75).wanted == 0.75


@pytest.mark.parametrize(
    "mass", [torch.tensor([1.0, -1.0, 1.0]), torch.ones(2), None], ids=["negative", "short", "none"]
)
def test_advice_that_is_no_mass_is_not_taken(mass: Tensor | None) -> None:
    field = ggmc.Exact().bind(logistic())
    field.advice = Advice(mass=lambda: mass)
    assert advised_mass(ggmc.GGMC(), logistic(), field) is None


@pytest.mark.parametrize(("size", "believed"), [(256, False), (257, True)])
def test_a_target_that_knows_a_mass_is_believed_where_it_is_too_large_to_learn(size: int, believed: bool) -> None:
    target = gaussian(size)
    target.advice = Advice(mass=lambda: torch.full((size,), 4.0, dtype=F64))
    assert (advised_mass(ggmc.GGMC(), target, ggmc.Exact().bind(target)) is not None) == believed


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_first_momenta_have_the_known_mass_and_the_temperature(temperature: float) -> None:
    kernel = ggmc.GGMC(guide=ggmc.ControlVariate(100, curvature="dense"), temperature=temperature, steps=3)
    warmup = Warmup(kernel, logistic(400), 50)
    assert warmup.mass.stored() is not None
    position = torch.zeros(5, 3, dtype=F64)
    noise = torch.randn(5, 3, dtype=F64, generator=torch.Generator().manual_seed(0))
    found = warmup.init(position, torch.Generator().manual_seed(0)).momentum
    torch.testing.assert_close(found, temperature**0.5 * warmup.mass.colour(noise))


def test_chains_start_as_widely_as_the_kernels_temperature_says() -> None:
    anchor = torch.tensor([0.3, -0.2, 0.1], dtype=F64)
    guide = ggmc.ControlVariate(100, curvature="dense", anchor=anchor)
    cold, usual = (
        Warmup(ggmc.GGMC(guide=guide, temperature=t), logistic(400), 50).starts(5, torch.Generator().manual_seed(0))
        for t in (0.25, 1.0)
    )
    torch.testing.assert_close(cold - anchor, (usual - anchor) / 2)


@pytest.mark.parametrize(("d", "kind"), [(12, 2), (13, 1)])
def test_a_dense_mass_needs_ten_draws_of_the_last_window_for_each_parameter(d: int, kind: int) -> None:
    """Windows of a hundred trajectories end at 20 and 50: four chains give 120 draws in the last one."""
    warmup = Warmup(ggmc.GGMC(), gaussian(d), 100)
    assert warmup.ends == [20, 50]
    state = warmup.init(torch.zeros(4, d, dtype=F64), torch.Generator().manual_seed(0))
    moments = warmup._new_window(state).moments
    assert moments is not None
    assert moments.scatter.dim() == kind
    only = Warmup(ggmc.GGMC(), gaussian(5), 20)
    assert only.ends == [10]
    alone = only._new_window(only.init(torch.zeros(5, 5, dtype=F64), torch.Generator())).moments
    assert alone is not None
    assert alone.scatter.dim() == 2  # 50 draws
    only.learnt.iteration = 10
    assert only._new_window(state).moments is None  # in the closing phase nothing is learnt but the step size


def test_an_automatic_batch_size_begins_at_a_tenth_of_the_data() -> None:
    target = ggmc.DataDensity(log_prior, log_likelihood, examples(103), torch.zeros(3, dtype=F64))
    warmup = Warmup(ggmc.GGMC(guide=ggmc.Minibatch("auto")), target, 50)
    assert warmup.guide == ggmc.Minibatch(11)
    assert warmup.field.epoch == 10
