"""Time travelled per gradient × acceptance of words with several stages, over leapfrog's, each at its best step size.

Run with `OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.stages` (some minutes on one core). Gradients are
counted, not seconds. Trajectories start at equilibrium with fresh momenta: of the Gaussians, from exact draws; of the
logistic regression, N = 2,000 and d = 50, whitened by its curvature, from a run of HMC. With full gradients they travel
for a fixed time, a quarter turn of the slowest direction, drawn from ± ¼ of it; guides with a tape take a fixed number
of gradients, whole sweeps for every word.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

import ggmc
from benchmarks.logistic import logistic_regression, simulated
from ggmc.dynamics.mass import MassLike
from ggmc.dynamics.scheme import Scheme
from ggmc.guides import Guide
from ggmc.targets.base import Target

NAMES = ("ME2", "BCSS2", "BCSS3", "BCSS4")
RATIO = 1.1  # of one step size tried to the next


class Setting(NamedTuple):
    """A target in equilibrium, its guide, and how long trajectories are."""

    name: str
    target: Target
    states: Tensor
    guide: Guide
    mass: MassLike
    first: float  # time per gradient, to begin at
    time: float | None = None  # of a trajectory ...
    gradients: int = 0  # ... or its gradients
    trajectories: int = 2  # of each state


def words(setting: Setting) -> dict[str, str]:
    """Leapfrog and the stages: kicks first with exact gradients, which the ends share; drifts first with a tape."""
    if isinstance(setting.guide, ggmc.Exact):
        return {"leapfrog": "O(BAB)O"} | {name: f"O({name})O" for name in NAMES}
    return {"leapfrog": "O(ABA)O"} | {name: f"O({name}d)O" for name in NAMES}


def score(setting: Setting, word: str, per_gradient: float) -> tuple[float, float]:
    """Time per gradient × acceptance at one step size, and the acceptance."""
    stages = Scheme(word).gradients_per_step
    h = stages * per_gradient
    if setting.time is None:
        steps = setting.gradients // stages, setting.gradients // stages
    else:
        middle = setting.time / h
        steps = max(1, round(0.75 * middle)), max(1, round(1.25 * middle))
    kernel = ggmc.HMC(h, steps, setting.guide, mass=setting.mass, scheme=word)
    generator = torch.Generator().manual_seed(1)
    sampler = kernel.sampler(setting.target, kernel.guide.bind(setting.target))
    sampler.early_stop = False
    state = sampler.init(setting.states, generator)
    alphas = [
        sampler.step(state, sampler.parameters, generator)[1].acceptance().mean().item()
        for _ in range(setting.trajectories)
    ]
    alpha = sum(alphas) / len(alphas)
    return per_gradient * alpha, alpha


def best(setting: Setting, word: str) -> tuple[float, float, float]:
    """The best score over step sizes, its time per gradient and its acceptance."""
    found = (0.0, 0.0, 0.0)
    per_gradient = setting.first
    while True:
        value, alpha = score(setting, word, per_gradient)
        found = max(found, (value, per_gradient, alpha))
        if value < 0.7 * found[0]:
            return found
        per_gradient *= RATIO


def gaussian(d: int, chains: int) -> Setting:
    """Frequencies from 1 to 5, evenly."""
    frequencies = torch.linspace(1, 5, d, dtype=torch.float64)
    target = ggmc.Density(lambda x: -((frequencies * x) ** 2).sum() / 2, torch.zeros(d, dtype=torch.float64))
    states = torch.randn(chains, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / frequencies
    name = f"Gaussian, frequencies 1 to 5, d = {d:,}"
    return Setting(name, target, states, ggmc.Exact(), None, 0.05, math.pi / 2)


def logistic() -> Iterator[Setting]:
    """Logistic regression with full gradients, sweeps and control variates."""
    target = logistic_regression(*simulated(2000, 50))
    anchored = ggmc.ControlVariate(target.num_data, curvature="dense").bind(target)
    mass, anchor = anchored.advice.mass, anchored.found["anchor"]
    assert mass is not None
    whitened = mass()
    trace = ggmc.sample(target, ggmc.HMC(mass=whitened), 10, 100, 64, progress=False)
    states = trace.rows()[:, -1]
    yield Setting("logistic, d = 50, full gradients", target, states, ggmc.Exact(), whitened, 0.15, math.pi / 2)
    two, many = ggmc.Minibatch(1000), ggmc.Minibatch(100)
    control = ggmc.ControlVariate(100, curvature="dense", anchor=anchor)
    yield Setting("… sweeps of two batches", target, states, two, whitened, 0.1, gradients=12)
    yield Setting("… sweeps of 20 batches", target, states, many, whitened, 0.01, gradients=120)
    yield Setting("… control variates, 20 batches", target, states, control, whitened, 0.05, gradients=12)


def report(settings: Iterator[Setting]) -> None:
    """One line for each setting: leapfrog's best, and the others' over it."""
    print("Time per gradient × acceptance at the best step; leapfrog's, and the others' ÷ leapfrog's (acceptance)\n")
    print("| | leapfrog | " + " | ".join(NAMES) + " |\n|" + "---|" * (2 + len(NAMES)))
    for setting in settings:
        found = {name: best(setting, word) for name, word in words(setting).items()}
        value, _, alpha = found.pop("leapfrog")
        others = [f"{one[0] / value:.2f} ({one[2]:.2f})" for one in found.values()]
        print(f"| {setting.name} | {value:.3g} ({alpha:.2f}) | {' | '.join(others)} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=["gaussian", "logistic"], help="both if none is named")
    chosen = parser.parse_args().names or ["gaussian", "logistic"]
    logging.getLogger("ggmc").setLevel(logging.ERROR)

    def settings() -> Iterator[Setting]:
        if "gaussian" in chosen:
            yield from (gaussian(d, chains) for d, chains in ((25, 4000), (500, 1000), (5000, 200)))
        if "logistic" in chosen:
            yield from logistic()

    report(settings())


if __name__ == "__main__":
    main()
