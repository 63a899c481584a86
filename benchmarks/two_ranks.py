"""Two ranks against one process: ResNet-20 on images of CIFAR's size, sweeps of minibatches, two chains.

Run with `.venv/bin/python -m benchmarks.two_ranks` (about ten minutes on two free cores; `--quick` for less than one).
It starts its two ranks itself, with torch.distributed.run. The images are those of the reference data, or random ones
where that is not at hand; which does not change the cost.

Four sides take turns in blocks of one trajectory: one process with one thread and with two, while the other rank
waits, and two ranks of one thread each, which share out the data or the chains. What is measured is the run's own loop:
a trajectory, whose last act is the test, and the agreement to go on. The step size is so small that all is accepted,
since one process may stop the sum of a trajectory that is certain to be rejected. A speed-up is the median over blocks
of the ratio within a block.

An all-reduce is then measured by itself, from 10³ to 10⁷ numbers, and t = latency + bytes / bandwidth is fitted to it
by least squares of the relative errors. The model (`benchmarks/cost_model.py`) predicts two ranks from this and from
the one process with one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

import ggmc
from benchmarks.cost_model import Cluster, Link, Work, cost_of_step, cost_of_test
from benchmarks.posteriors import DATA
from ggmc.sampling.chains import Chains
from ggmc.sampling.ranks import ALONE, Ranks
from ggmc.sampling.request import Request
from ggmc.sampling.threads import use_threads

CHAINS = 2
SIZES = [10**power for power in range(3, 8)]
ONE, TWO_THREADS, DATA_SPLIT, CHAINS_SPLIT = (
    "one process, one thread",
    "one process, two threads",
    'two ranks, split="data"',
    'two ranks, split="chains"',
)


def images(number: int) -> tuple[torch.Tensor, torch.Tensor, str]:
    """So many images and classes, and where they come from."""
    file = DATA / "cifar10_tiny.npz"
    if file.exists():
        found = np.load(file)
        x = torch.from_numpy(found["x_train"][:number]).float().view(-1, 3, 32, 32) / 255
        return (x - x.mean()) / x.std(), torch.from_numpy(found["y_train"][:number]).long(), "CIFAR-10"
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(number, 3, 32, 32, generator=generator)
    return x, torch.randint(10, (number,), generator=generator), "random"


@dataclass
class Side:
    """A way to carry out the run, and what was measured: seconds per step and per test, block by block."""

    chains: Chains
    ranks: Ranks
    threads: int
    in_tests: list[float]
    steps: list[float] = field(default_factory=list)
    tests: list[float] = field(default_factory=list)

    def advance(self, measured: bool = True) -> None:
        """One trajectory, as a run makes it."""
        self.in_tests.clear()
        with use_threads(self.threads):
            begun = time.perf_counter()
            with self.ranks.sharing():
                info = self.chains.advance()
            self.ranks.agree(self.chains.state.position, 0, 0)
            seconds = time.perf_counter() - begun
        if not info.accepted.all():
            raise RuntimeError("a trajectory was rejected, so that its test may have stopped early: take smaller steps")
        if measured:
            self.steps.append((seconds - sum(self.in_tests)) / info.steps)
            self.tests.append(sum(self.in_tests))


def prepared(examples: int, batch: int, ranks: Ranks, threads: int) -> Side:
    """A side with a posterior of its own, whose tests are timed."""
    torch.manual_seed(0)
    x, y, _ = images(examples)
    posterior = ggmc.Posterior(
        ggmc.nets.ResNet20(), "categorical", ggmc.priors.Gaussian(1.0), x, y, start="module", vectorise=False
    )
    in_tests: list[float] = []
    usual = posterior.potential

    def timed(position: torch.Tensor, limit: torch.Tensor | None = None) -> torch.Tensor:
        begun = time.perf_counter()
        found = usual(position, limit)
        in_tests.append(time.perf_counter() - begun)
        return found

    posterior.potential = timed
    kernel = ggmc.GGMC(1e-6, steps="1 sweep", guide=ggmc.Minibatch(batch))
    request = Request.asked(draws=1, warmup=0, chains=CHAINS, seed=0, target_accept=None, anneal=None, start=None)
    with ranks.sharing(), use_threads(threads):
        return Side(request.make_chains(posterior, kernel, ranks), ranks, threads, in_tests)


def seconds_of_all_reduce(numbers: int, repeats: int) -> float:
    """The median time of an all-reduce of so many float32 numbers."""
    row, found = torch.zeros(numbers), []
    for repeat in range(repeats + 2):
        torch.distributed.barrier()
        begun = time.perf_counter()
        torch.distributed.all_reduce(row)
        if repeat > 1:  # the first connect, and take memory
            found.append(time.perf_counter() - begun)
    return float(np.median(found))


def fitted(sizes: list[int], seconds: list[float]) -> Link:
    """The link whose all-reduce between two ranks takes these times, by least squares of the relative errors."""
    found = design = np.stack([np.ones(len(sizes)), 4.0 * np.array(sizes)], 1)
    scale = t = np.array(seconds)
    for _ in range(10):  # relative to what is fitted, else times that are too short by chance weigh most
        found = np.linalg.lstsq(design / scale[:, None], t / scale, rcond=None)[0].clip(1e-12)
        scale = design @ found
    return Link(found[0] / 2, 1 / found[1])  # two messages


def measure(examples: int, batch: int, blocks: int, repeats: int) -> None:
    """What every rank does; the first prints."""
    by_data = ggmc.distributed.init(split="data")
    by_chains = ggmc.distributed.init(split="chains")
    alone = by_data.first
    sides: dict[str, Side] = {}
    if alone:
        sides |= {ONE: prepared(examples, batch, ALONE, 1), TWO_THREADS: prepared(examples, batch, ALONE, 2)}
    sides |= {DATA_SPLIT: prepared(examples, batch, by_data, 1), CHAINS_SPLIT: prepared(examples, batch, by_chains, 1)}
    names = [ONE, TWO_THREADS, DATA_SPLIT, CHAINS_SPLIT]
    with tqdm(total=(blocks + 1) * len(names) + len(SIZES) + 1, unit="block", disable=not alone) as bar:
        for block in range(blocks + 1):  # the first sets things up
            for name in names[block % 4 :] + names[: block % 4]:
                bar.set_description(name)
                by_data.wait()
                if name in sides:
                    sides[name].advance(measured=block > 0)
                by_data.wait()
                bar.update()
        bar.set_description("all-reduce")
        row = CHAINS * sides[DATA_SPLIT].chains.target.layout.size
        times: dict[int, float] = {}
        for size in [*SIZES, row]:
            times[size] = seconds_of_all_reduce(size, repeats)
            bar.update()
    if alone:
        report(sides, examples, batch, times)


def report(sides: dict[str, Side], examples: int, batch: int, times: dict[int, float]) -> None:
    """Print the tables."""
    one, threads, weights = sides[ONE], sides[TWO_THREADS], sides[ONE].chains.target.layout.size
    step, test = float(np.median(one.steps)), float(np.median(one.tests))
    link = fitted(SIZES, [times[size] for size in SIZES])
    # The one process says what an example costs, the letters included: they are a small part of it here.
    work = Work(weights, examples, CHAINS * batch / step, CHAINS * examples / test, moved=0, chains=CHAINS)
    cluster = Cluster(per_node=2, inside=link)
    shared = cost_of_step(work, cluster, 2, batch).seconds, cost_of_test(work, cluster, 2).seconds
    model = {DATA_SPLIT: shared, CHAINS_SPLIT: (step / 2, test / 2)}
    print(
        f"\nResNet-20, {weights:,} weights, {CHAINS} chains, {examples} images ({images(1)[2]}), batches of {batch}, "
        f"median of {len(one.steps)} blocks\n\n"
        f"{'':28}{'speed-up of a step':^30}{'speed-up of a test':^30}{'ms per step':^20}{'ms per test':^20}\n"
        f"{'compared with':28}{'1 thread':>10}{'model':>10}{'2 threads':>10}{'1 thread':>10}{'model':>10}"
        f"{'2 threads':>10}{'':>10}{'model':>10}{'':>10}{'model':>10}"
    )
    for name, side in sides.items():
        expected = model.get(name, (None, None))
        ratios = milliseconds = ""
        for own, first, second, before, after in (
            (side.steps, one.steps, threads.steps, step, expected[0]),
            (side.tests, one.tests, threads.tests, test, expected[1]),
        ):
            ratios += f"{np.median(np.divide(first, own)):>10.2f}{'' if after is None else f'{before / after:.2f}':>10}"
            ratios += f"{np.median(np.divide(second, own)):>10.2f}"
            milliseconds += f"{1e3 * np.median(own):>10.1f}{'' if after is None else f'{1e3 * after:.1f}':>10}"
        print(f"{name:28}{ratios}{milliseconds}")
    print(f"\n{'all-reduce of float32 numbers':32}{'ms':>12}{'fitted, ms':>14}")
    for size, seconds in sorted(times.items()):
        own = "   the gradient of both chains" if size == CHAINS * weights else ""
        print(f"{size:>32,}{1e3 * seconds:>12.3f}{1e3 * link.all_reduce(4 * size, 2):>14.3f}{own}")
    print(f"\nt = {2e6 * link.latency:.0f} µs + bytes / ({link.bandwidth / 1e9:.2f} GB/s)")
    share = times[CHAINS * weights] / np.median(sides[DATA_SPLIT].steps)
    print(f"The all-reduce of the gradient, measured by itself, is {100 * share:.2f} % of a step on two ranks.")


def main() -> None:
    """Start the ranks, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=10, help="blocks of each side")
    parser.add_argument("--examples", type=int, default=640)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--quick", action="store_true", help="two blocks, 32 examples, batches of 16")
    given = parser.parse_args()
    examples, batch, blocks, repeats = given.examples, given.batch, given.blocks, 50
    if given.quick:
        examples, batch, blocks, repeats = 32, 16, 2, 5
    if "RANK" in os.environ:
        measure(examples, batch, blocks, repeats)
        return
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m"]
    command = [*run, "benchmarks.two_ranks", *sys.argv[1:]]
    root = Path(__file__).resolve().parents[1]
    raise SystemExit(subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=root).returncode)


if __name__ == "__main__":
    main()
