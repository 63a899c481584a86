"""Each warning is provoked by a run that deserves it, and good runs stay silent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.mass import Identity, as_mass
from ggmc.kernels import GGMC
from ggmc.targets.layout import Layout
from ggmc.trace import diagnostics
from ggmc.trace.diagnostics import check
from tests.support.traces import F32, F64, Gaussian, trace_of, white_noise


def gaussian(dtype: torch.dtype = F64, scale: float = 1.0) -> ggmc.Density:
    return ggmc.Density(lambda x: -scale * (x**2).sum() / 2, torch.zeros(2, dtype=dtype))


def run(target: Any, kernel: Any = None, **options: Any) -> ggmc.Trace:
    return ggmc.sample(target, kernel, progress=False, **options)


def said(trace: ggmc.Trace, words: str) -> bool:
    return any(words in message for message in trace.warnings)


# Runs


def test_a_good_run_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    assert run(gaussian()).warnings == []
    assert run(gaussian(), chains=1, draws=4000).warnings == []
    assert caplog.text == ""


def test_chains_in_different_modes() -> None:
    def two_modes(x: torch.Tensor) -> torch.Tensor:
        return torch.logaddexp(-((x - 20) ** 2) / 2, -((x + 20) ** 2) / 2).sum()

    target = ggmc.Density(two_modes, torch.zeros(1, dtype=F64))
    trace = run(target, draws=300, warmup=300, chains=8)
    assert said(trace, "The chains disagree on theta[0] (worst R̂")
    assert said(trace, "several modes")


def test_few_effective_draws() -> None:
    trace = run(gaussian(), ggmc.MALA(0.2), draws=300)
    assert said(trace, "Few effective draws for theta[0], theta[1] (least")


def test_divergences_and_a_log(caplog: pytest.LogCaptureFixture) -> None:
    target = ggmc.Density(lambda x: torch.where(x[0] > -1, -(x**2).sum() / 2, -torch.inf), torch.zeros(2, dtype=F64))
    trace = run(target, ggmc.HMC(0.9, 3), draws=500, warmup=10)
    assert said(trace, f"{trace.stats['diverging'].sum()} of 2000 trajectories diverged")
    assert "trajectories diverged" in caplog.text


def test_low_acceptance_of_a_run() -> None:
    assert said(run(gaussian(), ggmc.MALA(3.5), draws=500, warmup=10), "Use a smaller step_size, or leave it None.")


def test_bias_without_the_test() -> None:
    trace = run(gaussian(), ggmc.GGMC(1.7, steps=3, adjust=False), draws=500, warmup=10)
    assert said(trace, "Without the Metropolis test the draws are biased")


def test_rounding_in_float32() -> None:
    large = ggmc.Density(lambda x: -(x**2).sum() / 2 - 1e6, torch.zeros(2))
    assert said(run(large), "float32")
    assert not said(run(gaussian(torch.float32)), "float32")


@pytest.mark.parametrize("settings", [{"friction": 0.0}, {"scheme": "BAB"}])
def test_a_momentum_that_is_never_refreshed(settings: dict[str, Any]) -> None:
    trace = run(gaussian(), ggmc.GGMC(0.3, **settings), draws=100, warmup=10)
    assert said(trace, "The momentum is never refreshed")


def test_too_few_draws_to_tell() -> None:
    assert said(run(gaussian(), ggmc.MALA(1.0), draws=3, warmup=0), "too few to judge")


def test_a_run_with_a_step_far_too_long() -> None:
    trace = run(gaussian(), ggmc.GGMC(10.0), draws=100, warmup=10)
    everything = " ".join(trace.warnings)
    assert said(trace, "the step_size h = 10 is far too long: use a smaller one, or leave it None.")
    assert "target_accept" not in everything
    assert "nan" not in everything
    assert said(trace, "never moved")


# The sampler's own remarks


def test_remarks_come_first() -> None:
    remarks = ["Chain 3 was moved.", "The momentum is never refreshed."]
    good, apart = trace_of(white_noise()), trace_of(white_noise() + np.arange(4.0)[:, None, None])
    good.remarks = apart.remarks = remarks
    assert check(good, 0.8) == remarks
    bad = check(apart, 0.8)
    assert bad[:2] == remarks
    assert "disagree" in bad[2]


def test_good_statistics_are_silent() -> None:
    for wanted in (None, 0.8):
        assert check(trace_of(white_noise()), wanted) == []


# The step size


def test_where_the_limits_of_acceptance_lie() -> None:
    noise = white_noise()
    assert "Give more warm-up" in check(trace_of(noise, acceptance_rate=0.5), 0.8)[0]
    found = check(trace_of(noise, acceptance_rate=0.63), 0.8)
    assert found == [
        "Acceptance is 0.63, but 0.80 was wanted: the chains met regions that warm-up had not seen. Give more warm-up."
    ]
    assert check(trace_of(noise, acceptance_rate=0.63), 0.77) == []
    assert check(trace_of(noise, acceptance_rate=0.41)) == []
    assert "Use a smaller step_size, or leave it None." in check(trace_of(noise, acceptance_rate=0.39))[0]


def test_divergences_have_the_remedy_that_is_open() -> None:
    diverging = np.zeros((4, 1000), dtype=bool)
    diverging[1, :3] = True
    tuned = check(trace_of(white_noise(), diverging=diverging), 0.8)
    assert len(tuned) == 1
    assert tuned[0].startswith("3 of 4000 trajectories diverged")
    assert "Raise target_accept (0.9, 0.95), or reparameterise" in tuned[0]
    given = check(trace_of(white_noise(), diverging=diverging))
    assert "target_accept" not in given[0]
    assert "Use a smaller step_size than h = 0.1, or reparameterise" in given[0]


NONE: dict[str, Any] = {"is_accepted": False, "acceptance_rate": 0.0, "log_accept": -300.0}


@pytest.mark.parametrize("diverging", [True, False])
def test_where_nothing_is_accepted_that_is_all_there_is_to_say(diverging: bool) -> None:
    """The advice was to raise target_accept, which had no effect, and R̂ was nan."""
    rows = np.broadcast_to(white_noise(4, 1, 2), (4, 100, 2)).copy()
    found = check(trace_of(rows, Gaussian(), GGMC(10.0), diverging=diverging, **NONE))
    happened = "Every one of the 400 trajectories diverged" if diverging else "No trajectory was accepted"
    assert found[0] == f"{happened}: the step_size h = 10 is far too long: use a smaller one, or leave it None."
    assert found[1].startswith("Chains 0, 1, 2, 3 never moved")
    assert len(found) == 2


def test_where_hardly_anything_is_accepted() -> None:
    accepted, diverging = np.zeros((4, 1000), dtype=bool), np.zeros((4, 1000), dtype=bool)
    accepted[0, :7], diverging[1, :9] = True, True
    trace = trace_of(white_noise(), None, GGMC(5.0), **(NONE | {"is_accepted": accepted, "diverging": diverging}))
    assert check(trace) == [
        "Only 7 of 4000 trajectories were accepted, and 9 of 4000 diverged: the step_size h = 5 is far too long: use a "
        "smaller one, or leave it None."
    ]
    assert "found by warm-up" in check(trace, 0.8)[0]
    assert "leave it None" not in check(trace, 0.8)[0]
    accepted[0, :41] = True
    trace.stats = {**trace.stats, "is_accepted": accepted}
    assert check(trace)[0].startswith("9 of 4000 trajectories diverged")


def test_the_bias_of_runs_without_the_test() -> None:
    kernel = GGMC(0.5, adjust=False)
    found = check(trace_of(white_noise(), None, kernel, acceptance_rate=0.6))
    assert len(found) == 1
    assert found[0].startswith(
        "Without the Metropolis test the draws are biased: it would have accepted 0.60 on average. Use adjust=True, or "
        "a smaller step_size h: the bias falls as h² with a deterministic guide, but only as h with independent "
        "minibatches."
    )
    assert check(trace_of(white_noise(), None, kernel, acceptance_rate=0.91)) == []
    assert check(trace_of(white_noise(), None, kernel, acceptance_rate=np.nan, log_accept=np.nan)) == []


def test_kernels_that_have_no_test_are_left_to_the_samplers_remarks() -> None:
    """ "Use adjust=True" would be refused there."""
    log_accept = np.full((4, 1000), -np.inf)
    log_accept[:, ::2] = np.nan  # not monitored
    stats: dict[str, Any] = {"acceptance_rate": np.exp(log_accept), "log_accept": log_accept, "energy_error": np.inf}
    trace = trace_of(white_noise(), None, GGMC(0.5, adjust=False), **stats)
    trace.remarks = ["It has no test."]
    assert check(trace) == trace.remarks


@pytest.mark.parametrize(("noise", "remedy"), [(2.0, "improve the guide"), (0.1, "shrink the step")])
def test_the_source_of_the_error_where_it_is_known(noise: float, remedy: str) -> None:
    random = np.random.default_rng(0)
    noise_error = noise * random.standard_normal((4, 1000))
    error = noise_error + random.standard_normal((4, 1000))
    error[0, :2], noise_error[0, 0] = np.inf, np.inf  # divergences
    trace = trace_of(white_noise(), acceptance_rate=0.3, noise_error=noise_error, energy_error=error)
    (found,) = check(trace)
    assert remedy in found
    spread = noise_error[np.isfinite(noise_error)].std()
    assert f"the guide's noise makes {spread:.2g} (standard deviation) and the step size 1:" in found
    trace = trace_of(white_noise(), acceptance_rate=0.3, noise_error=np.nan, energy_error=np.nan)
    assert "guide" not in check(trace)[0]


# Rounding


def test_what_is_said_of_rounding() -> None:
    rows = white_noise(4, 1000, 2).astype(np.float32)
    target = Gaussian(dtype=F32, constant=1e6)
    (found,) = check(trace_of(rows, target))
    assert found.startswith("The potential is computed in float32, where it is off by about 0.06: not small beside the")
    assert "temperature 1, so the test errs. Give start, and the data" in found
    assert check(trace_of(rows, target, GGMC(0.1, temperature=10.0))) == []
    unadjusted = trace_of(rows, target, GGMC(0.1, adjust=False), acceptance_rate=0.95)
    assert "so the acceptance reported is wrong" in check(unadjusted)[0]
    cold = trace_of(rows, Gaussian(dtype=F32), GGMC(0.1, temperature=0.0, adjust=False), acceptance_rate=0.95)
    assert check(cold) == []
    assert check(trace_of(rows, Gaussian(dtype=F32))) == []


# Temperatures of one state


def test_kinetic_temperatures_are_means_over_each_tensor() -> None:
    momentum = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]], dtype=F64)
    found = diagnostics.kinetic_temperatures(momentum, Identity(), Layout({"a": (2,), "b": (1,)}))
    assert found.tolist() == [[2.5, 9.0], [0.0, 1.0]]
    assert diagnostics.kinetic_temperature(momentum, Identity()).tolist() == [14 / 3, 1 / 3]


def test_the_mass_counts() -> None:
    mass: Any = as_mass(torch.tensor([1.0, 4.0, 9.0], dtype=F64))
    momentum = torch.tensor([[1.0, 2.0, 3.0]], dtype=F64)
    assert diagnostics.kinetic_temperature(momentum, mass).item() == pytest.approx(1.0)
    found: Tensor = diagnostics.kinetic_temperatures(momentum, mass, Layout({"a": (2,), "b": (1,)}))
    assert torch.allclose(found, torch.ones(1, 2, dtype=F64))


def test_the_configurational_temperature() -> None:
    position = torch.tensor([[1.0, 2.0], [3.0, 0.0]], dtype=F64)
    assert diagnostics.configurational_temperature(position, 2 * position).tolist() == [5.0, 9.0]
    unknown = diagnostics.configurational_temperature(position, None)
    assert unknown.shape == (2,)
    assert unknown.isnan().all()
