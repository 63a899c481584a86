"""The double well of the AMAGOLD paper: what SGHMC's bias looks like, and its absence.

Run with `python -m experiments.double_well [--size tiny|small|full] [--out DIR]`; full takes about two minutes on an
idle machine. U(θ) = (θ+4)(θ+1)(θ−1)(θ−3)/14 + ½, shared out over 100 examples that also pull to the left and right: the
gradients of minibatches of ten are noisy. AMAGOLD, palindromic GGMC and SGHMC have the same step sizes, friction and
gradients per trajectory, and start from the truth. The bias is the total variation distance between the histogram of
the draws and the truth; beside it stands what as many exact draws would show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import Tensor

import ggmc
from experiments import figures
from ggmc import progress
from ggmc.kernels import Kernel

EXAMPLES, BATCH, STEPS, FRICTION = 100, 10, 10, 1.0
BINS, EDGES = 66, np.linspace(-6, 5, 67)
SHOWN = 0.3  # the step size whose histograms are drawn


class Settings(NamedTuple):
    """How much is run."""

    chains: int
    burn_in: int
    draws: int
    """Of each chain, five trajectories apart."""
    step_sizes: tuple[float, ...]


SIZES = {
    "tiny": Settings(1_000, 50, 6, (0.05, 0.3)),
    "small": Settings(2_000, 100, 20, (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)),
    "full": Settings(4_000, 150, 30, (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)),
}

IID, PALINDROMES = ggmc.Minibatch(BATCH, "iid"), ggmc.Minibatch(BATCH)
KERNELS: dict[str, Callable[[float], Kernel]] = {
    "SGHMC": lambda h: ggmc.SGHMC(h, FRICTION, STEPS, IID),
    "AMAGOLD without its test": lambda h: ggmc.AMAGOLD(h, FRICTION, STEPS, IID, adjust=False),
    "AMAGOLD": lambda h: ggmc.AMAGOLD(h, FRICTION, STEPS, IID),
    "GGMC, palindromes": lambda h: ggmc.GGMC(h, FRICTION, STEPS, "O(ABA)O", PALINDROMES),
}
LOOKS = {
    "SGHMC": (figures.VERMILION, "o", "-"),
    "AMAGOLD without its test": (figures.ORANGE, "^", "--"),
    "AMAGOLD": (figures.BLUE, "s", "-."),
    "GGMC, palindromes": (figures.GREEN, "D", ":"),
}


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


def draws_of(target: ggmc.DataDensity, kernel: Kernel, settings: Settings) -> tuple[np.ndarray, float | None]:
    """Draws of all chains, and the acceptance; None where α is not defined."""
    generator = torch.Generator().manual_seed(1)
    init, step = kernel.bind(target)
    state = init(torch.from_numpy(exact(settings.chains, seed=2))[:, None], generator)
    kept, accepted = [], []
    for trajectory in range(settings.burn_in + 5 * settings.draws):
        state, info = step(state, generator)
        accepted.append(info.acceptance().mean().item())
        if trajectory >= settings.burn_in and trajectory % 5 == 0:
            kept.append(state.position[:, 0].numpy())
    rate = None if isinstance(kernel, ggmc.SGHMC) else float(np.mean(accepted[settings.burn_in :]))
    return np.concatenate(kept), rate


def truth() -> np.ndarray:
    """The probability of each bin."""
    grid = np.linspace(EDGES[0], EDGES[-1], BINS * 200 + 1)
    density = np.exp(-potential(grid))
    middle = (density[1:] + density[:-1]) / 2
    return middle.reshape(BINS, 200).sum(1) / middle.sum()


def exact(number: int, seed: int) -> np.ndarray:
    """Draws of the truth: a bin, and a place in it."""
    random = np.random.default_rng(seed)
    bins = random.choice(BINS, number, p=truth())
    return EDGES[bins] + (EDGES[1] - EDGES[0]) * random.uniform(size=number)


def shares(draws: np.ndarray) -> np.ndarray:
    """The share of draws in each bin."""
    return np.histogram(draws, EDGES)[0] / len(draws)


def distance(draws: np.ndarray) -> float:
    """Total variation between the histogram and the truth."""
    inside = shares(draws)
    return float(np.abs(inside - truth()).sum() + max(0.0, 1 - inside.sum())) / 2


def main(size: str = "small", out: Path = Path("out/double_well")) -> Path:
    """Sample with every kernel at every step size, draw.

    Args:
        size: "tiny", "small" or "full".
        out: The folder of figures and numbers.

    Returns:
        The folder.
    """
    settings, target = figures.size_named(size, SIZES), double_well()
    field = PALINDROMES.bind(target)
    position = torch.zeros(1, 1, dtype=torch.float64)
    noise = torch.stack([field(position, torch.tensor([j]))[0] for j in range(field.epoch)]).std().item()
    by_chance = [distance(exact(settings.chains * settings.draws, seed)) for seed in range(20)]
    runs: dict[str, Any] = {name: {"total_variation": [], "acceptance": []} for name in KERNELS}
    with progress.bar(total=len(KERNELS) * len(settings.step_sizes), desc="runs") as bar:
        for name, make in KERNELS.items():
            for h in settings.step_sizes:
                draws, rate = draws_of(target, make(h), settings)
                runs[name]["total_variation"].append(distance(draws))
                runs[name]["acceptance"].append(rate)
                if h == SHOWN:
                    runs[name]["density"] = (shares(draws) / (EDGES[1] - EDGES[0])).tolist()
                bar.update()
    numbers = {
        "size": size,
        "draws": settings.chains * settings.draws,
        "gradient_noise_sd": noise,
        "exact_draws": {"mean": float(np.mean(by_chance)), "range_of_20": [min(by_chance), max(by_chance)]},
        "step_sizes": list(settings.step_sizes),
        "bin_middles": ((EDGES[1:] + EDGES[:-1]) / 2).tolist(),
        "true_density": (truth() / (EDGES[1] - EDGES[0])).tolist(),
        "runs": runs,
    }
    draw(numbers, out)
    figures.write_numbers(out, numbers)
    return out


@figures.styled
def draw(numbers: dict[str, Any], out: Path) -> None:
    """The figure.

    Args:
        numbers: As in numbers.json.
        out: Its folder.
    """
    figure, (density, bias) = plt.subplots(1, 2, figsize=(7.0, 2.9))
    middles, step_sizes = numbers["bin_middles"], numbers["step_sizes"]
    density.fill_between(middles, numbers["true_density"], color="black", alpha=0.15, linewidth=0, label="truth")
    for name, (colour, marker, line) in LOOKS.items():
        density.plot([], [], marker + line, color=colour, label=name)
        run = numbers["runs"][name]
        density.plot(middles, run["density"], line, color=colour)
        bias.loglog(step_sizes, run["total_variation"], marker + line, color=colour, label=name)
    low, high = numbers["exact_draws"]["range_of_20"]
    bias.axhspan(low, high, color=figures.GREY, alpha=0.35, linewidth=0)
    bias.text(step_sizes[0], low / 1.08, "as many exact draws, 20 times", va="top", fontsize=8, color="#444444")
    density.set(xlabel="position θ", ylabel="density", ylim=(0, None), title=f"(a) Step size h = {SHOWN}")
    bias.set(xlabel="step size h", ylabel="total variation to the truth", title="(b) Bias")
    bias.set_ylim(bottom=low / 1.6)
    bias.set_xticks(step_sizes, [f"{h:g}" for h in step_sizes])
    bias.minorticks_off()
    density.legend(loc="upper right", borderaxespad=0)
    figures.save(figure, out / "double_well")


if __name__ == "__main__":
    figures.command(main, __doc__)
