"""What compiling trajectories takes and gives: microseconds per step as written, recorded, and compiled.

Run with `.venv/bin/python -m benchmarks.compiled` (one thread; names choose among the posteriors). A step is one
leapfrog step of all chains with its gradient and work, in trajectories of ten.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

import ggmc
from benchmarks.posteriors import Posterior, german_credit, hidden_markov_model, ill_conditioned_gaussian, posteriordb
from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.kernels import WordSampler
from ggmc.programs.record import as_written

STEPS, SECONDS = 10, 0.5
NAMES = [
    "eight_schools-eight_schools_noncentered",
    "mesquite-logmesquite",
    "german_credit",
    "gaussian",
    "gp_pois_regr-gp_regr",
    "hmm",
    "hudson_lynx_hare-lotka_volterra",
]
OWN: dict[str, Callable[[], Posterior]] = {
    "german_credit": german_credit,
    "gaussian": ill_conditioned_gaussian,
    "hmm": hidden_markov_model,
}


def seconds_of(function: Callable[[], object]) -> float:
    """The least of several times, once a record that is made on the way is relied on."""
    for _ in range(5):
        function()
    best, begun = float("inf"), time.perf_counter()
    while time.perf_counter() - begun < SECONDS:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def measured(posterior: Posterior, chains: int) -> tuple[list[float], float]:
    """Microseconds per step, as written, recorded and compiled; and the seconds of compiling."""
    target = posterior.to_torch()
    kernel = ggmc.HMC(1e-4, STEPS)
    found: list[float] = []
    compiling = 0.0
    for way in ("as written", "recorded", "compiled"):
        sampler = kernel.sampler(target, kernel.guide.bind(target))
        assert isinstance(sampler, WordSampler)
        generator = torch.Generator().manual_seed(0)
        start = target.starts(chains, generator)
        state = sampler.init(start, generator)
        if way == "compiled":
            sampler.compiled = CompiledMoves(sampler.field, sampler.program.letters)
            begun = time.perf_counter()
            sampler.step(state, sampler.parameters, generator)
            compiling = time.perf_counter() - begun

        trajectory = partial(sampler.step, state, sampler.parameters, generator)
        if way == "as written":
            with as_written():
                found.append(seconds_of(trajectory))
        else:
            found.append(seconds_of(trajectory))
    return [1e6 * one / STEPS for one in found], compiling


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, nargs="*", default=[4, 64])
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| posterior, chains | as written | recorded | compiled | compiling, seconds |\n|---|---|---|---|---|")
    for name in options.names:
        posterior = OWN[name]() if name in OWN else posteriordb(name)
        for chains in options.chains:
            each, compiling = measured(posterior, chains)
            numbers = " | ".join(f"{one:,.0f}" if one >= 10 else f"{one:.1f}" for one in each)
            print(f"| {posterior.name}, {chains} | {numbers} | {compiling:.2f} |", flush=True)


if __name__ == "__main__":
    main()
