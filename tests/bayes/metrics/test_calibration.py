"""Calibration against values worked out by hand."""

from __future__ import annotations

import builtins
from typing import Any

import matplotlib
import numpy as np
import pytest
import scipy.special
import scipy.stats

from ggmc.bayes import metrics

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def test_reliability_by_hand() -> None:
    top = np.array([0.9, 0.95, 0.75, 0.7, 0.55])
    probabilities = np.stack([top, 1 - top], -1)
    table = metrics.reliability(probabilities, [0, 1, 0, 0, 1], bins=5)
    np.testing.assert_array_equal(table.count, [0, 0, 1, 2, 2])
    np.testing.assert_allclose(table.confidence, [np.nan, np.nan, 0.55, 0.725, 0.925])
    np.testing.assert_allclose(table.accuracy, [np.nan, np.nan, 0.0, 1.0, 0.5])
    expected = (0.55 + 2 * 0.275 + 2 * 0.425) / 5
    assert metrics.ece(probabilities, [0, 1, 0, 0, 1], bins=5) == pytest.approx(expected)


def test_a_bin_has_its_upper_end() -> None:
    table = metrics.reliability([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]], [0, 0, 0], bins=4)
    assert table.count.tolist() == [0, 1, 1, 1]


def test_one_bin_is_the_overall_gap(many) -> None:
    probabilities, labels = many
    gap = abs(metrics.accuracy(probabilities, labels) - probabilities.max(-1).mean())
    assert metrics.ece(probabilities, labels, bins=1) == pytest.approx(gap)
    assert metrics.reliability(probabilities, labels).count.sum() == len(labels)
    assert metrics.ece(probabilities, labels) >= gap  # the triangle inequality
    assert gap > 0.1  # the labels are from flatter probabilities


def test_plot_shows_the_table_and_the_counts(many) -> None:
    probabilities, labels = many
    axis: Any = metrics.plot_reliability(probabilities, labels, label="chains", bins=10)
    again = metrics.plot_reliability((probabilities + 0.25) / 2, labels, axis=axis)
    axis.figure.canvas.draw()
    assert again is axis
    table = metrics.reliability(probabilities, labels, bins=10)
    lines = [line for line in axis.get_lines() if line.get_marker() == "o"]
    filled = table.count > 0
    np.testing.assert_allclose(lines[0].get_xydata(), np.stack([table.confidence, table.accuracy], -1)[filled])
    (below,) = axis.child_axes
    np.testing.assert_array_equal(below.patches[0].get_data().values, table.count)
    assert below.get_ylim()[1] > table.count.max()
    texts = [text.get_text() for text in axis.get_legend().get_texts()]
    first, second = metrics.ece(probabilities, labels, 10), metrics.ece((probabilities + 0.25) / 2, labels)
    assert texts == [f"chains: ECE {first:.3f}", f"ECE {second:.3f}"]
    interval = axis.collections[0].get_segments()[-1][:, 1]
    hits, count = round(table.accuracy[-1] * table.count[-1]), int(table.count[-1])
    wilson = scipy.stats.binomtest(hits, count).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(interval, [wilson.low, wilson.high], atol=1e-4)
    plt.close(axis.figure)


def test_plot_says_what_it_needs(many, monkeypatch) -> None:
    real = builtins.__import__

    def without(name, *args):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install ggmc\[demo\]"):
        metrics.plot_reliability(*many)


def test_ece_by_hand_with_the_default_bins() -> None:
    # Fifteen bins: 0.9 and 0.92 share (13/15, 14/15], 0.6 has (8/15, 9/15] to itself.
    probabilities = [[0.9, 0.1], [0.08, 0.92], [0.6, 0.4]]
    table = metrics.reliability(probabilities, [0, 0, 1])
    assert len(table.count) == 15
    assert table.count[[8, 13]].tolist() == [1, 2]
    assert metrics.ece(probabilities, [0, 0, 1]) == pytest.approx((2 * abs(0.5 - 0.91) + 0.6) / 3)
