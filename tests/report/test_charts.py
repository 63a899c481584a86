"""What is drawn, by the numbers that matplotlib is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from ggmc.report import charts
from ggmc.report.drawing import LINES, spread
from tests.support.traces import white_noise


@pytest.fixture(autouse=True)
def _figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts return their figures, before they become SVG."""
    monkeypatch.setattr(charts, "as_svg", lambda drawn, prefix: drawn)


def axes(figure: Any) -> Any:
    return figure.axes[0]


def segments(axis: Any) -> list[np.ndarray]:
    """The vertical or horizontal lines that were drawn together, [lines, 2 ends, x and y] each time."""
    return [np.array(drawn.get_segments()) for drawn in axis.collections if isinstance(drawn, LineCollection)]


def test_points_are_spread_evenly_over_all() -> None:
    assert spread(101, 5).tolist() == [0, 25, 50, 75, 100]
    assert spread(3, 10).tolist() == [0, 1, 2]
    assert spread(1, 10).tolist() == [0]
    assert spread(0, 10).tolist() == []


def test_lines_are_the_chains_from_the_first_draw_to_the_last() -> None:
    values = white_noise(3, 10)[..., 0]
    values[1, 4] = np.inf
    axis: Any = axes(charts.lines("p", values, "acceptance", ends="unit"))
    assert len(axis.lines) == 3
    for line, one in zip(axis.lines, values, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 11))
        np.testing.assert_array_equal(line.get_ydata(), np.where(np.isfinite(one), one, np.nan))
    assert axis.get_xlim() == (1, 10)
    assert axis.get_ylim() == (-0.03, 1.03)
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("draw", "acceptance")
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["chain 0", "1", "2"]


def test_a_running_mean_has_the_draws_around_each() -> None:
    values = np.array([[1.0, np.nan, 3.0, 5.0, 7.0]])
    light, mean = axes(charts.lines("p", values, "U", window=3, light=True)).lines
    np.testing.assert_array_equal(light.get_ydata(), values[0])
    np.testing.assert_allclose(mean.get_ydata(), [1, 2, 4, 5, 6])
    (whole,) = axes(charts.lines("p", values[:, 2:], "U", window=50)).lines
    assert len(whole.get_ydata()) == 3
    np.testing.assert_allclose(charts._running_mean(np.full(4, np.nan), 3), np.nan)


def test_more_chains_than_fit_are_drawn_in_part() -> None:
    axis: Any = axes(charts.lines("p", white_noise(LINES + 6, 4)[..., 0], "U"))
    assert len(axis.lines) == LINES
    assert axis.get_legend() is None


def test_a_band_holds_nine_tenths_of_each_group_of_draws() -> None:
    values = np.arange(40.0).reshape(2, 20) ** 2
    values[0, 3] = -np.inf
    axis: Any = axes(charts.band("p", values, "log α", 0.0))
    level, middle = axis.lines
    assert set(level.get_ydata()) == {0.0}
    np.testing.assert_allclose(middle.get_xdata(), [3, 8, 13, 18])  # the middles of four groups of five, from 1
    groups = [values[:, i : i + 5][np.isfinite(values[:, i : i + 5])] for i in (0, 5, 10, 15)]
    np.testing.assert_allclose(middle.get_ydata(), [np.median(group) for group in groups])
    (filled,) = axis.collections
    corners = filled.get_paths()[0].vertices
    for place, group in zip((3, 8, 13, 18), groups, strict=True):
        ends = np.unique(corners[corners[:, 0] == place, 1])
        np.testing.assert_allclose([ends.min(), ends.max()], np.quantile(group, [0.05, 0.95]))


def test_a_histogram_counts() -> None:
    values = np.repeat([1.0, 2.0], [30, 70])
    axis: Any = axes(charts.histogram("p", values, "R̂", level=1.01))
    heights = [bar.get_height() for bar in axis.patches]
    assert (len(heights), heights[0], heights[-1], sum(heights)) == (10, 30, 70, 100)
    assert set(axis.lines[0].get_xdata()) == {1.01}


def test_ranks_are_among_all_chains() -> None:
    """Of two chains, one above the other: the first has all low ranks, the second all high ones."""
    column = np.stack([np.arange(100.0), 200 + np.arange(100.0)])
    figure: Any = charts.ranks("p", ["x", "y", "z"], [column, column[::-1], white_noise(2, 100)[..., 0]])
    for axis, rows in zip(figure.axes[:2], ((0, 1), (1, 0)), strict=True):
        heights = [axis.patches[row].get_data().values for row in rows]
        np.testing.assert_allclose(heights[0], [2, 2, 1, 0, 0], atol=0.11)  # 200 ranks in five bins
        np.testing.assert_allclose(heights[1], [0, 0, 1, 2, 2], atol=0.11)
        assert set(axis.lines[0].get_ydata()) == {1}
    assert [axis.get_title(loc="left") for axis in figure.axes[:3]] == ["x", "y", "z"]
    assert [axis.get_visible() for axis in figure.axes] == [True, True, True, False]


def test_intervals_stand_at_their_names_from_the_top() -> None:
    kinetic, other = np.array([[1.0, 0.9, 1.1], [2.0, 1.5, 3.0]]), np.array([[1.2, 1.0, 1.3], [np.nan, 0.5, 0.7]])
    axis: Any = axes(charts.intervals("p", ["all", "w"], {"kinetic": kinetic, "configurational": other}, 1.5))
    level, first, second = axis.lines
    assert set(level.get_xdata()) == {1.5}
    np.testing.assert_array_equal(first.get_xdata(), [1.0, 2.0])
    np.testing.assert_allclose(first.get_ydata(), [-0.17, 0.83])
    np.testing.assert_array_equal(second.get_xdata(), [1.2])
    np.testing.assert_allclose(second.get_ydata(), [0.17])
    for drawn, given in zip(segments(axis), (kinetic, other), strict=True):
        np.testing.assert_allclose(drawn[:, :, 0], given[:, 1:])
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["all", "w"]
    assert axis.get_ylim()[0] > axis.get_ylim()[1]


def test_calibration_shows_what_was_said_against_what_was_seen() -> None:
    said, seen = np.array([0.5, 0.9]), np.array([0.4, 0.7])
    ends = np.array([[0.1, 0.2], [0.05, 0.15]])
    axis: Any = axes(charts.calibration("p", said, seen, ends, ("confidence", "share right")))
    diagonal, line = axis.lines
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0.0, 1]
    np.testing.assert_array_equal(line.get_xdata(), said)
    np.testing.assert_array_equal(line.get_ydata(), seen)
    (bars,) = segments(axis)
    np.testing.assert_allclose(bars[:, 0], np.stack([said, seen - ends[0]], 1))
    np.testing.assert_allclose(bars[:, 1], np.stack([said, seen + ends[1]], 1))
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("confidence", "share right")
