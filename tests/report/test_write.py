"""Several runs on one page: names, tiles and the comparison, by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggmc
from ggmc.report.source import opened
from ggmc.report.write import RunPage, _comparison, _run, _summary
from tests.support.pages import Page
from tests.support.traces import Gaussian, PredictiveRegression, regression_data, trace_of, white_noise

UNTESTED = ggmc.GGMC(0.1, adjust=False)


def run(trace: ggmc.Trace, name: str = "a", scored: bool = False) -> RunPage:
    return _run(name, "r0", trace, regression_data() if scored else None, [])


def test_tiles() -> None:
    diverging = np.arange(2000).reshape(2, 1000) < 3
    trace = trace_of(white_noise(2), diverging=diverging)
    trace.attributes["sampling_time"] = 7500
    page = run(trace)
    assert page.found.measured is not None
    worst, least = page.found.measured.rhat.max(), page.found.measured.ess.min()
    assert page.tiles == [
        ("Acceptance", "0.80", ""),
        ("Worst R̂", f"{worst:.3f}", "at most 1.01"),
        ("Effective draws", f"{least:,.0f}", "the least; 200 wanted"),
        ("Divergences", "3", "of 2,000 trajectories"),
        ("Draws", "2,000", "2 chains × 1,000"),
        ("Time", "2.1 h", ""),
    ]


def test_acceptance_that_was_not_used_is_marked() -> None:
    assert run(trace_of(white_noise(), kernel=UNTESTED)).tiles[0] == ("Acceptance", "0.80", "if it were tested")
    never: dict[str, Any] = {"log_accept": -np.inf, "acceptance_rate": 0.0}
    assert run(trace_of(white_noise(), kernel=UNTESTED, **never)).tiles[0] == ("Acceptance", "0", "log α = −∞")
    unknown = trace_of(white_noise(), acceptance_rate=np.nan)
    assert run(unknown).tiles[0] == ("Acceptance", "–", "")


def test_runs_side_by_side_keep_their_own_numbers() -> None:
    first = trace_of(white_noise(2, 40, 3) / 3, PredictiveRegression(*regression_data()), acceptance_rate=0.7)
    second = trace_of(white_noise(3, 20, 3), PredictiveRegression(*regression_data()), acceptance_rate=0.6)
    third = trace_of(white_noise(4, 10))
    pages = [run(first, "first", True), run(second, "second", True), run(third, "third", True)]
    sampled, predicted = _comparison(pages)
    head, *others = zip(sampled.head, *sampled.rows, strict=True)
    assert head == ("run", "first", "second", "third")
    columns = {name: values for name, *values in others}
    assert columns["acceptance"] == ["0.70", "0.60", "0.80"]
    assert columns["draws"] == ["80", "60", "40"]
    assert columns["divergences"] == ["0", "0", "0"]
    assert columns["worst R̂"] == [page.tiles[1][1] for page in pages]
    assert predicted.head == ["run", "rmse"]
    scores = [pages[0].scores, pages[1].scores]
    assert all(one is not None for one in scores)
    assert predicted.rows[:2] == [
        [n, one.shown("rmse")] for n, one in zip(("first", "second"), scores, strict=True) if one
    ]
    assert predicted.rows[0][1] != predicted.rows[1][1]
    assert predicted.rows[2] == ["third", "–"]


@pytest.mark.parametrize(
    ("good", "said"),
    [
        ((True, True), "All of the 2 runs are trustworthy."),
        ((False, False), "None of the 2 runs is trustworthy."),
        ((True, False, False), "1 of 3 runs is trustworthy."),
        ((True, True, False), "2 of 3 runs are trustworthy."),
    ],
)
def test_how_many_runs_are_trustworthy(good: tuple[bool, ...], said: str) -> None:
    pages = {one: run(trace_of(white_noise(), kernel=None if one else UNTESTED)) for one in set(good)}
    assert _summary([pages[one] for one in good]) == said


def test_titles_and_commands_of_each_run(tmp_path: Path) -> None:
    trace = trace_of(white_noise(draws=20))
    texts = {"b": [("It was made so.", "make b")]}
    page = Page(ggmc.report.write({"a": trace, "b": trace}, tmp_path / "p.html", command=texts))
    assert "2 runs side by side" in page.text
    first, second = page.source.split('<details class="run">')[1:]
    assert "make b" not in first
    assert "make b" in second
    assert "Run “only”" in Page(ggmc.report.write({"only": trace}, tmp_path / "p.html")).text
    assert "Sampling report" in Page(ggmc.report.write(trace, tmp_path / "p.html")).text


def test_a_target_is_given_to_those_that_have_none(tmp_path: Path) -> None:
    own, other = Gaussian({"x": (2,)}), Gaussian({"x": (2,)})
    with_one, without = trace_of(white_noise(size=2), own), trace_of(white_noise(size=2))
    without.target = None
    without.attributes, without.warnings, without.remarks = {"seed": 3}, ["beware"], ["moved"]
    found = opened([with_one, without], other)
    assert list(found) == ["Run 1", "Run 2"]
    assert found["Run 1"] is with_one
    again = found["Run 2"]
    assert again.target is other
    assert (again.store, again.attributes, again.warnings, again.remarks) == (
        without.store, {"seed": 3}, ["beware"], ["moved"]
    )  # fmt: skip
    assert without.target is None
