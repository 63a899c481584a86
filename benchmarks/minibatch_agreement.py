"""Do minibatches give the right answer? Every order, and control variates, on German credit and a9a.

Run with `.venv/bin/python -m benchmarks.minibatch_agreement` (an hour or two, most of it on a9a). German
credit is compared with its published reference, a9a with a long run of ours with exact gradients, in float64 where the
minibatches have float32. Every mean must lie within 4 combined Monte Carlo errors. Step size and length are tuned
by themselves, but for two settings; the mass is the curvature at the mode for all.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announcing its next version
    import arviz

import ggmc
from benchmarks.logistic import a9a, german, logistic_regression
from benchmarks.posteriors import german_credit

WORST_ERROR = 4.0


class Reference(NamedTuple):
    """Means, and how far off they may be."""

    mean: np.ndarray
    error: np.ndarray


class Setting(NamedTuple):
    """A guide, and what is not left to warm-up."""

    guide: Any
    steps: int | tuple[int, int] | None = None
    target_accept: float | None = None


def settings(num_data: int) -> list[Setting]:
    """Every order in batches it can bear, and control variates of every curvature.

    Two of them need a hand. With independent batches the error grows with every step, so that tuning settles on very
    short trajectories; longer ones are no worse per gradient, need fewer of the tests, and like a random walk go
    farthest at a low acceptance. A diagonal curvature is far from the truth where features are collinear: steps are
    then short, and many of them are needed to get anywhere.
    """
    tenth = num_data // 10
    return [
        Setting(ggmc.Minibatch(num_data // 2, "iid"), 24, 0.35),
        Setting(ggmc.Minibatch(num_data // 4, "epoch")),
        Setting(ggmc.Minibatch(tenth, "palindrome")),
        Setting(ggmc.ControlVariate(tenth, "iid", "dense")),
        Setting(ggmc.ControlVariate(tenth, "epoch", "dense")),
        Setting(ggmc.ControlVariate(tenth, "palindrome", "none")),
        Setting(ggmc.ControlVariate(num_data // 2, "palindrome", "diagonal"), (40, 70), 0.7),
        Setting(ggmc.ControlVariate(tenth, "palindrome", "dense")),
    ]


def errors(trace: ggmc.Trace) -> np.ndarray:
    """Monte Carlo errors of the means."""
    return np.array([float(arviz.mcse(trace["theta"][..., i])) for i in range(trace["theta"].shape[-1])])


def compare(name: str, target: ggmc.DataDensity, mass: Any, reference: Reference, draws: int, only: str) -> int:
    """One line per guide; the number of those that disagree."""
    print(f"\n{name}: worst of {len(reference.mean)} means, in combined Monte Carlo errors\n")
    print(f"{'':44}{'error':>8}{'R̂':>8}{'ESS':>8}{'acceptance':>12}{'steps':>14}{'seconds':>9}")
    wrong = 0
    for guide, steps, target_accept in settings(target.num_data):
        if only not in str(guide):
            continue
        begun = time.perf_counter()
        kernel = ggmc.GGMC(guide=guide, mass=mass, steps=steps)
        trace = ggmc.sample(target, kernel, draws, 300, target_accept=target_accept, progress=False)
        columns = [trace["theta"][..., i] for i in range(len(reference.mean))]
        worst = np.max(np.abs(trace["theta"].mean((0, 1)) - reference.mean) / np.hypot(errors(trace), reference.error))
        rhat = max(float(arviz.rhat(column)) for column in columns)
        ess = min(float(arviz.ess(column)) for column in columns)
        curvature = f", {guide.curvature}" if isinstance(guide, ggmc.ControlVariate) else ""
        label = f"{type(guide).__name__}({guide.size}, {guide.order}{curvature})"
        rate, lengths = trace.stats["acceptance_rate"].mean(), trace.stats["n_steps"]
        print(
            f"{label:44}{worst:8.2f}{rhat:8.3f}{ess:8.0f}{rate:12.2f}{f'{lengths.min()} to {lengths.max()}':>14}"
            f"{time.perf_counter() - begun:9.0f}  {'' if worst < WORST_ERROR else 'NOT GOOD'}",
            flush=True,
        )
        wrong += not worst < WORST_ERROR
    return wrong


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", default="", help="the guides whose settings contain this text")
    parser.add_argument("names", nargs="*", default=["german", "a9a"])
    options = parser.parse_args()
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    wrong = 0
    for name in options.names:
        data = german() if name == "german" else a9a()
        target = logistic_regression(*data)
        anchored = ggmc.ControlVariate(target.num_data, curvature="dense").bind(target)
        mass = anchored.mass()
        if name == "german":
            known = german_credit()
            reference = Reference(known.mean, known.mean_error)
        else:
            kernel = ggmc.GGMC(scheme="O(BAB)O", mass=mass)
            exact = ggmc.sample(target, kernel, 2 * options.draws, 300, progress=False)
            reference = Reference(exact["theta"].mean((0, 1)), errors(exact))
            target = logistic_regression(*data, dtype=torch.float32)  # minibatches are a matter of bandwidth
        wrong += compare(name, target, mass, reference, options.draws, options.only)
    print(f"\n{'All' if not wrong else 'NOT ALL'} within {WORST_ERROR:g} Monte Carlo errors.")


if __name__ == "__main__":
    main()
