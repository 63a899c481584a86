"""Deviations of five standard errors are allowed: a test fails by chance less than once in a million runs."""

from __future__ import annotations

import json
from pathlib import Path

from experiments import claims


def test_ways_back_and_tests_deferred(tmp_path: Path) -> None:
    folder = claims.main("tiny", tmp_path)
    assert {path.name for path in folder.iterdir()} == {"deferred.pdf", "deferred.png", "numbers.json"}
    numbers = json.loads((folder / "numbers.json").read_text())
    none = {name for name, found in numbers["way_back"].items() if not found["possible"]}
    assert none == {"SGHMC", "GGMC, cosine"}
    for name, found in numbers["way_back"].items():
        assert (found["log_alpha"] is None) == (name in none)  # −∞
    often, seldom = numbers["deferred"]
    assert often["acceptance"] > seldom["acceptance"] > 0.1
    for row in (often, seldom):
        assert abs(row["tested_bias"]) < 5 * row["tested_bias_error"]
    assert seldom["untested_bias"] > 5 * seldom["untested_bias_error"]
