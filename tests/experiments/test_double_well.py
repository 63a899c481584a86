from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import double_well


@pytest.mark.slow
def test_sghmc_drifts_and_tested_kernels_do_not(tmp_path: Path) -> None:
    """Twenty sets of exact draws have distances around 0.027, with a standard deviation of 0.004."""
    folder = double_well.main("tiny", tmp_path)
    assert {path.name for path in folder.iterdir()} == {"double_well.pdf", "double_well.png", "numbers.json"}
    numbers = json.loads((folder / "numbers.json").read_text())
    largest = numbers["exact_draws"]["range_of_20"][1]
    runs = numbers["runs"]
    for name in ("SGHMC", "AMAGOLD without its test"):
        short, long = runs[name]["total_variation"]
        assert long > 3 * largest
        assert long > 3 * short
    for name in ("AMAGOLD", "GGMC, palindromes"):
        assert max(runs[name]["total_variation"]) < 1.5 * largest
        assert 0.2 < runs[name]["acceptance"][1] < runs[name]["acceptance"][0] < 1
    assert runs["SGHMC"]["acceptance"] == [None, None]
