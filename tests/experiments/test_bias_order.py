"""Sampled orders may deviate by five standard errors, which happens by chance less than once in a million runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import ggmc
from experiments import bias_order
from experiments.estimates import Estimate, slope
from experiments.quartic import bias_from_alpha, mean_of_square, quartic


def test_biases_have_the_orders_expected(tmp_path: Path) -> None:
    folder = bias_order.main("tiny", tmp_path)
    assert {path.name for path in folder.iterdir()} == {"bias_order.pdf", "bias_order.png", "numbers.json"}
    numbers = json.loads((folder / "numbers.json").read_text())
    for family in ("θ, exact", "m, exact", "θ, noisy", "m, noisy"):
        for name, expected in numbers["expected"][family].items():
            found = numbers["slope_and_error"][family][name]
            if name == "SGNHT":
                continue
            if expected == 0:
                assert found is None
            else:
                assert abs(found[0] - expected) < 0.2, (family, name)
    for name in ("OABAO", "ABOBA", "O(ABA)O", "AMAGOLD"):
        order, error = numbers["slope_and_error"]["quartic"][name]
        assert error < 0.3
        assert abs(order - 2) < 5 * error
    noisy = {name: numbers["bias_and_error"]["m, noisy"][name][0] for name in ("SGNHT", "OBABO")}
    assert abs(noisy["SGNHT"][0]) + 5 * noisy["SGNHT"][1] < noisy["OBABO"][0] / 2


def test_alpha_gives_the_bias_that_plain_means_show() -> None:
    kernel = ggmc.AMAGOLD(1 / 3, 1.0, 3, adjust=False)
    bias, mean_alpha = bias_from_alpha(kernel, quartic(), 20_000, 8, seed=0)
    plain, _ = mean_of_square(kernel, quartic(), 5_000, 30, seed=1)
    assert plain.mean < -5 * plain.error
    assert abs(bias.mean - plain.mean) < 5 * (bias.error**2 + plain.error**2) ** 0.5
    assert abs(mean_alpha.mean - 1) < 5 * mean_alpha.error


def test_slopes_ignore_what_is_noise() -> None:
    assert slope([0.1, 0.2], [Estimate(0.1, 0.0), Estimate(0.4, 0.0)]) == Estimate(pytest.approx(2.0), 0.0)  # pyright: ignore[reportArgumentType]
    assert slope([0.1, 0.2], [Estimate(0.1, 0.06), Estimate(0.4, 0.06)]) is None
    fitted = slope([0.1, 0.2, 0.4], [Estimate(0.1, 0.01), Estimate(0.2, 0.02), Estimate(0.4, 0.04)])
    assert fitted is not None
    torch.testing.assert_close(fitted.mean, 1.0)
    assert 0.09 < fitted.error < 0.11
