"""What a step and a test cost on many GPUs: the cost model of docs/scaling.md.

Run with `.venv/bin/python -m benchmarks.cost_model`; it measures nothing, and prints the tables of that page. Options
replace what is assumed:

    .venv/bin/python -m benchmarks.cost_model --gradients 2470 --network 160e9      # mixed precision, eight adapters
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

GPUS = (8, 64, 512)
SHARE = 0.1  # of the time, which communication, or the test, shall not exceed


@dataclass(frozen=True)
class Link:
    """What connects ranks.

    Args:
        latency: Seconds for a message of no length.
        bandwidth: Bytes per second, each way.

    Example:
        >>> from benchmarks.cost_model import Link
        >>> slow = Link(latency=0.001, bandwidth=1e9)
        >>> slow.all_reduce(1e9, ranks=2), slow.all_reduce(1e9, ranks=1)
        (1.002, 0.0)
    """

    latency: float
    bandwidth: float

    def all_reduce(self, size: float, ranks: int) -> float:
        """Seconds of a ring all-reduce: 2(p − 1) messages, each of a p-th of the bytes.

        Args:
            size: Bytes.
            ranks: p.
        """
        messages = 2 * (ranks - 1)
        return messages / ranks * size / self.bandwidth + messages * self.latency


@dataclass(frozen=True)
class Cluster:
    """GPUs in nodes: the sum is made inside each node, between nodes, and handed out inside each node again.

    Args:
        per_node: GPUs of a node.
        inside: What connects them; the bandwidth is that of one GPU.
        between: What connects nodes; the bandwidth is that of one node, which its GPUs share.
    """

    per_node: int = 8
    inside: Link = Link(latency=5e-6, bandwidth=200e9)
    between: Link = Link(latency=15e-6, bandwidth=20e9)

    def all_reduce(self, size: float, gpus: int) -> float:
        """Seconds of an all-reduce over all GPUs.

        Args:
            size: Bytes.
            gpus: How many.
        """
        inside = self.inside.all_reduce(size, min(gpus, self.per_node))
        return inside + self.between.all_reduce(size, math.ceil(gpus / self.per_node))


@dataclass(frozen=True)
class Work:
    """What one chain has to compute; the defaults are those of docs/scaling.md.

    Args:
        parameters: d.
        examples: N.
        gradients: Examples per second of one GPU, forward and backward.
        forwards: Examples per second of one GPU, forward alone; by default three times as many.
        moved: Numbers per parameter that kick, drift, work and copies read or write in a step, as counted in
            `dynamics/letters.py`. Every GPU does this for all parameters.
        memory: Bytes per second of one GPU's memory.
        bytes: Of a number.
        chains: All of which every GPU has.
    """

    parameters: float = 1e7
    examples: float = 1.28e6
    gradients: float = 938.0
    forwards: float | None = None
    moved: float = 25.0
    memory: float = 1.5e12
    bytes: int = 4
    chains: int = 1


@dataclass(frozen=True)
class Cost:
    """Seconds of a step, or of a test."""

    compute: float
    communication: float

    @property
    def seconds(self) -> float:
        """In all."""
        return self.compute + self.communication

    @property
    def share(self) -> float:
        """Of the communication."""
        return self.communication / self.seconds


def cost_of_step(work: Work, cluster: Cluster, gpus: int, batch: float) -> Cost:
    """A step: the gradient of this GPU's part of the batch, one all-reduce of all chains' gradients, the letters.

    Args:
        work: What is computed.
        cluster: On what.
        gpus: How many.
        batch: Examples of a batch.
    """
    row = work.chains * work.parameters * work.bytes
    gradient = work.chains * math.ceil(batch / gpus) / work.gradients
    return Cost(gradient + work.moved * row / work.memory, cluster.all_reduce(row, gpus))


def cost_of_test(work: Work, cluster: Cluster, gpus: int) -> Cost:
    """A test: a forward pass over this GPU's part of the data, an all-reduce of one float64 per chain, and one of four
    whole numbers, by which ranks agree to go on.

    Args:
        work: What is computed.
        cluster: On what.
        gpus: How many.
    """
    forwards = 3 * work.gradients if work.forwards is None else work.forwards
    compute = work.chains * math.ceil(work.examples / gpus) / forwards
    return Cost(compute, cluster.all_reduce(8 * work.chains, gpus) + cluster.all_reduce(32, gpus))


def smallest_batch(work: Work, cluster: Cluster, gpus: int, share: float = SHARE) -> int:
    """The smallest batch with which communication is at most this share of a step.

    Args:
        work: What is computed.
        cluster: On what.
        gpus: How many.
        share: Of the time.
    """
    none = cost_of_step(work, cluster, gpus, 0)
    missing = none.communication * (1 - share) / share - none.compute
    return gpus * max(1, math.ceil(missing * work.gradients / work.chains))


def steps_between_tests(work: Work, cluster: Cluster, gpus: int, batch: float, share: float = SHARE) -> int:
    """The fewest steps of a trajectory with which its test is at most this share of the time.

    Args:
        work: What is computed.
        cluster: On what.
        gpus: How many.
        batch: Examples of a batch.
        share: Of the time.
    """
    one = cost_of_step(work, cluster, gpus, batch).seconds
    return math.ceil(cost_of_test(work, cluster, gpus).seconds * (1 - share) / share / one)


def table(work: Work, cluster: Cluster, per_gpu: int, gpus: tuple[int, ...] = GPUS) -> str:
    """The table of docs/scaling.md, as Markdown.

    Args:
        work: What is computed.
        cluster: On what.
        per_gpu: Examples of a batch on each GPU.
        gpus: The columns.
    """
    rows: dict[str, list[str]] = {}

    def put(name: str, text: str) -> None:
        rows.setdefault(name, []).append(text)

    for number in gpus:
        batch = per_gpu * number
        one, tested = cost_of_step(work, cluster, number, batch), cost_of_test(work, cluster, number)
        least, steps = smallest_batch(work, cluster, number), steps_between_tests(work, cluster, number, batch)
        put(f"batch, {per_gpu} for each GPU", f"{batch:,}")
        put("a step: computing, ms", f"{1e3 * one.compute:.1f}")
        put("a step: communication, ms", f"{1e3 * one.communication:.2f}")
        put("its share of the step", f"{100 * one.share:.1f} %")
        put("smallest batch with at most 10 % communication", f"{least:,} ({least // number} each)")
        put("a test: computing, s", f"{tested.compute:.2f}")
        put("a test: communication, ms", f"{1e3 * tested.communication:.2f}")
        put("its share of the test", f"{100 * tested.share:.2g} %")
        passes = steps * batch / work.examples
        put("steps between tests that cost at most 10 %", f"{steps:,} ({passes:.1f} passes)")
        put("trajectories of that length, per hour", f"{3600 / (steps * one.seconds + tested.seconds):.1f}")
    head = "| GPUs | " + " | ".join(map(str, gpus)) + " |\n|---|" + "---|" * len(gpus)
    return head + "".join(f"\n| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=float, default=Work.parameters)
    parser.add_argument("--examples", type=float, default=Work.examples)
    parser.add_argument("--gradients", type=float, default=Work.gradients, help="examples per second of one GPU")
    parser.add_argument("--chains", type=int, default=Work.chains)
    parser.add_argument("--per-gpu", type=int, default=128, help="examples of a batch on each GPU")
    parser.add_argument("--nvlink", type=float, default=Cluster.inside.bandwidth, help="bytes per second of one GPU")
    parser.add_argument("--network", type=float, default=Cluster.between.bandwidth, help="bytes per second of one node")
    given = parser.parse_args()
    work = Work(given.parameters, given.examples, given.gradients, chains=given.chains)
    inside, between = Cluster.inside, Cluster.between
    cluster = Cluster(inside=Link(inside.latency, given.nvlink), between=Link(between.latency, given.network))
    print(table(work, cluster, given.per_gpu))


if __name__ == "__main__":
    main()
