"""Real posteriors with known answers, sampled with the defaults alone. Skips where the data is not at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ggmc
from benchmarks.agreement import compare
from benchmarks.logistic import german, logistic_regression
from benchmarks.minibatch_agreement import Setting, errors, settings
from benchmarks.posteriors import DATA, NAMES, german_credit, posteriordb

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"reference posteriors are not at {DATA}")

QUICK = ["eight_schools-eight_schools_noncentered"]


@pytest.mark.slow
def test_german_credit() -> None:
    found = compare(german_credit(), draws=5000, chains=4)
    assert found.error < 4
    assert found.sd < 0.04
    assert found.rhat < 1.01


SETTINGS = [pytest.param(setting, id=str(setting.guide), marks=pytest.mark.slow) for setting in settings(1000)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_german_credit_with_minibatches(setting: Setting) -> None:
    known = german_credit()
    target = logistic_regression(*german())
    anchored: Any = ggmc.ControlVariate(1000, curvature="dense").bind(target)
    kernel = ggmc.GGMC(guide=setting.guide, steps=setting.steps, mass=anchored.mass())
    trace = ggmc.sample(target, kernel, 400, 200, target_accept=setting.target_accept, progress=False)
    error = np.hypot(errors(trace), known.mean_error)
    assert (np.abs(trace["theta"].mean((0, 1)) - known.mean) / error).max() < 4.5  # of 25 means: 2 in 10,000 by chance


@pytest.mark.parametrize("name", QUICK)
def test_some_of_posteriordb(name: str) -> None:
    assert compare(posteriordb(name), draws=2000, chains=4).good


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_of_posteriordb(name: str) -> None:
    assert compare(posteriordb(name), draws=2000, chains=4).good
