"""Deviations of five standard errors are allowed: a test fails by chance less than once in a million runs."""

from __future__ import annotations

import json
from pathlib import Path

from experiments import relabelling


def test_alpha_tells_how_wrong_sghmc_is(tmp_path: Path) -> None:
    folder = relabelling.main("tiny", tmp_path)
    assert {path.name for path in folder.iterdir()} == {"relabelling.pdf", "relabelling.png", "numbers.json"}
    numbers = json.loads((folder / "numbers.json").read_text())
    for name in relabelling.CASES:
        assert numbers[name]["largest_difference"] < 1e-13
        assert numbers[name]["sghmc_log_alpha_all_minus_infinity"]
        lowest, highest = numbers[name]["amagold_log_alpha_range"]
        assert -100 < lowest < 0 < highest < 100
    long, short = numbers["minibatches"]["rows"]
    assert long["sghmc_bias"] > 5 * long["sghmc_bias_error"]
    assert long["sghmc_bias"] > short["sghmc_bias"]
    assert short["alpha"] - long["alpha"] > 5 * (long["alpha_error"] + short["alpha_error"])
    assert abs(long["tested_bias"]) < 5 * long["tested_bias_error"]
    for row in numbers["exact gradients"]["rows"]:
        assert row["alpha"] > 0.97
        assert abs(row["sghmc_bias"]) < 5 * row["sghmc_bias_error"]
