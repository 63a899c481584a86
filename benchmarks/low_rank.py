"""A mass of low rank on a network: what it gains per gradient in equilibrium, and what it costs to find.

Run with `.venv/bin/python -m benchmarks.low_rank` (about five minutes on one idle core). The posterior of a 64-50-50-10
net (6,310 weights, normal priors of variance 1/fan-in, or 1 with `--wide`) on scikit-learn's digits. Chains burn in,
go on to gather past states, and from their last state each mass is measured alike: the step is tuned to an acceptance
of 0.83, then trajectories `O(BAB)O` of the same length in units of time run on full gradients or on two batches per
sweep, and the mean squared jump of the weights, in units of the prior, is divided by the gradients, in passes over the
data.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor

import ggmc
from ggmc.dynamics.mass import Diagonal, LowRank, Mass
from ggmc.warmup.low_rank import OVERSAMPLING, ROUNDS, largest_rank, low_rank, prior_diagonal
from ggmc.warmup.mass import per_tensor

WANTED = 0.83
CORRECTIONS = 3  # of the step size, each after half as many trajectories as are measured
TIME = 1.5  # of a trajectory, for a mass that is the prior's precision: about a quarter of its period
FIRST = {False: 0.03, True: 0.015}  # a step size for burning in, by whether the prior is wide
BURN_IN = 75.0  # time, unadjusted
GATHERING = 0.75  # time between two past states


def digits(wide: bool) -> ggmc.Posterior:
    """A net with two layers of 50 on 1,797 images of 8 × 8 points, ten classes."""
    found: Any = load_digits()
    x, y = torch.tensor(found.data / 16, dtype=torch.float32), torch.tensor(found.target)
    torch.manual_seed(0)
    net = ggmc.nets.MLP([64, 50, 50, 10], torch.nn.Tanh)
    return ggmc.Posterior(
        net, ggmc.likelihoods.Categorical(), ggmc.priors.Gaussian(1.0, fan_in=not wide), x, y, vectorise=True
    )


def past_states(target: ggmc.Posterior, prior: Mass, step_size: float, chains: int, number: int) -> Tensor:
    """Of chains in equilibrium: [number, chains, d]."""
    generator = torch.Generator().manual_seed(0)
    steps = round(BURN_IN / 20 / step_size)
    kernel = ggmc.GGMC(step_size, 2.0, steps, mass=prior, adjust=False, monitor_every=10**6)
    init, step = kernel.bind(target)
    state = init(target.starts(chains, generator), generator)
    for _ in range(20):
        state, _ = step(state, generator)
    kernel = ggmc.GGMC(step_size, math.inf, round(GATHERING / step_size), "O(BAB)O", mass=prior)
    init, step = kernel.bind(target)
    state, found, accepted = init(state.position, generator), [], 0.0
    for _ in range(number):
        state, info = step(state, generator)
        found.append(state.position.clone())
        accepted += info.acceptance().mean().item() / number
    assert state.potential is not None
    shown = ", ".join(f"{value:.0f}" for value in state.potential.tolist())
    print(f"past states: acceptance {accepted:.2f}, potentials {shown}", flush=True)
    return torch.stack(found)


def measured(
    target: ggmc.Posterior, prior: Diagonal, mass: Mass, batches: int, position: Tensor, trajectories: int
) -> tuple[float, float, float]:
    """The step size, its acceptance, and the squared jump per pass over the data."""
    guide = ggmc.Exact() if batches == 1 else ggmc.Minibatch(math.ceil(target.num_data / batches))
    field = guide.bind(target)
    unit = field.sweep if field.whole_sweeps else 1
    time = TIME * (mass.velocity_variance() * prior.matrix).median().rsqrt().item()
    generator = torch.Generator().manual_seed(1)
    kernel = ggmc.GGMC(0.03, math.inf, unit, "O(BAB)O", guide, mass=mass)

    def run(step_size: float, number: int) -> tuple[float, float]:
        """Mean acceptance, and mean squared jump per pass, of so many trajectories."""
        nonlocal position
        steps = unit * max(1, round(time / step_size / unit))
        init, step = replace(kernel, step_size=step_size, steps=steps).bind(target)
        state, accepted, jumps = init(position, generator), 0.0, 0.0
        for _ in range(number):
            before = state.position
            state, info = step(state, generator)
            accepted += info.acceptance().mean().item() / number
            jumps += ((state.position - before).square() @ prior.matrix.float()).mean().item() / number
        position = state.position
        return accepted, jumps * batches / steps

    step_size = 0.04 * time / TIME
    for _ in range(CORRECTIONS):
        accepted, _ = run(step_size, trajectories // 2)
        step_size *= min(1.5, max(0.6, math.sqrt(_error(WANTED) / max(_error(accepted), 1e-9))))
    return step_size, *run(step_size, trajectories)


def _error(acceptance: float) -> float:
    """The size of the energy error that gives an acceptance, but for a factor; it grows with the square of the step."""
    return torch.special.ndtri(torch.tensor(1 - acceptance / 2)).item()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--states", type=int, default=32, help="past states, of which a mass uses 16")
    parser.add_argument("--wide", action="store_true", help="standard normal priors")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2], help="1 for full gradients")
    parser.add_argument("--trajectories", type=int, default=16, help="to measure; for tuning 1.5 times as many")
    given = parser.parse_args()
    torch.set_num_threads(1)
    target = digits(given.wide)
    d = target.layout.size
    print(target)
    prior = prior_diagonal(target)
    assert prior is not None
    states = past_states(target, prior, FIRST[given.wide], given.chains, given.states)
    masses: list[dict[str, Mass]] = []
    for chain in range(given.chains):
        tensor = per_tensor(target, states[-1, chain, None])
        assert isinstance(tensor, Diagonal)
        found: dict[str, Mass] = {"prior": prior, "tensor": tensor}
        searches = {"low rank": (chain, prior), "low rank upon tensor": (chain, tensor)}
        if given.chains > 1:
            searches["low rank, another chain's states"] = (chain - 1, prior)
        for name, (whose, diagonal) in searches.items():
            found[name] = mass = low_rank(target, states[:, whose], diagonal, chain)[0]
            if isinstance(mass, LowRank):
                some = [f"{mass.values[i - 1]:.3g} ({i})" for i in (1, 10, 50, 100, 200) if i <= mass.rank]
                print(f"chain {chain}, {name}: rank {mass.rank}; eigenvalues (rank) {', '.join(some)}", flush=True)
        masses.append(found)
    print(f"a search takes {2 * ROUNDS * (largest_rank(d) + OVERSAMPLING)} passes of gradients of one chain")
    print(
        "\n| mass | gradients | step size | acceptance | squared jump per pass | at 0.83 | ÷ prior |\n"
        + 7 * "|---"
        + "|"
    )
    for batches in given.batches:
        how = "full" if batches == 1 else f"{batches} batches"
        first = math.nan
        for name in masses[0]:
            each = [
                measured(target, prior, of[name], batches, states[-1, chain, None], given.trajectories)
                for chain, of in enumerate(masses)
            ]
            h, accepted, jump = (sum(column) / len(each) for column in zip(*each, strict=True))
            # With the step that would have been accepted as wanted: jumps go as the step times acceptance.
            longer = math.sqrt(_error(WANTED) / _error(accepted))
            moved = jump * longer * WANTED / accepted
            first = moved if name == "prior" else first
            at = f"{moved:.0f} (h = {h * longer:.4f})"
            print(
                f"| {name} | {how} | {h:.4f} | {accepted:.2f} | {jump:.1f} | {at} | {moved / first:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
