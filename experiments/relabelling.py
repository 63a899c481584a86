"""SGHMC's acceptance probability is zero, and AMAGOLD tells how wrong it is all the same.

Run with `python -m experiments.relabelling [--size tiny|small|full] [--out DIR]`; small takes about two minutes.

As the pair (θ, m), a step of SGHMC can never be retraced: α = 0 at every step size h (Theorem 1 of Garriga-Alonso and
Fortuin, 2020). But its positions are those of AMAGOLD without the test, at the points where it kicks, with

    c = γh/(2 − γh),   h' = h √(1 + c),   m' = m/√(1 + c)

because then (1 − c)/(1 + c) = 1 − γh, h'²/(1 + c) = h² and h'm' = hm make the two updates of the kick points the same.
AMAGOLD's log α is finite. Here both are run with the same noise and the same minibatches, on U = x⁴/4 + x with
γ = 1; then the mean of min(1, α), for trajectories of length 1, is put beside the bias of SGHMC's E[θ²].
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

import ggmc
from experiments.figures import BLUE, GREEN, GREY, VERMILION, command, save, size_named, styled, write_numbers
from experiments.quartic import F64, exact_draws, mean_of_square, quartic, quartic_of_examples
from ggmc import progress
from ggmc.dynamics.state import State
from ggmc.dynamics.trajectory import Trajectory
from ggmc.guides import GradientField, Guide
from ggmc.kernels import Kernel, WordKernel
from ggmc.targets.base import Target

FRICTION, BATCH, SPREAD = 1.0, 10, 6.0
CASES: dict[str, tuple[Target, Guide]] = {
    "exact gradients": (quartic(), ggmc.Exact()),
    "minibatches": (quartic_of_examples(SPREAD), ggmc.Minibatch(BATCH, "iid")),
}
PATH_STEP, PATH_TIME = 0.125, 12.0


class Settings(NamedTuple):
    """How much is run."""

    chains: int
    trajectories: int
    steps: tuple[int, ...]
    """Of a trajectory of length 1: the step sizes are 1/steps."""


SIZES = {
    "tiny": Settings(1_500, 15, (4, 12)),
    "small": Settings(8_000, 30, (4, 5, 6, 8, 12, 24)),
    "full": Settings(100_000, 60, (4, 5, 6, 8, 12, 16, 24, 48)),
}


def relabelled(h: float, steps: int, guide: Guide, adjust: bool = False) -> ggmc.AMAGOLD:
    """The AMAGOLD whose kick points are SGHMC's positions."""
    c = FRICTION * h / (2 - FRICTION * h)
    other = h * math.sqrt(1 + c)
    return ggmc.AMAGOLD(other, 2 * c / other, steps, guide, adjust=adjust)


class Recording(GradientField):
    """Another field, which remembers where it was asked."""

    def __init__(self, of: GradientField):
        super().__init__(order=of.order, epoch=of.epoch, sweep=of.sweep)
        self.of, self.positions = of, []

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, Tensor | None]:
        self.positions.append(position)
        return self.of(position, entry)[0], None


def kick_points(kernel: WordKernel, target: Target, start: State, tape: Tensor | None, noise: Tensor) -> Tensor:
    """The positions [steps, chains, 1] at which a trajectory kicks, carried out with given noise and minibatches."""
    field = Recording(kernel.guide.bind(target))
    sampler = kernel.sampler(target, field)
    path = Trajectory(start, sampler.parameters, field, tape, iter(noise).__next__)
    path.run(sampler.scheme.plan(len(noise)).moves)
    return torch.stack(field.positions)


def two_paths(target: Target, guide: Guide, h: float, steps: int, chains: int) -> tuple[Tensor, Tensor]:
    """SGHMC's positions and AMAGOLD's kick points, with the same noise and the same minibatches."""
    generator = torch.Generator().manual_seed(0)
    position = exact_draws(chains, generator)
    momentum = torch.randn(chains, 1, dtype=F64, generator=generator)
    noise = torch.randn(steps, chains, 1, dtype=F64, generator=generator)
    tape = guide.bind(target).tape(steps, chains, generator)
    c = FRICTION * h / (2 - FRICTION * h)
    # AMAGOLD reaches its first kick after half a drift.
    earlier = State(position - h / 2 * momentum, momentum / math.sqrt(1 + c))
    sghmc = kick_points(ggmc.SGHMC(h, FRICTION, steps, guide), target, State(position, momentum), tape, noise)
    return sghmc, kick_points(relabelled(h, steps, guide), target, earlier, tape, noise)


def one_trajectory(target: Target, kernel: Kernel, chains: int) -> Tensor:
    """log α of one trajectory of each chain."""
    generator = torch.Generator().manual_seed(3)
    init, step = kernel.bind(target)
    return step(init(exact_draws(chains, generator), generator), generator)[1].log_accept


