"""How the time of a step grows with chains, parameters and data, and how much memory sampling takes beside SGD.

Run with `.venv/bin/python -m benchmarks.scaling`. A step is one leapfrog step with its gradient and work, in
trajectories of five: of a Gaussian in 100 dimensions with 1 to 256 chains; of one chain in 10³ to 10⁷ dimensions; of
a logistic regression (d = 20, four chains) on 10³ to 10⁶ examples. Slopes are those of the upper half of each curve.
Memory is the largest resident size of a training loop with `ggmc.optim` less that with SGD and momentum, in rows of
as many numbers as there are parameters. Saves out/scaling.png.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

import ggmc
from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.kernels import WordSampler
from ggmc.sampling.compiling import work_of
from ggmc.sampling.threads import threads_for, use_threads

STEPS = 5
PARAMETERS = 10_000_000
OPTIMISERS = ("GGMC", "HMC", "SGHMC", "SGLD")


def seconds_per_step(target: Any, chains: int) -> float:
    """The least of several trajectories, compiled where a run would be, with its number of threads."""
    kernel = ggmc.HMC(1e-4, STEPS)
    sampler = kernel.sampler(target, kernel.guide.bind(target))
    assert isinstance(sampler, WordSampler)
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(target.starts(chains, generator), generator)
    work = work_of(sampler, state.position)
    if work is not None and work.is_worth_compiling(2000):
        sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)
    best, begun, rounds = float("inf"), time.perf_counter(), 0
    with use_threads(threads_for(sampler.field, state.position)):
        while rounds < 30 or time.perf_counter() - begun < 0.5:
            start = time.perf_counter()
            state, _ = sampler.step(state, sampler.parameters, generator)
            best, rounds = min(best, (time.perf_counter() - start) / STEPS), rounds + 1
            if rounds >= 4 and time.perf_counter() - begun > 5:
                break
    return best


def gaussian(d: int) -> ggmc.Density:
    """A standard normal, with scales that differ."""
    scale = torch.linspace(0.5, 2.0, d, dtype=torch.float64)
    return ggmc.Density(lambda x: -((x / scale) ** 2).sum() / 2, torch.zeros(d, dtype=torch.float64))


def logistic(examples: int) -> ggmc.DataDensity:
    """Logistic regression on made-up data."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(examples, 20, generator=generator, dtype=torch.float64)
    sign = torch.sign(torch.randn(examples, generator=generator, dtype=torch.float64))

    def log_likelihood(w: torch.Tensor, batch: Any) -> torch.Tensor:
        return torch.nn.functional.logsigmoid(batch[1] * (batch[0] @ w))

    start = torch.zeros(20, dtype=torch.float64)
    return ggmc.DataDensity(lambda w: -(w**2).sum() / 2, log_likelihood, (x, sign), start)


def slope(sizes: list[int], seconds: list[float]) -> float:
    """Of the upper half, in logarithms."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def train(name: str) -> None:
    """A few steps of a layer of many weights, in a process of its own; prints its largest size in bytes."""
    net = torch.nn.Linear(1000, PARAMETERS // 1000, bias=False)
    if name == "SGD":
        optimiser = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    else:
        own = {"momentum": 0.9} if name != "SGLD" else {}
        optimiser = getattr(ggmc.optim, name)(net, lr=1e-6, num_data=1000, **own)
    x = torch.randn(4, 1000)
    for _ in range(3):
        optimiser.zero_grad()
        net(x).square().mean().backward()
        optimiser.step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def memory(name: str) -> float:
    """Bytes of a training loop."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", "--train", name], capture_output=True, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", help="measure the memory of one training loop, in this process")
    options = parser.parse_args()
    if options.train:
        train(options.train)
        return
    chains, parameters, data = [4**i for i in range(5)], [10**i for i in range(3, 8)], [10**i for i in range(3, 7)]
    curves = {
        "chains (100 parameters)": (chains, [seconds_per_step(gaussian(100), n) for n in chains]),
        "parameters (one chain)": (parameters, [seconds_per_step(gaussian(n), 1) for n in parameters]),
        "examples (20 parameters, four chains)": (data, [seconds_per_step(logistic(n), 4) for n in data]),
    }
    figure, axis = plt.subplots(figsize=(7, 4.5))
    for name, (sizes, seconds) in curves.items():
        label = f"{name}, slope {slope(sizes, seconds):.2f}"
        print(label, ", ".join(f"{n:,}: {1e6 * one:,.1f} µs" for n, one in zip(sizes, seconds, strict=True)))
        axis.plot(sizes, seconds, "o-", label=label)
    axis.set(xscale="log", yscale="log", xlabel="number", ylabel="seconds per step of all chains")
    axis.grid(alpha=0.3)
    axis.legend()
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/scaling.png", dpi=120, bbox_inches="tight")
    least = memory("SGD")
    for name in OPTIMISERS:
        print(f"ggmc.optim.{name}: {(memory(name) - least) / (4 * PARAMETERS):.2f} rows more than SGD with momentum")


if __name__ == "__main__":
    main()
