"""The charts of a report: numbers in, SVG out. What they show is said in their captions, by `sections.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ggmc.report.drawing import INK, LINES, MUTED, POINTS, RULE, WIDTH, as_svg, colour_of, figure, spread
from ggmc.report.words import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GROUPS = 60  # of consecutive draws, whose quantiles a band shows


def lines(prefix: str, values: np.ndarray, label: str, *, window: int = 1, light: bool = False, ends: str = "") -> str:
    """A number of each draw, one line for each chain.

    Args:
        prefix: Of ids.
        values: [chains, draws]; where they are not finite, lines are broken.
        label: Of the vertical axis.
        window: Draws over which a running mean is taken.
        light: Whether the draws themselves are drawn too, in a light colour.
        ends: "unit" for an axis from 0 to 1.
    """
    chains, draws = values[:LINES].shape
    shown = [_running_mean(one, window) for one in np.where(np.isfinite(values[:LINES]), values[:LINES], np.nan)]
    points = spread(draws, max(60, POINTS // max(1, chains)))
    light = light and window > 1
    with figure() as drawn:
        axis = drawn.subplots()
        for number, one in enumerate(shown):
            width = 1.2 if chains <= 6 else 0.7
            name = f"{number}" if chains <= 6 else None
            marker = "." if draws < 3 else None
            if light:
                axis.plot(points + 1, values[number, points], color=colour_of(number), linewidth=0.6, alpha=0.22)
            axis.plot(points + 1, one[points], color=colour_of(number), linewidth=width, label=name, marker=marker)
        if ends == "unit":
            axis.set_ylim(-0.03, 1.03)
        axis.set(xlabel="draw", ylabel=label, xlim=(1, max(2, draws)))
        _quiet(axis)
        if 1 < chains <= 6:
            _legend(axis, "chain")
        return as_svg(drawn, prefix)


def band(prefix: str, values: np.ndarray, label: str, level: float) -> str:
    """A number of each draw of all chains: its median, and where 90 % of it lies, over groups of draws.

    Args:
        prefix: Of ids.
        values: [chains, draws]; what is not finite is left out.
        label: Of the vertical axis.
        level: Where a horizontal line is drawn.
    """
    draws = values.shape[1]
    places: list[float] = []
    found: list[np.ndarray] = []
    for some in np.array_split(np.arange(draws), min(GROUPS, max(1, draws // 5))):
        known = values[:, some][np.isfinite(values[:, some])]
        if known.size:
            places.append(float(some.mean()) + 1)
            found.append(np.quantile(known, [0.05, 0.5, 0.95]))
    low, middle, high = np.array(found).T
    with figure() as drawn:
        axis = drawn.subplots()
        axis.axhline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        axis.fill_between(places, low, high, color=colour_of(0), alpha=0.22, linewidth=0)
        axis.plot(places, middle, color=colour_of(0), marker="." if len(places) < 3 else None)
        axis.set(xlabel="draw", ylabel=label, xlim=(1, max(2, draws)))
        _quiet(axis)
        return as_svg(drawn, prefix)


def histogram(prefix: str, values: np.ndarray, label: str, *, level: float | None = None) -> str:
    """How often values occur.

    Args:
        prefix: Of ids.
        values: Finite numbers.
        label: Of the horizontal axis.
        level: Where a vertical line is drawn.
    """
    with figure() as drawn:
        axis = drawn.subplots()
        axis.hist(values, bins=min(40, max(8, int(np.sqrt(len(values))))), color=colour_of(0), alpha=0.75)
        if level is not None:
            axis.axvline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        axis.set(xlabel=label, ylabel="how many")
        _quiet(axis)
        return as_svg(drawn, prefix)


def ranks(prefix: str, names: Sequence[str], columns: Sequence[np.ndarray]) -> str:
    """Ranks of up to four numbers among all chains: of chains that agree, every rank is as frequent as any other.

    Args:
        prefix: Of ids.
        names: Of the numbers.
        columns: [chains, draws] each.
    """
    from scipy.stats import rankdata

    with figure(WIDTH, 1.55 * -(-len(names) // 2) + 0.3) as drawn:
        axes = drawn.subplots(-(-len(names) // 2), 2 if len(names) > 1 else 1, squeeze=False).ravel()
        for axis, name, column in zip(axes, names, columns, strict=False):
            bins = int(np.clip(column.size // 40, 5, 20))
            rank = rankdata(column).reshape(column.shape) / column.size
            for number, chain in enumerate(rank[:LINES]):
                height = np.histogram(chain, bins, (0, 1))[0] * bins / len(chain)
                axis.stairs(height, np.linspace(0, 1, bins + 1), color=colour_of(number), linewidth=1.2, baseline=None)
            axis.axhline(1, color=INK, linewidth=1, linestyle=(0, (2, 2)))
            axis.set_title(shortened(name, 24), parse_math=False)
            axis.set(xlim=(0, 1), xticks=[0, 0.5, 1], xlabel="rank / draws", ylim=(0, None))
            _quiet(axis)
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        return as_svg(drawn, prefix)


def intervals(
    prefix: str, names: Sequence[str], series: dict[str, np.ndarray], level: float, label: str = "temperature"
) -> str:
    """Means with their intervals, one row for each name.

    Args:
        prefix: Of ids.
        names: Of the rows, from the top.
        series: [rows, 3] each: mean, lower end, upper end.
        level: The value they should hold.
        label: Of the horizontal axis.
    """
    with figure(WIDTH, 0.9 + 0.28 * len(names) * max(1, len(series))) as drawn:
        axis = drawn.subplots()
        axis.axvline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        rows = np.arange(len(names))
        for number, (name, values) in enumerate(series.items()):
            place = rows + (number - (len(series) - 1) / 2) * 0.34
            mark = "os^D"[number % 4]
            known = np.isfinite(values[:, 0])
            axis.plot(values[known, 0], place[known], mark, color=colour_of(number), markersize=4.5, label=name)
            axis.hlines(place, values[:, 1], values[:, 2], color=colour_of(number), linewidth=2, alpha=0.8)
        axis.set_yticks(rows)
        axis.set_yticklabels([shortened(name, 22) for name in names], parse_math=False)
        axis.set(xlabel=label, ylim=(len(names) - 0.4, -0.6))
        _quiet(axis, grid="x")
        if len(series) > 1:
            _legend(axis)
        return as_svg(drawn, prefix)


def calibration(
    prefix: str, said: np.ndarray, seen: np.ndarray, half: np.ndarray | None, labels: tuple[str, str], low: float = 0.0
) -> str:
    """What was predicted against what came true; the diagonal is perfect.

    Args:
        prefix: Of ids.
        said: Probabilities or levels.
        seen: The shares that came true.
        half: [2, points], the distances to the ends of the intervals; None for none.
        labels: Of the horizontal and the vertical axis.
        low: Where the axes begin.
    """
    with figure(WIDTH, 3.4) as drawn:
        axis = drawn.subplots()
        axis.plot([low, 1], [low, 1], color=INK, linewidth=1, linestyle=(0, (2, 2)))
        if half is not None:
            axis.vlines(said, seen - half[0], seen + half[1], color=colour_of(0), alpha=0.45, linewidth=2.5)
        axis.plot(said, seen, "o-", color=colour_of(0), markersize=4.5, linewidth=1)
        axis.set(xlabel=labels[0], ylabel=labels[1], xlim=(low, 1.02), ylim=(min(low, float(seen.min())) - 0.02, 1.03))
        _quiet(axis)
        return as_svg(drawn, prefix)


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Over the draws around each, those that are not finite left out."""
    if window <= 1 or len(values) < 3:
        return values
    known = np.isfinite(values)
    kernel = np.ones(min(window, len(values)))
    sums = np.convolve(np.where(known, values, 0.0), kernel, "same")
    numbers = np.convolve(known.astype(float), kernel, "same")
    with np.errstate(invalid="ignore"):
        return np.where(numbers > 0, sums / numbers, np.nan)


def _quiet(axis: Axes, grid: str = "y") -> None:
    axis.grid(axis=grid, color=RULE, linewidth=0.6, alpha=0.5)  # pyright: ignore[reportArgumentType]
    axis.set_axisbelow(True)
    axis.tick_params(length=0, labelcolor=MUTED)


def _legend(axis: Axes, title: str | None = None) -> None:
    options = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "ncols": 7, "borderaxespad": 0.2}
    handles, labels = axis.get_legend_handles_labels()
    labels = [f"{title} {label}" if title and not number else label for number, label in enumerate(labels)]
    axis.legend(handles, labels, handlelength=1.2, columnspacing=1.2, handletextpad=0.5, **options)
