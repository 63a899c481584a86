"""The double well of the AMAGOLD paper: what SGHMC's bias looks like, and its absence.

Run with `.venv/bin/python -m benchmarks.amagold` (about two minutes). U(θ) = (θ+4)(θ+1)(θ−1)(θ−3)/14 + ½, shared out
over 100 examples that also pull to the left and right: the gradients of minibatches of ten are noisy. AMAGOLD,
palindromic GGMC and SGHMC have the same step sizes, friction and gradients per trajectory, and start from the truth.
The bias is the total variation distance between the histogram of the draws and the truth; beside it stands what as many
exact draws would show. Saves out/amagold.png.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from torch import Tensor

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ggmc
from ggmc.kernels import Kernel

EXAMPLES, BATCH, STEPS, FRICTION = 100, 10, 10, 1.0
BURN_IN, DRAWS = 150, 30
STEP_SIZES = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
EDGES = np.linspace(-6, 5, 67)


def potential(x: Any) -> Any:
    """The two wells."""
    return (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14 + 0.5


def double_well() -> ggmc.DataDensity:
    """The same as a target with data."""
    pulls = 0.05 * torch.randn(EXAMPLES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pulls -= pulls.mean()

    def log_likelihood(x: Tensor, pull: Tensor) -> Tensor:
        return -(potential(x) / EXAMPLES + pull * x)

    return ggmc.DataDensity(lambda x: 0.0 * x.sum(), log_likelihood, pulls, torch.zeros(1, dtype=torch.float64))


def draw(target: ggmc.DataDensity, kernel: Kernel, chains: int) -> tuple[np.ndarray, float]:
    """Draws of all chains, and the acceptance."""
    generator = torch.Generator().manual_seed(1)
    init, step = kernel.bind(target)
    state = init(torch.from_numpy(exact(chains, seed=2))[:, None], generator)
    kept, accepted = [], []
    for trajectory in range(BURN_IN + 5 * DRAWS):
        state, info = step(state, generator)
        accepted.append(info.acceptance().mean().item())
        if trajectory >= BURN_IN and trajectory % 5 == 0:
            kept.append(state.position[:, 0].numpy())
    return np.concatenate(kept), float(np.mean(accepted[BURN_IN:]))


def truth() -> np.ndarray:
    """The probability of each bin."""
    grid = np.linspace(EDGES[0], EDGES[-1], 66 * 200 + 1)
    density = np.exp(-potential(grid))
    middle = (density[1:] + density[:-1]) / 2
    return middle.reshape(66, 200).sum(1) / middle.sum()


def exact(number: int, seed: int) -> np.ndarray:
    """Draws of the truth: a bin, and a place in it."""
    random = np.random.default_rng(seed)
    bins = random.choice(len(EDGES) - 1, number, p=truth())
    return EDGES[bins] + (EDGES[1] - EDGES[0]) * random.uniform(size=number)


def distance(draws: np.ndarray) -> float:
    """Total variation between the histogram and the truth."""
    shares = np.histogram(draws, EDGES)[0] / len(draws)
    return float(np.abs(shares - truth()).sum() + max(0.0, 1 - shares.sum())) / 2


def main() -> None:
    """Print the table, save the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=4000)
    chains: int = parser.parse_args().chains
    target = double_well()
    position = torch.zeros(1, 1, dtype=torch.float64)
    field = ggmc.Minibatch(BATCH).bind(target)
    noise = torch.stack([field(position, torch.tensor([j]))[0] for j in range(field.epoch)]).std().item()
    chance = np.mean([distance(exact(chains * DRAWS, seed)) for seed in range(5)])
    makers: dict[str, Callable[[float], Kernel]] = {
        "SGHMC": lambda h: ggmc.SGHMC(h, FRICTION, STEPS, ggmc.Minibatch(BATCH, "iid")),
        "AMAGOLD without its test": lambda h: ggmc.AMAGOLD(
            h, FRICTION, STEPS, ggmc.Minibatch(BATCH, "iid"), adjust=False
        ),
        "AMAGOLD": lambda h: ggmc.AMAGOLD(h, FRICTION, STEPS, ggmc.Minibatch(BATCH, "iid")),
        "GGMC, palindromes": lambda h: ggmc.GGMC(h, FRICTION, STEPS, "O(ABA)O", ggmc.Minibatch(BATCH)),
    }
    print(f"Standard deviation of the minibatch gradient: {noise:.2f}")
    print(f"Total variation of as many exact draws: {chance:.4f}\n")
    print("Total variation (acceptance) by step size\n")
    print(f"{'':26}" + "".join(f"{h:>15}" for h in STEP_SIZES))
    found: dict[str, list[float]] = {}
    shown: dict[str, np.ndarray] = {}
    for name, make in makers.items():
        line = f"{name:26}"
        found[name] = []
        for h in STEP_SIZES:
            draws, accepted = draw(target, make(h), chains)
            found[name].append(distance(draws))
            line += f"{found[name][-1]:8.4f} ({accepted:.2f})"
            if h == 0.3:
                shown[name] = draws
        print(line, flush=True)

    figure, axes = plt.subplots(1, 2, figsize=(13, 5), constrained_layout=True)
    middles, width = (EDGES[1:] + EDGES[:-1]) / 2, EDGES[1] - EDGES[0]
    axes[0].plot(middles, truth() / width, color="black", linewidth=3, alpha=0.4, label="truth")
    for name, draws in shown.items():
        axes[0].plot(middles, np.histogram(draws, EDGES)[0] / len(draws) / width, label=name)
    axes[0].set(xlabel="θ", ylabel="density", title="Double well, step size 0.3")
    for name, distances in found.items():
        axes[1].loglog(STEP_SIZES, distances, "o-", label=name)
    axes[1].axhline(chance, color="black", linestyle=":", label="as many exact draws")
    axes[1].set(xlabel="step size h", ylabel="total variation distance to the truth", title="Bias")
    for axis in axes:
        axis.legend(frameon=False)
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/amagold.png", dpi=110)
    print("\nSaved out/amagold.png")


if __name__ == "__main__":
    main()
