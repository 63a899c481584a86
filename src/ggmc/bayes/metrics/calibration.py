"""Calibration: are predictions made with 80% confidence right 80% of the time?"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from ggmc.bayes.metrics.arguments import Values, as_classification
from ggmc.errors import require_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Reliability(NamedTuple):
    """What `reliability` finds in each bin of confidence.

    Args:
        confidence: The mean confidence, [bins]; NaN where the bin is empty.
        accuracy: The share of right predictions, [bins]; NaN where the bin is empty.
        count: The number of examples, [bins].

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.reliability([[0.9, 0.1], [0.4, 0.6]], [0, 1], bins=4).count
        array([0, 0, 1, 1])
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray  # pyright: ignore[reportIncompatibleMethodOverride]


def reliability(probabilities: Values, labels: Values, bins: int = 15) -> Reliability:
    """How often the most probable class is right, by the probability it was given.

    Args:
        probabilities: [examples, classes], summing to one over classes.
        labels: The true classes, whole numbers [examples].
        bins: How many equal parts (0, 1] is divided into, each with its upper end. Default 15.

    Example:
        >>> from ggmc.bayes import metrics
        >>> metrics.reliability([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=2)
        Reliability(confidence=array([       nan, 0.76666667]), accuracy=array([       nan, 0.66666667]),
                    count=array([0, 3]))
    """
    require_count("bins", bins)
    probabilities, labels = as_classification(probabilities, labels)
    top = probabilities.max(-1)
    which = np.digitize(top, np.linspace(0, 1, bins + 1)[1:-1], right=True)
    count = np.bincount(which, minlength=bins)
    right = np.bincount(which, probabilities.argmax(-1) == labels, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(np.bincount(which, top, minlength=bins) / count, right / count, count)


def ece(probabilities: Values, labels: Values, bins: int = 15) -> float:
    """Expected calibration error: |accuracy − confidence| of each bin of `reliability`, weighted by its examples.

    Args:
        probabilities: [examples, classes], summing to one over classes.
        labels: The true classes, whole numbers [examples].
        bins: The number of bins. Default 15.

    Example:
        >>> from ggmc.bayes import metrics
        >>> round(metrics.ece([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], [0, 1, 1], bins=2), 4)
        0.1
    """
    table = reliability(probabilities, labels, bins)
    gaps = np.abs(table.accuracy - table.confidence) * table.count
    return float(np.nansum(gaps) / table.count.sum())


def plot_reliability(
    probabilities: Values, labels: Values, axis: Axes | None = None, label: str | None = None, bins: int = 15
) -> Axes:
    """Draw a reliability diagram, with the number of examples per bin below it, and return its axis.

    Points below the diagonal are overconfident. Bars are 95% Wilson intervals of the accuracy. Needs matplotlib
    (`pip install ggmc[demo]`).

    Args:
        probabilities: [examples, classes], summing to one over classes.
        labels: The true classes, whole numbers [examples].
        axis: Where to draw, for example the axis of an earlier call, to compare. A figure of your own should have
            `layout="constrained"`, to leave room for the counts. Default: a new figure.
        label: A name for the legend, beside the ECE.
        bins: The number of bins. Default 15.

    Example:
        >>> import matplotlib; matplotlib.use("Agg")
        >>> import torch
        >>> from ggmc.bayes import metrics
        >>> probabilities = torch.rand(500, 3).softmax(-1)
        >>> axis = metrics.plot_reliability(probabilities, torch.randint(3, (500,)), label="SGLD")
        >>> axis.get_ylabel()
        'accuracy'
    """
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plot_reliability needs matplotlib: pip install ggmc[demo]") from error
    table = reliability(probabilities, labels, bins)
    if axis is None:
        axis = plt.subplots(figsize=(4.6, 5.6), layout="constrained")[1]
    below = _counts_below(axis)
    filled = table.count > 0
    confidence, hits, count = (part[filled] for part in table)
    centre = (hits + 1.96**2 / (2 * count)) / (1 + 1.96**2 / count)
    half = 1.96 / (1 + 1.96**2 / count) * np.sqrt(hits * (1 - hits) / count + (1.96 / (2 * count)) ** 2)
    error = f"ECE {ece(probabilities, labels, bins):.3f}"
    (line,) = axis.plot(
        confidence, hits, "o-", markersize=5, clip_on=False, label=f"{label}: {error}" if label else error
    )
    axis.vlines(confidence, centre - half, centre + half, color=line.get_color(), alpha=0.4, linewidth=2)
    edges = np.linspace(0, 1, bins + 1)
    below.stairs(table.count, edges, fill=True, color=line.get_color(), alpha=0.3)
    below.stairs(table.count, edges, color=line.get_color())
    below.set_ylim(0.7, max(below.get_ylim()[1], 1.5 * table.count.max()))  # a single example still shows
    axis.legend(frameon=False, loc="upper left")
    return axis


def _counts_below(axis: Axes) -> Axes:
    """The panel of counts below a diagram; created, along with what all diagrams share, at the first call."""
    name = "examples per bin"
    for child in axis.child_axes:
        if child.get_label() == name:
            return cast("Axes", child)
    below = axis.inset_axes((0, -0.28, 1, 0.25), sharex=axis, label=name)
    axis.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle=":", zorder=0)
    axis.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    axis.tick_params(labelbottom=False)
    below.set(xlabel="confidence", ylabel="examples", yscale="log")
    for panel in (axis, below):
        panel.spines[["top", "right"]].set_visible(False)
    return below
