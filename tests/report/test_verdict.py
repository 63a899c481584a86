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
from ggmc.trace.diagnostics import check
from ggmc.trace.mixing import Measured
from ggmc.trace.trace import Trace
from tests.support.gaussians import gaussian
from tests.support.posteriors import NORMAL, X, Y
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


# Limits, numbers and what is said once


def with_measured(trace: Trace, rhat: list[float], ess: list[float]) -> Verdict:
    """The verdict if R̂ and effective draws of the tails were these."""
    found = find(trace)
    columns = [trace.positions[..., 0]] * len(rhat)
    bulk = np.full(len(ess), 1e4)
    found.measured = Measured([f"x[{i}]" for i in range(len(rhat))], columns, np.array(rhat), bulk, np.array(ess))
    return judge(found)


@pytest.mark.parametrize(
    ("rhat", "ess", "state", "words"),
    [
        ([1.0, 1.01], [400.0, 900.0], TRUSTWORTHY, "Chains agree: the worst R̂ of 2 parameters is 1.010 (limit 1.01)."),
        ([1.0, 1.01], [400.0, 900.0], TRUSTWORTHY, "Enough effective draws: the least is 400 (wanted 400)."),
        ([1.0, 1.011], [400.0, 900.0], NOT_YET, "Chains disagree: the worst R̂ of 2 parameters is 1.011 (limit 1.01)."),
        ([1.0, 1.0], [900.0, 399.0], NOT_YET, "Too few effective draws: the least is 399 (wanted 400)."),
        ([np.nan, 1.0], [900.0, 900.0], NOT_YET, "R̂ is not known for every number"),
        ([1.0, 1.0], [900.0, np.nan], NOT_YET, "The number of effective draws is not known."),
    ],
)
def test_where_the_limits_of_mixing_lie(rhat: list[float], ess: list[float], state: str, words: str) -> None:
    found = with_measured(trace_of(white_noise()), rhat, ess)
    assert found.state == state
    assert any(check.what.startswith(words) for check in found.checks)


def test_where_the_limit_of_acceptance_lies() -> None:
    found = find(trace_of(white_noise()))
    for rate, state in ((0.4, TRUSTWORTHY), (0.399, NOT_YET)):
        found.acceptance = np.array([rate])
        assert judge(found).state == state


def test_checks_that_failed_and_those_that_could_not_be_made_are_counted() -> None:
    diverging = np.arange(4000).reshape(4, 1000) == 7
    found = verdict(trace_of(white_noise(), diverging=diverging, acceptance_rate=np.nan))
    assert found.summary.startswith("1 check did not pass and 1 could not be made. Do not rely on")
    trace = trace_of(white_noise())
    trace.warnings = ["Something odd was seen: look into it with care."]
    found = verdict(trace)
    assert found.summary == "The run's own diagnosis has findings that should be cleared up first."
    assert found.steps == [("Something odd was seen.", "Look into it with care.")]


@pytest.mark.parametrize("diverged", [False, True])
def test_without_the_test_other_findings_are_mentioned_if_there_are_any(diverged: bool) -> None:
    diverging = (np.arange(4000).reshape(4, 1000) == 7) & diverged
    trace = trace_of(white_noise(), kernel=ggmc.GGMC(0.1, adjust=False), acceptance_rate=0.97, diverging=diverging)
    found = verdict(trace)
    assert found.summary.endswith("There are other findings too.") == diverged
    assert any(step.finding == "The draws are biased." for step in found.steps) != diverged
    unknown = verdict(trace_of(white_noise(), kernel=ggmc.GGMC(0.1, adjust=False), acceptance_rate=np.nan))
    assert "log α was not computed" in unknown.exact


def test_a_finding_is_said_once_though_a_long_run_was_diagnosed_before() -> None:
    trace = trace_of(white_noise(draws=5000) + np.arange(4.0)[:, None, None])
    trace.warnings = check(trace)
    found = find(trace)
    assert found.every == 3
    assert found.warnings == trace.warnings  # those of fewer draws have other numbers, and say the same
    assert [step.finding for step in judge(found).steps if "disagree" in step.finding] == [
        step.finding for step in judge(found).steps[:1]
    ]


def test_draws_that_are_missing_are_counted(tmp_path: Path) -> None:
    ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), 20, 0, 2, out=ggmc.RunFolder(tmp_path / "run", thin=2), progress=False)
    found = find(ggmc.load(tmp_path / "run"))
    found.asked = 1000
    assert "10 draws of 1,000 were made: the run goes on, or was stopped." in said(judge(found))


def test_weights_of_a_network_are_no_measure_of_mixing(tmp_path: Path) -> None:
    target = ggmc.Posterior(torch.nn.Linear(2, 1), "gaussian", NORMAL, X, Y, vectorise=True)
    for name, seed in (("run", 0), ("again", 1)):
        ggmc.sample(target, ggmc.HMC(0.1, 3), 20, 0, seed=seed, out=tmp_path / name, progress=False)
    alone, given = (find(ggmc.load(tmp_path / "run", one)) for one in (None, target))
    assert (alone.judged_by, given.judged_by) == ("weights", "predictions")
    merged = find(ggmc.load([tmp_path / "run", tmp_path / "again"]))
    assert (merged.judged_by, merged.chains) == ("weights", 8)
    assert any("Give target=..." in step.remedy for step in judge(alone).steps)
    assert not any("Give target=..." in step.remedy for step in judge(given).steps)
    assert given.measured is not None
    expected = target.prediction_features(given.trace.stacked_rows()).unflatten(0, (4, 20)).numpy()
    np.testing.assert_allclose(np.moveaxis(np.array(given.measured.columns), 0, -1), expected, rtol=1e-6)
