"""Batches that are cut once, against batches that are cut anew for each trajectory.

Run with `.venv/bin/python -m benchmarks.recut` (about ten minutes; `--quick` for one). Both sides run in turn on the
same target, with the same step size, length and order, from the same starts after the same burn-in. For each order and
batch size the table gives the mean acceptance, the time of a trajectory and of a pass over the data, and the ratios of
fresh to fixed batches. The step size of a line is chosen so that fixed batches are accepted about twice in three times.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.datasets import load_digits

import ggmc
from benchmarks.logistic import logistic_regression, simulated
from ggmc.dynamics.state import State
from ggmc.kernels.base import Step
from ggmc.targets.base import DataTarget

ORDERS = ("palindrome", "epoch", "iid")
WANTED = 0.65


@dataclass
class Side:
    """One way of cutting: its chains, and what was measured."""

    step: Step
    state: State
    generator: torch.Generator
    accepted: list[torch.Tensor]
    seconds: list[float]


def logistic(num_data: int) -> ggmc.DataDensity:
    """Simulated logistic regression with 25 features."""
    return logistic_regression(*simulated(num_data, 25))


def digits(width: int = 16) -> ggmc.Posterior:
    """A small net on scikit-learn's digits: 1,797 images of 8 × 8 points, ten classes."""
    found: Any = load_digits()
    x = torch.tensor(found.data / 16, dtype=torch.float32)
    y = torch.tensor(found.target)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, 10))
    return ggmc.Posterior(net, ggmc.likelihoods.Categorical(), ggmc.priors.Gaussian(1.0), x, y)


def kernel(size: int, order: str, recut: bool, step_size: float) -> ggmc.GGMC:
    """Two passes over the data between tests, friction at the ends only."""
    return ggmc.GGMC(step_size, steps="2 epochs", scheme="O(ABA)O", guide=ggmc.Minibatch(size, order, recut=recut))


def side(target: DataTarget, settings: ggmc.GGMC, start: torch.Tensor) -> Side:
    """A kernel at the start, ready to go."""
    init, step = settings.bind(target)
    generator = torch.Generator().manual_seed(1)
    return Side(step, init(start, generator), generator, [], [])


def go(one: Side, trajectories: int) -> None:
    """So many trajectories, measured."""
    for _ in range(trajectories):
        begun = time.perf_counter()
        one.state, info = one.step(one.state, one.generator)
        one.seconds.append(time.perf_counter() - begun)
        one.accepted.append(info.acceptance())


def acceptance(one: Side) -> tuple[float, float]:
    """Its mean, and the standard error of that over trajectories."""
    means = torch.stack(one.accepted).mean(1)
    return means.mean().item(), means.std().item() / math.sqrt(len(means))


def tuned(
    target: DataTarget, size: int, order: str, start: torch.Tensor, trajectories: int
) -> tuple[float, torch.Tensor]:
    """A step size at which fixed batches are accepted as often as wanted, and where the chains got to."""
    h = 0.3 / math.sqrt(target.num_data)
    for _ in range(14):
        trial = side(target, kernel(size, order, False, h), start)
        go(trial, max(4, trajectories // 5))
        start = trial.state.position
        h *= math.exp(1.5 * (min(acceptance(trial)[0], 0.99) - WANTED))
    return h, start


def sizes(target: DataTarget) -> Iterator[int]:
    """A twentieth and a tenth of the data."""
    for parts in (20, 10):
        yield math.ceil(target.num_data / parts)


def compare(name: str, target: DataTarget, start: torch.Tensor, orders: list[str], trajectories: int) -> None:
    """Print the lines of one target."""
    for order in orders:
        for size in sizes(target):
            h, begin = tuned(target, size, order, start, trajectories)
            sides = [side(target, kernel(size, order, recut, h), begin) for recut in (False, True)]
            for _ in range(trajectories // 5):  # in turn, so that both see the same load of the machine
                for one in sides:
                    go(one, 5)
            (fixed, fixed_error), (fresh, fresh_error) = map(acceptance, sides)
            slow, slower = (torch.tensor(one.seconds).median().item() * 1e3 for one in sides)
            print(
                f"{name:10}{order:12}{size:>7}{h:>10.2g}"
                f"{fixed:>9.3f} ± {fixed_error:.3f}{fresh:>9.3f} ± {fresh_error:.3f}{fresh / fixed:>8.2f}"
                f"{slow:>10.1f}{slower:>10.1f}{slow / 2:>10.1f}{slower / 2:>10.1f}{slower / slow:>8.2f}"
                f"{fresh / slower / (fixed / slow):>12.2f}",
                flush=True,
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=["logistic", "digits"], choices=["logistic", "digits"])
    parser.add_argument("--orders", nargs="+", default=list(ORDERS), choices=ORDERS)
    parser.add_argument("--num-data", type=int, default=20_000, help="examples of the logistic regression")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--trajectories", type=int, default=100, help="measured for each line and side")
    parser.add_argument("--burn-in", type=int, default=200, help="trajectories of HMC before all lines")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="2,000 examples, and a tenth of the trajectories")
    given = parser.parse_args()
    if given.quick:
        given.num_data, given.trajectories, given.burn_in = 2000, 10, 20
    torch.set_num_threads(given.threads)
    print(f"{'':39}{'acceptance':^34}{'ms per trajectory':^28}{'ms per pass':^20}{'accepted per time':>14}")
    print(
        f"{'target':10}{'order':12}{'batch':>7}{'step':>10}{'fixed':>12}{'fresh':>17}{'ratio':>11}"
        f"{'fixed':>10}{'fresh':>10}{'fixed':>10}{'fresh':>10}{'ratio':>8}{'ratio':>12}"
    )
    for name in given.targets:
        target = logistic(given.num_data) if name == "logistic" else digits()
        generator = torch.Generator().manual_seed(0)
        start = target.starts(given.chains, generator)
        exact = side(target, ggmc.GGMC(0.5 / math.sqrt(target.num_data), steps=10, scheme="O(BAB)O"), start)
        go(exact, given.burn_in)
        compare(name, target, exact.state.position, given.orders, given.trajectories)


if __name__ == "__main__":
    main()
