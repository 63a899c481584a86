"""Scores and calibration on test data, with the Monte Carlo error of each score."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from ggmc.bayes import metrics
from ggmc.bayes.data_checks import as_tensor
from ggmc.bayes.predict import Prediction
from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.progress import wanted as bars_wanted
from ggmc.report import charts
from ggmc.report.findings import Findings
from ggmc.report.parts import Picture, Section, Table
from ggmc.report.thinned import thinned
from ggmc.report.words import number
from ggmc.targets.base import PredictiveTarget

DRAWS = 400  # of all chains together, by which is predicted
GROUPS = 8  # of chains, that are left out in turn

MEANING = {
    "accuracy": "share of examples whose most probable class is right",
    "nll": "negative log probability of the truth, in nats; less is better",
    "brier": "squared distance to the truth; 0 is best, 2 worst",
    "ece": "expected calibration error; 0 is best",
    "lppd": "log predictive density of an example; more is better",
    "rmse": "root of the mean squared error",
    "coverage": "share of outcomes within their 90 % intervals; 0.9 is right",
}


@dataclass
class Scores:
    """Scores of a run on test data.

    Args:
        values: By name.
        errors: Two Monte Carlo standard errors of each; none where there is one chain.
        prediction: What is predicted for the test inputs, if in the library's form.
        draws: How many draws predicted.
    """

    values: dict[str, float]
    errors: dict[str, float] = field(default_factory=dict)
    prediction: Prediction | None = None
    draws: int = 0

    def shown(self, name: str) -> str:
        """A score with its error, as text."""
        if name not in self.values:
            return "–"
        error = self.errors.get(name)
        if error == 0:
            return f"{self.values[name]:.4g}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0".replace("-", "−")
        value = f"{self.values[name]:.4g}" if error is None else f"{self.values[name]:.{_places(error)}f}"
        return (
            value if error is None else f"{value}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{error:.{_places(error)}f}"
        ).replace("-", "−")


def scores(found: Findings, x: Tree, y: Tree) -> Scores | None:
    """Scores of the mixture over draws; None where there are none to have.

    The error of a score comes from leaving out one chain at a time (the jackknife): it is that of a finite number of
    draws, not that of a finite number of test examples.

    Args:
        found: The run.
        x: Test inputs.
        y: Their outcomes.
    """
    target = found.trace.target
    if not found.draws or not found.trace.store.keeps_rows:
        return None
    if not isinstance(target, PredictiveTarget):
        raise BadInput("scores need the target, one that predicts, such as ggmc.Posterior: give target=...")
    few, _ = thinned(found.trace, max(10, DRAWS // found.chains))
    rows = few.rows()
    with bars_wanted(False):
        values = target.score(rows.flatten(0, 1), x, y)
        predicted = target.predict(rows.flatten(0, 1), x)
        groups = np.array_split(np.arange(found.chains), min(found.chains, GROUPS))
        without = [
            target.score(rows[torch.from_numpy(np.setdiff1d(np.arange(found.chains), group))].flatten(0, 1), x, y)
            for group in (groups if found.chains > 1 else [])
        ]
    errors: dict[str, float] = {}
    for name in values if without else ():
        left = np.array([one[name] for one in without])
        if np.isfinite(left).all():
            errors[name] = 2 * float(np.sqrt((len(left) - 1) / len(left) * ((left - left.mean()) ** 2).sum()))
    prediction = predicted if isinstance(predicted, Prediction) else None
    return Scores(values, errors, prediction, rows.shape[0] * rows.shape[1])


def section(found: Findings, known: Scores | None, y: Tree, prefix: str) -> Section:
    """The section of scores and calibration.

    Args:
        found: The run.
        known: Its scores.
        y: The test outcomes.
        prefix: Of ids.
    """
    part = Section("scores", "Predictions on test data")
    if known is None:
        why = "There are no draws yet." if not found.draws else "The run kept predictions only, and no weights."
        part.paragraphs.append(f"Test data cannot be scored. {why}")
        return part
    outcomes = np.asarray(as_tensor(y).detach().cpu())
    part.paragraphs.append(f"{len(outcomes):,} test examples, predicted by the mixture of {known.draws:,} draws.")
    rows = [[name, known.shown(name), MEANING.get(name, "")] for name in known.values]
    caption = "Scores."
    if known.errors:
        caption = "Scores, ± two Monte Carlo standard errors, from leaving out one chain at a time."
    part.tables.append(Table(caption, ["score", "value", "meaning"], rows, numbers=False))
    picture = found.attempt("The calibration diagram", lambda: _diagram(known, outcomes, prefix))
    part.pictures += [] if picture is None else [picture]
    return part


def _diagram(known: Scores, outcomes: np.ndarray, prefix: str) -> Picture | None:
    prediction = known.prediction
    if prediction is None:
        return None
    if prediction.probabilities is not None:
        return _reliability(prediction.probabilities, outcomes, prefix) if prediction.probabilities.ndim == 2 else None
    if prediction.outcomes is None:
        return None
    outcomes = outcomes.reshape(prediction.mean.shape)
    levels = np.linspace(0.1, 0.9, 9)
    seen = np.array([metrics.coverage(*prediction.interval(level), outcomes) for level in levels])
    caption = (
        f"Of the outcomes, {seen[-1]:.0%} lie within their 90 % intervals and {seen[4]:.0%} within their 50 % ones. "
    )
    caption += _leaning(seen[-1], 0.9, outcomes.size, "Intervals are too narrow.", "Intervals are too wide.")
    svg = charts.calibration(f"{prefix}-calibration", levels, seen, None, ("level of the interval", "share within"))
    return Picture(svg, "Share of outcomes within their intervals, by the intervals' level", caption)


def _reliability(probabilities: np.ndarray, outcomes: np.ndarray, prefix: str) -> Picture:
    labels = outcomes.reshape(-1).astype(np.int64)
    table = metrics.reliability(probabilities, labels, bins=10)
    filled = table.count > 0
    said, seen, counts = table.confidence[filled], table.accuracy[filled], table.count[filled]
    centre = (seen + 1.96**2 / (2 * counts)) / (1 + 1.96**2 / counts)  # Wilson's interval
    half = 1.96 / (1 + 1.96**2 / counts) * np.sqrt(seen * (1 - seen) / counts + (1.96 / (2 * counts)) ** 2)
    ends = np.stack([seen - centre + half, centre + half - seen])
    confidence, right = float((said * counts).sum() / counts.sum()), float((seen * counts).sum() / counts.sum())
    caption = f"The mean confidence is {number(confidence, 3)}, and {number(right, 3)} of the answers are right. "
    caption += _leaning(right, confidence, len(labels), "It is overconfident.", "It is underconfident.")
    caption += " Bars are 95 % intervals for the test examples of each bin."
    names = ("confidence", "share right")
    svg = charts.calibration(f"{prefix}-calibration", said, seen, ends, names)
    return Picture(
        svg, "Reliability diagram: share of right answers by confidence; the dashed line is perfect", caption
    )


def _leaning(seen: float, said: float, examples: int, below: str, above: str) -> str:
    """Which way a share differs from what was said of it, beside its own standard error."""
    if abs(seen - said) <= 2 * np.sqrt(max(said * (1 - said), 1e-12) / examples):
        return "That fits, as far as so many examples can tell."
    return below if seen < said else above


def _places(error: float) -> int:
    """Decimals, such that the error has two digits."""
    return 4 if error <= 0 or not np.isfinite(error) else int(np.clip(1 - np.floor(np.log10(error)), 0, 4))
