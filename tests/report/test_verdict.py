from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.kernels import KernelSettings
from ggmc.report.findings import find
from ggmc.report.verdict import NOT_EXACT, NOT_YET, TRUSTWORTHY, Verdict, judge
from ggmc.trace.trace import Trace
from tests.support.gaussians import gaussian
from tests.support.traces import trace_of, white_noise


def verdict(trace: Trace) -> Verdict:
    return judge(find(trace))


def said(found: Verdict) -> str:
    return " ".join([found.summary, found.exact, *(c.what for c in found.checks), *(" ".join(s) for s in found.steps)])


def test_a_good_run_is_trustworthy() -> None:
    found = verdict(trace_of(white_noise(size=3)))
    assert found.state == TRUSTWORTHY
    assert found.title == "Trustworthy"
    assert all(check.passed is True for check in found.checks)
    assert [step.finding for step in found.steps] == ["Nothing: use it."]
    assert found.exact.startswith("Yes. GGMC tests every trajectory")


def test_a_thinned_run_is_finished_when_all_that_it_keeps_is_there(tmp_path: Path) -> None:
    out = ggmc.RunFolder(tmp_path / "run", thin=5)
    found = find(ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), draws=52, warmup=0, chains=2, out=out, progress=False))
    assert (found.draws, found.asked, found.unfinished) == (10, 10, False)


def test_another_temperature_is_said() -> None:
    assert "at temperature 0.5" in verdict(trace_of(white_noise(), kernel=ggmc.GGMC(0.1, temperature=0.5))).exact


def test_untested_sghmc_is_not_exact_and_says_why() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
    found = verdict(ggmc.sample(target, ggmc.SGHMC(0.3), draws=300, warmup=50, progress=False))
    assert found.state == NOT_EXACT
    assert found.title == "Not exact"
    assert "log α = −∞" in found.exact
    assert "AMAGOLD" in said(found)


def test_without_the_test_a_good_looking_run_is_not_exact() -> None:
    found = verdict(trace_of(white_noise(), kernel=ggmc.GGMC(0.1, adjust=False), acceptance_rate=0.97))
    assert found.state == NOT_EXACT
    assert "would have accepted 0.97" in found.exact
    assert any("ggmc.GGMC" in step.remedy for step in found.steps)


def test_chains_that_disagree_are_not_trusted() -> None:
    rows = white_noise() + np.arange(4.0)[:, None, None]
    found = verdict(trace_of(rows))
    assert found.state == NOT_YET
    assert "Chains disagree" in said(found)
    assert "Run longer" in said(found)


def test_a_chain_that_never_moved_is_not_trusted() -> None:
    rows = white_noise()
    rows[2] = 0.3
    found = verdict(trace_of(rows))
    assert found.state == NOT_YET
    assert "Chain 2 never moved" in said(found)


def test_few_draws_are_not_trusted() -> None:
    found = verdict(trace_of(white_noise(draws=5)))
    assert found.state == NOT_YET
    assert any(check.passed is None for check in found.checks)
    assert "too few to judge" in said(found)


def test_one_chain_is_not_trusted() -> None:
    found = verdict(trace_of(white_noise(chains=1, draws=4000)))
    assert found.state == NOT_YET
    assert "one chain only" in said(found)
    assert "chains=4" in said(found)


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        ({"diverging": np.arange(4000).reshape(4, 1000) == 7}, "1 of 4,000 trajectories diverged"),
        ({"acceptance_rate": np.nan}, "acceptance probability is not known"),
        ({"acceptance_rate": 0.2}, "Acceptance is 0.20"),
    ],
)
def test_statistics_that_are_bad_or_not_known(stats: dict[str, Any], words: str) -> None:
    found = verdict(trace_of(white_noise(), **stats))
    assert found.state == NOT_YET
    assert words in said(found)


def test_warnings_of_the_run_are_heeded_though_all_checks_pass() -> None:
    trace = trace_of(white_noise())
    trace.warnings = ["Something odd was seen. Look into it."]
    found = verdict(trace)
    assert found.state == NOT_YET
    assert ("Something odd was seen.", "Look into it.") in found.steps


def test_draws_that_nothing_was_computed_of_are_not_trusted() -> None:
    trace = trace_of(white_noise())
    trace.target = None
    found = verdict(trace)
    assert found.state == NOT_YET
    assert "R̂ could not be computed" in said(found)


def test_values_that_are_not_finite_are_not_trusted() -> None:
    rows = white_noise(size=2)
    rows[0, 10, 1] = np.nan
    found = verdict(trace_of(rows))
    assert found.state == NOT_YET
    assert "R̂ is not known for every number" in said(found)


def test_a_sampler_that_only_says_it_is_exact_is_not_trusted() -> None:
    kernel = KernelSettings("elsewhere.Kernel", {"adjust": True, "step_size": 0.1})
    found = verdict(trace_of(white_noise(), kernel=kernel))
    assert found.state == NOT_YET
    assert found.exact.startswith("Not known.")


def test_a_training_loop_that_tested_may_be_trusted() -> None:
    kernel = KernelSettings("ggmc.optim.GGMC", {"adjust": True, "step_size": 0.1})
    found = verdict(trace_of(white_noise(), kernel=kernel))
    assert found.state == TRUSTWORTHY
    assert "if the loop gave the right potential" in found.exact


def test_a_long_run_is_thinned_and_judged_alike() -> None:
    trace = trace_of(white_noise(draws=9000))
    found = find(trace)
    assert found.every == 5
    assert found.few is not None
    assert found.few.num_draws == 1800
    np.testing.assert_array_equal(np.asarray(found.few.positions), trace.positions[:, ::5])
    np.testing.assert_array_equal(found.few["x"], trace["x"][:, ::5])
    assert judge(found).state == TRUSTWORTHY
