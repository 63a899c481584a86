"""Two versions of this library side by side: how much faster or slower the new one is.

Run with `.venv/bin/python -m benchmarks.before_after /path/to/previous/checkout` (about eight minutes; names choose
among the cases). Each version runs in processes of its own, with one thread, and the two take turns in short blocks of
the same work. A ratio is the previous version's time over this one's: above 1, this one is faster. It is the median
over pairs of neighbouring blocks, in processor time, so that what else the machine does falls on both alike; each round
has new processes, since where a process lies in memory matters a little too. The last column tells whether both
versions made the same numbers to the last bit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints
from tqdm.auto import tqdm

import ggmc

# Only public names that both versions have may be used in the cases: the other one runs this very file.


class Case(NamedTuple):
    """Something to measure."""

    go: Callable[[int], Tensor]
    """Does it so many times; returns numbers to compare."""
    steps: int
    """Steps in one of them: times are told per step."""


def logistic(num_data: int, features: int) -> ggmc.DataDensity:
    """Logistic regression with known weights."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(num_data, features))
    y = np.where(draw.uniform(size=num_data) < 1 / (1 + np.exp(-X @ (0.3 * draw.normal(size=features)))), 1.0, -1.0)

    def log_likelihood(weights: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        rows, signs = batch
        return torch.nn.functional.logsigmoid(signs * (rows @ weights))

    data = torch.from_numpy(X), torch.from_numpy(y)
    start = torch.zeros(features, dtype=torch.float64)
    return ggmc.DataDensity(lambda weights: -(weights**2).sum() / 2, log_likelihood, data, start)


def credit() -> ggmc.Density:
    """As large as German credit: 1000 rows, 25 weights, and no minibatches."""
    draw = np.random.default_rng(0)
    X = torch.from_numpy(draw.normal(size=(1000, 25)))
    y = torch.from_numpy(np.where(draw.uniform(size=1000) < 0.3, 1.0, -1.0))

    def log_prob(weights: Tensor) -> Tensor:
        return -(weights**2).sum() / 2 + torch.nn.functional.logsigmoid(y * (X @ weights)).sum()

    return ggmc.Density(log_prob, torch.zeros(25, dtype=torch.float64))


def schools() -> ggmc.Density:
    """As small as eight schools: ten numbers in three tensors, one of them positive."""
    y = torch.tensor([28.0, 8, -3, 7, -1, 1, 18, 12], dtype=torch.float64)
    sigma = torch.tensor([15.0, 10, 16, 11, 9, 11, 10, 18], dtype=torch.float64)

    def log_prob(p: dict[str, Tensor]) -> Tensor:
        prior = -(p["z"] ** 2).sum() / 2 - (p["mu"] / 5) ** 2 / 2 - torch.log1p((p["tau"] / 5) ** 2)
        return prior - (((y - p["mu"] - p["tau"] * p["z"]) / sigma) ** 2).sum() / 2

    one = torch.ones((), dtype=torch.float64)
    start = {"z": torch.zeros(8, dtype=torch.float64), "mu": 0 * one, "tau": one}
    return ggmc.Density(log_prob, start, {"tau": constraints.positive})


def trajectories(target: Any, kernel: Any, steps: int, chains: int = 4) -> Case:
    """A kernel's trajectories with fixed settings, one after another."""
    init, step = kernel.bind(target)
    generator = torch.Generator().manual_seed(0)
    state = init(target.starts(chains, generator), generator)

    def go(times: int) -> Tensor:
        nonlocal state
        for _ in range(times):
            state, _info = step(state, generator)
        return state.position

    return Case(go, steps)


def sampled(target: Any, kernel: Any, steps: int, warmup: int, draws: int) -> Case:
    """Whole runs of `ggmc.sample`, diagnosis included."""

    def go(times: int) -> Tensor:
        found = torch.zeros(0)
        for seed in range(times):
            found = ggmc.sample(target, kernel, draws, warmup, seed=seed, progress=False).rows()
        return found

    return Case(go, steps * (warmup + draws))


def training(scheme: str, only_step: bool) -> Case:
    """Steps of `ggmc.optim.GGMC` on a small net, in trajectories of 100, with the gradient or without."""
    torch.manual_seed(0)
    net = ggmc.nets.MLP([13, 50, 10])
    optimiser = ggmc.optim.GGMC(net, 1e-6, 0.9, num_data=50_000, scheme=scheme, seed=0)
    x, y = torch.randn(32, 13), torch.randint(10, (32,))

    def gradient() -> None:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()

    def go(times: int) -> Tensor:
        for _ in range(times):
            optimiser.begin_trajectory()
            gradient()
            for _ in range(100):
                if not only_step:
                    gradient()
                optimiser.step()
            optimiser.end_trajectory()
        return torch.cat([weight.detach().flatten() for weight in net.parameters()])

    return Case(go, 100)


def potential() -> Case:
    """The potential of four chains, which every test of a minibatch trajectory needs."""
    target = logistic(20_000, 50)
    position = 0.1 * torch.randn((4, 50), generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def go(times: int) -> Tensor:
        for _ in range(times - 1):
            target.potential(position)
        return target.potential(position)

    return Case(go, 1)


def curvature(features: int, per_direction: float) -> Tensor:
    """A dense mass near the curvature of a logistic regression."""
    return per_direction * (torch.eye(features, dtype=torch.float64) + 0.01)


CASES: dict[str, Callable[[], Case]] = {
    "logistic, N = 1000, d = 25": lambda: trajectories(
        credit(), ggmc.GGMC(0.5, 1.0, 5, "O(BAB)O", mass=curvature(25, 200.0)), 5
    ),
    "... ggmc.sample, fixed settings": lambda: sampled(
        credit(), ggmc.GGMC(0.5, 1.0, 5, "O(BAB)O", mass=curvature(25, 200.0)), 5, 50, 100
    ),
    "... ggmc.sample, defaults": lambda: sampled(credit(), None, 1, 100, 100),
    "schools, d = 10": lambda: trajectories(schools(), ggmc.GGMC(0.3, 1.0, 6, "O(BAB)O"), 6),
    "minibatches, N = 20,000, 20 batches": lambda: trajectories(
        logistic(20_000, 50),
        ggmc.GGMC(0.02, 1.0, "1 sweep", guide=ggmc.Minibatch(1000), mass=curvature(50, 4000.0)),
        40,
    ),
    "control variates, dense curvature": lambda: trajectories(
        logistic(20_000, 50),
        ggmc.GGMC(0.3, 1.0, 10, guide=ggmc.ControlVariate(1000, curvature="dense"), mass=curvature(50, 4000.0)),
        10,
    ),
    "optim.GGMC, a training step": lambda: training("OABAO", only_step=False),
    "optim.GGMC, step alone": lambda: training("OABAO", only_step=True),
    "optim.GGMC, step alone, O(ABA)O": lambda: training("O(ABA)O", only_step=True),
    "MALA, N = 1000, d = 25": lambda: trajectories(credit(), ggmc.MALA(0.4, mass=curvature(25, 200.0)), 1),
    "potential, N = 20,000": potential,
}


# One side: reads a case, then how often to carry it out, line by line, and answers with seconds


def serve() -> None:
    """Carry out what the other process asks for."""
    torch.set_num_threads(1)
    case: Case | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if case is None:
            case = CASES[asked]()
            found = case.go(2)
            answer: Any = [str(Path(ggmc.__file__).parent), case.steps, found.double().flatten().tolist()]
        else:
            begun = time.process_time()
            case.go(asked)
            answer = time.process_time() - begun
        print(json.dumps(answer), flush=True)


class Side:
    """A process that runs one checkout.

    Args:
        checkout: Its root.
        name: The case.
    """

    def __init__(self, checkout: Path, name: str):
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-P", "-W", "ignore", __file__, "--serve"]
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        where, self.steps, self.numbers = self.ask(name)
        if Path(where) != (checkout / "src" / "ggmc").resolve():
            raise SystemExit(f"{checkout} has no src/ggmc: ggmc was imported from {where}")

    def ask(self, what: str | int) -> Any:
        """Send a line, and wait for the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(what), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process of one side ended while it was asked for {what!r}: try --serve by hand")
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Ratio(NamedTuple):
    """What was found for one case."""

    ratio: float
    error: float
    before: float  # microseconds per step
    after: float
    same: bool


def compare(name: str, checkouts: tuple[Path, Path], rounds: int, blocks: int, seconds: float, bar: Any) -> Ratio:
    """Both sides in turn."""
    pairs: list[tuple[float, float]] = []
    same, steps = True, 1
    for _ in range(rounds):
        before, after = (Side(checkout, name) for checkout in checkouts)
        same = same and before.numbers == after.numbers
        times = max(1, round(seconds * 5 / max(1e-9, after.ask(5))))
        for side in (before, after):
            side.ask(times)  # both warm
        steps = after.steps * times
        for block in range(blocks):
            turn = (before, after) if block % 2 else (after, before)
            found = {side: side.ask(times) / steps for side in turn}
            pairs.append((found[before], found[after]))
            bar.update()
        before.close()
        after.close()
    old, new = np.array(pairs).T
    ratios = old / new
    middle = float(np.median(ratios))
    error = 1.25 * 1.48 * float(np.median(np.abs(ratios - middle))) / math.sqrt(len(ratios))
    return Ratio(middle, error, 1e6 * float(np.median(old)), 1e6 * float(np.median(new)), same)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("previous", type=Path, help="the checkout to compare this one with")
    parser.add_argument("names", nargs="*", help="parts of the cases' names; all of them if none is named")
    parser.add_argument("--rounds", type=int, default=3, help="new processes of both sides")
    parser.add_argument("--blocks", type=int, default=6, help="of each side in each round")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a block")
    options = parser.parse_args()
    checkouts = options.previous.resolve(), Path(__file__).resolve().parents[1]
    chosen = [case for case in CASES if not options.names or any(name in case for name in options.names)]
    rows: list[str] = []
    with tqdm(total=len(chosen) * options.rounds * options.blocks, unit="pair") as bar:
        for name in chosen:
            bar.set_description(name)
            one = compare(name, checkouts, options.rounds, options.blocks, options.seconds, bar)
            rows.append(
                f"{name:38}{one.ratio:>10.3f} ± {one.error:.3f}{one.before:>12.1f}{one.after:>12.1f}"
                f"{'yes' if one.same else 'no':>14}"
            )
            tqdm.write(rows[-1])
    print(f"\n{'µs per step':38}{'before ÷ after':>18}{'before':>12}{'after':>12}{'same numbers':>14}")
    print("\n".join(rows))


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main()
