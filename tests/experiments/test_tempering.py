from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments import tempering


@pytest.mark.slow
def test_sixty_images_and_a_standard_normal_prior_are_better_when_cold(tmp_path: Path) -> None:
    """Differences must be larger than both 95 % intervals together, and than five errors of the test images."""
    folder = tempering.main("tiny", tmp_path)
    assert {path.name for path in folder.iterdir()} == {"tempering.pdf", "tempering.png", "numbers.json"}
    numbers = json.loads((folder / "numbers.json").read_text())
    assert numbers["temperatures"] == [0.1, 1.0, 3.0]
    cold, bayes, hot = numbers["rows"]
    for better, worse, difference in ((cold, bayes, -1), (bayes, hot, 1)):
        other = cold if difference < 0 else hot
        gain = worse["nll"]["value"] - better["nll"]["value"]
        assert gain > worse["nll"]["half_width"] + better["nll"]["half_width"]
        assert difference * other["nll_less_bayes"]["value"] > 5 * other["nll_less_bayes"]["error_of_test_images"]
    for row in numbers["rows"]:
        assert row["acceptance"] > 0.5
        assert row["r_hat_median"] < 1.3


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    shares = np.random.default_rng(0).uniform(size=(8, 1, 1))
    found = tempering.with_interval(lambda probabilities, labels: float(probabilities.mean()), shares, np.zeros(1))
    error = shares.std(ddof=1) / 8**0.5
    np.testing.assert_allclose(found["half_width"], error * 2.3646, rtol=1e-4)
