"""Real posteriors with known answers, sampled with the defaults alone. Skips where the data is not at hand."""

from __future__ import annotations

import pytest

from benchmarks.agreement import compare
from benchmarks.posteriors import DATA, NAMES, german_credit, posteriordb

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"reference posteriors are not at {DATA}")

QUICK = ["earnings-logearn_interaction", "eight_schools-eight_schools_noncentered", "kilpisjarvi_mod-kilpisjarvi"]


def test_german_credit() -> None:
    found = compare(german_credit(), draws=5000, chains=4)
    assert found.error < 4
    assert found.sd < 0.04
    assert found.rhat < 1.01


@pytest.mark.parametrize("name", QUICK)
def test_some_of_posteriordb(name: str) -> None:
    assert compare(posteriordb(name), draws=2000, chains=4).good


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_of_posteriordb(name: str) -> None:
    assert compare(posteriordb(name), draws=2000, chains=4).good
