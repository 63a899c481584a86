"""Findings: what is measured of one run. Each is None where it is not known, and `problems` says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from ggmc.progress import wanted as bars_wanted
from ggmc.report.source import folder_of, folders_of
from ggmc.report.thinned import thinned
from ggmc.targets.base import PredictiveTarget
from ggmc.trace.diagnostics import check
from ggmc.trace.mixing import LEAST_DRAWS, Measured, measure
from ggmc.trace.trace import Trace

DRAWS = 2000  # per chain, by which mixing is judged; of more, evenly spread ones

Result = TypeVar("Result")


@dataclass
class Findings:
    """What is known of a run.

    Args:
        trace: The run.
        chains: How many.
        draws: Of each chain.
        asked: Draws of each chain that were asked for, where it is known.
        problems: What could not be read or computed, one sentence each.
        warnings: What the run's own diagnosis found, and this one.
        few: The trace with at most `DRAWS` draws per chain.
        every: It has every n-th draw.
        measured: R̂ and effective draws.
        judged_by: What was measured: "predictions", "stored predictions", "weights" or "parameters".
        acceptance: The mean acceptance of each chain, tested or not.
        no_way_back: Whether log α was −∞ throughout.
        divergences: How many trajectories diverged.
    """

    trace: Trace
    chains: int = 0
    draws: int = 0
    asked: int | None = None
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    few: Trace | None = None
    every: int = 1
    measured: Measured | None = None
    judged_by: str = "parameters"
    acceptance: np.ndarray | None = None
    no_way_back: bool = False
    divergences: int | None = None

    @property
    def mean_acceptance(self) -> float | None:
        """Over all chains."""
        return None if self.acceptance is None else float(np.nanmean(self.acceptance))

    @property
    def worst_rhat(self) -> float | None:
        """None where one of them is not known."""
        return None if self.measured is None else _finite(self.measured.rhat.max())

    @property
    def least_ess(self) -> float | None:
        """None where one of them is not known."""
        return None if self.measured is None else _finite(self.measured.ess.min())

    @property
    def unfinished(self) -> bool:
        """Whether draws are still to come, or were never made."""
        return self.asked is not None and self.draws < self.asked

    def attempt(self, what: str, function: Callable[[], Result]) -> Result | None:
        """The result of a function; None where it fails, which is noted.

        Args:
            what: What it makes, as the subject of a sentence in the plural.
            function: The function.
        """
        try:
            return function()
        except Exception as error:  # whatever it is, there shall be a page that says so
            self.problems.append(f"{what} could not be computed: {_one_line(error)}")
            return None

    def statistic(self, name: str) -> np.ndarray | None:
        """A statistic of all trajectories [chains, draws]; None where there is none, or it cannot be read."""
        if not self.draws:
            return None
        try:
            return self.trace.stats[name]
        except KeyError:
            return None
        except Exception as error:  # damaged chunks raise many kinds
            message = f"The statistic {name} could not be read: {_one_line(error)}"
            if message not in self.problems:
                self.problems.append(message)
            return None


def find(trace: Trace) -> Findings:
    """Everything that is measured of a run before its page is made.

    Args:
        trace: The run.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.report.findings import find
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> find(ggmc.sample(target, progress=False)).divergences
        0
    """
    found = Findings(trace, warnings=list(trace.warnings), judged_by=_judged_by(trace))
    store = folder_of(trace)
    if store is not None:
        asked = (store.settings["settings"] or {}).get("draws")
        found.asked = None if asked is None else asked // store.settings["thin"]
    try:
        found.chains, found.draws = trace.num_chains, trace.num_draws
    except Exception as error:  # an empty store, or one that cannot be read
        found.problems.append(f"There are no draws: {_one_line(error)}")
        return found
    if not found.draws:
        found.problems.append("There are no draws.")
        return found
    _trajectories(found)
    with bars_wanted(False):
        _mixing(found)
    return found


def _trajectories(found: Findings) -> None:
    diverging = found.statistic("diverging")
    found.divergences = None if diverging is None else int(diverging.sum())
    rates, log_accept = found.statistic("acceptance_rate"), found.statistic("log_accept")
    if rates is not None and np.isfinite(rates).any():
        finite = np.where(np.isfinite(rates), rates, 0.0).sum(1)
        with np.errstate(invalid="ignore"):
            found.acceptance = finite / np.isfinite(rates).sum(1)
    known = None if log_accept is None else log_accept[~np.isnan(log_accept)]
    found.no_way_back = known is not None and known.size > 0 and bool(np.isneginf(known).all())


def _mixing(found: Findings) -> None:
    few, found.every = thinned(found.trace, DRAWS)
    found.few = few
    if found.draws >= LEAST_DRAWS:
        found.measured = found.attempt("R̂ and effective draws", lambda: measure(few))
    if found.draws < LEAST_DRAWS or found.measured is not None:  # the run's own diagnosis may be older, or none
        own = found.attempt("Warnings", lambda: check(few, None, found.measured)) or []
        kinds = {_kind(warning) for warning in found.warnings}
        found.warnings += [warning for warning in own if _kind(warning) not in kinds]


def _judged_by(trace: Trace) -> str:
    if not trace.store.keeps_rows:
        return "stored predictions"
    if isinstance(trace.target, PredictiveTarget):
        return "predictions"
    kinds = {folder.settings["fingerprint"].get("kind") for folder in folders_of(trace.store)}
    return "weights" if trace.target is None and "Posterior" in kinds else "parameters"


def _kind(warning: str) -> str:
    """A warning without its numbers: the same one, of other draws, begins with the same words."""
    words = [word for word in warning.split() if not any(letter.isdigit() for letter in word)]
    return " ".join(words[:3])


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} …"