def main(size: str = "small", out: Path = Path("out/relabelling")) -> Path:
    """Compare paths, measure acceptance and bias, draw.

    Args:
        size: "tiny", "small" or "full".
        out: The folder of figures and numbers.

    Returns:
        The folder.
    """
    settings = size_named(size, SIZES)
    numbers: dict[str, Any] = {
        "size": size, "friction": FRICTION, "chains": settings.chains, "trajectories": settings.trajectories,
    }  # fmt: skip
    steps = round(PATH_TIME / PATH_STEP)
    for name, (target, guide) in CASES.items():
        sghmc, amagold = two_paths(target, guide, PATH_STEP, steps, chains=1_000)
        own = one_trajectory(target, ggmc.SGHMC(PATH_STEP, FRICTION, 8, guide), 1_000)
        other = one_trajectory(target, relabelled(PATH_STEP, 8, guide), 1_000)
        numbers[name] = {
            "path_step_size": PATH_STEP,
            "path_sghmc": sghmc[:, 0, 0].tolist(),
            "path_amagold": amagold[:, 0, 0].tolist(),
            "path_difference": (sghmc - amagold).abs().amax((1, 2)).tolist(),
            "largest_difference": (sghmc - amagold).abs().max().item(),
            "sghmc_log_alpha_all_minus_infinity": bool((own == -math.inf).all()),
            "amagold_log_alpha_range": [other.min().item(), other.max().item()],
            "rows": [],
        }
    with progress.bar(total=len(CASES) * len(settings.steps), desc="step sizes") as bar:
        for name, (target, guide) in CASES.items():
            for many in settings.steps:
                numbers[name]["rows"].append(_row(target, guide, many, settings))
                bar.update()
    draw(numbers, out)
    write_numbers(out, numbers)
    return out


def _row(target: Target, guide: Guide, steps: int, settings: Settings) -> dict[str, float]:
    """One step size: SGHMC's bias, the acceptance of its relabelling, and the bias with the test."""
    h, much = 1 / steps, (settings.chains, settings.trajectories)
    bias, _ = mean_of_square(ggmc.SGHMC(h, FRICTION, steps, guide), target, *much, seed=steps)
    _, alpha = mean_of_square(relabelled(h, steps, guide), target, *much, seed=steps + 1)
    tested, rate = mean_of_square(relabelled(h, steps, guide, adjust=True), target, *much, seed=steps + 2)
    return {
        "step_size": h,
        "sghmc_bias": bias.mean, "sghmc_bias_error": bias.error,
        "alpha": alpha.mean, "alpha_error": alpha.error,
        "tested_bias": tested.mean, "tested_bias_error": tested.error, "tested_acceptance": rate.mean,
    }  # fmt: skip


@styled
def draw(numbers: dict[str, Any], out: Path) -> None:
    """The figure.

    Args:
        numbers: As in numbers.json.
        out: Its folder.
    """
    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4), sharex="col", height_ratios=(1.15, 1))
    (path, alpha), (difference, bias) = axes
    shown = numbers["minibatches"]
    times = [PATH_STEP * number for number in range(len(shown["path_sghmc"]))]
    path.plot(times, shown["path_sghmc"], "-", color=BLUE, linewidth=4, alpha=0.4, label="SGHMC")
    path.plot(times, shown["path_amagold"], "--", color="black", linewidth=0.9, label="AMAGOLD, kick points")
    alpha.plot([0, 0.26], [0, 0], "-", color=GREY, label="SGHMC as (θ, m): α = 0")
    for name, colour, line in (("exact gradients", BLUE, "o-"), ("minibatches", VERMILION, "^--")):
        found = numbers[name]
        floored = [max(value, 1e-17) for value in found["path_difference"]]
        difference.semilogy(times, floored, line[1:], color=colour, linewidth=1.0, label=name)
        _curve(alpha, found["rows"], "alpha", line, colour, f"relabelled, {name}")
        _curve(bias, found["rows"], "sghmc_bias", line, colour, f"SGHMC, {name}")
    _curve(bias, shown["rows"], "tested_bias", "s:", GREEN, "AMAGOLD, minibatches")
    path.set(ylabel="position θ", title="(a) One path of each, with the same noise")
    difference.set(xlabel="time t", ylabel="largest difference", ylim=(3e-17, 3e-14), title="(b) 1,000 pairs of paths")
    alpha.set(ylabel="mean of min(1, α)", ylim=(-0.06, 1.06), title="(c) Acceptance, trajectories of length 1")
    bias.set(xlabel="step size h", ylabel="bias of E[θ²]", xlim=(0, 0.26), title="(d) Bias, ± 2 standard errors")
    bias.axhline(0, color="black", linewidth=0.6)
    path.margins(y=0.25)
    path.legend(loc="upper right", ncols=2)
    difference.legend(loc="lower right", ncols=2)
    alpha.legend(loc="center left", bbox_to_anchor=(0.0, 0.3))
    bias.legend(loc="upper left")
    save(figure, out / "relabelling")


def _curve(axis: Axes, rows: list[dict[str, float]], key: str, line: str, colour: str, label: str) -> None:
    """One quantity against the step size."""
    h, values, errors = ([row[k] for row in rows] for k in ("step_size", key, f"{key}_error"))
    axis.errorbar(h, values, [2 * error for error in errors], fmt=line, color=colour, label=label)


if __name__ == "__main__":
    command(main, __doc__)
