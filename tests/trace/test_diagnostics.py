"""Each warning is provoked by a run that deserves it, and good runs stay silent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.trace.diagnostics import check

F64 = torch.float64


def gaussian(dtype: torch.dtype = F64, scale: float = 1.0) -> ggmc.Density:
    return ggmc.Density(lambda x: -scale * (x**2).sum() / 2, torch.zeros(2, dtype=dtype))


def run(target: Any, kernel: Any = None, **options: Any) -> ggmc.Trace:
    return ggmc.sample(target, kernel, progress=False, **options)


def said(trace: ggmc.Trace, words: str) -> bool:
    return any(words in message for message in trace.warnings)


def test_a_good_run_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    assert run(gaussian()).warnings == []
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


def test_low_acceptance() -> None:
    assert said(run(gaussian(), ggmc.MALA(3.5), draws=500, warmup=10), "Use a smaller step_size, or leave it None.")
    trace = run(gaussian())
    trace.stats["acceptance_rate"] = np.full_like(trace.stats["acceptance_rate"], 0.5)
    assert "Give more warm-up" in check(trace, 0.8)[0]


def test_bias_without_the_test() -> None:
    trace = run(gaussian(), ggmc.GGMC(1.7, steps=3, adjust=False), draws=500, warmup=10)
    assert said(trace, "Without the Metropolis test the draws are biased")


def test_rounding_in_float32() -> None:
    large = ggmc.Density(lambda x: -(x**2).sum() / 2 - 1e6, torch.zeros(2))
    assert said(run(large), "float32")
    assert not said(run(gaussian(torch.float32)), "float32")


@pytest.mark.parametrize("kernel", [ggmc.GGMC(0.3, friction=0.0), ggmc.GGMC(0.3, scheme="BAB")])
def test_a_momentum_that_is_never_refreshed(kernel: Any) -> None:
    assert said(run(gaussian(), kernel, draws=100, warmup=10), "The momentum is never refreshed")


def test_too_few_draws_to_tell() -> None:
    assert said(run(gaussian(), ggmc.MALA(1.0), draws=3, warmup=0), "too few to judge")


def test_a_constant_parameter_is_not_called_converged() -> None:
    trace = run(gaussian(), ggmc.MALA(1.0), draws=100, warmup=0)
    trace.draws["theta"] = np.zeros_like(trace["theta"])
    assert any("chains disagree" in message or "effective" in message for message in check(trace))


def test_many_parameters_are_looked_at_in_part() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3000, dtype=F64))
    trace = run(target, ggmc.HMC(0.2, 7), draws=20, warmup=5)
    assert isinstance(trace.warnings, list)


def _made_up(columns: np.ndarray) -> ggmc.Trace:
    """A trace with these draws and nothing else to complain of."""
    trace = run(gaussian(), ggmc.MALA(1.0), draws=4, warmup=0, chains=len(columns))
    trace.draws = {"x": columns}
    trace.stats = {name: np.broadcast_to(stat[:, :1], columns.shape[:2]) for name, stat in trace.stats.items()}
    trace.stats["acceptance_rate"] = np.full(columns.shape[:2], 0.8)
    trace.stats["diverging"] = np.zeros(columns.shape[:2], dtype=bool)
    return trace


def test_where_each_limit_lies() -> None:
    random = np.random.default_rng(0)
    noise = random.standard_normal((4, 1000))
    assert check(_made_up(noise)) == []
    assert "disagree" in check(_made_up(noise + np.array([[0.0], [0.0], [0.0], [0.5]])))[0]
    assert "Few effective draws" in check(_made_up(noise[:, :60]))[0]
    trace = _made_up(noise)
    trace.stats["acceptance_rate"] = np.full((4, 1000), 0.63)
    assert "Give more warm-up" in check(trace, 0.8)[0]
    assert check(trace, 0.77) == []


def test_slow_tails_are_seen_where_the_bulk_is_fast() -> None:
    random = np.random.default_rng(0)
    noise = random.standard_normal((4, 1000))
    slow = np.empty_like(noise)
    slow[:, 0] = noise[:, 0]
    for t in range(1, 1000):
        slow[:, t] = 0.995 * slow[:, t - 1] + 0.1 * random.standard_normal(4)
    assert any("Few effective" in message for message in check(_made_up(noise * np.exp(1.5 * slow))))


def test_one_chain_is_compared_with_itself(caplog: pytest.LogCaptureFixture) -> None:
    assert run(gaussian(), chains=1).warnings == []
    assert caplog.text == ""
    drifting = _made_up(np.linspace(0, 1, 1000)[None] + np.random.default_rng(0).standard_normal((1, 1000)) / 10)
    assert "The halves of the chain disagree on x" in check(drifting)[0]
