"""Two claims of Garriga-Alonso and Fortuin (2020): which samplers have a way back, and tests deferred over many steps.

Run with `python -m experiments.claims [--size tiny|small|full] [--out DIR]`; small takes about two minutes.

First, on U = x⁴/4 + x, trajectories of nine samplers are retraced step by step: from the end, with the momentum
negated and the minibatches in reverse order, the noise is sought that leads back to the start. Where none does, the
acceptance probability is zero: SGHMC, and any schedule that does not read the same backwards, such as a cosine. Then
chains with minibatches start from exact draws and are tested once in K steps: E[x²] with the test and without it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import torch

import ggmc
from experiments.figures import BLUE, GREEN, VERMILION, command, save, size_named, styled, write_numbers
from experiments.quartic import mean_of_square, quartic_of_examples
from ggmc import progress
from ggmc.kernels import Kernel

STEP, FRICTION, STEPS = 0.2, 1.0, 8
BATCH, SPREAD = 10, 6.0
COSINE = ggmc.schedule.Cosine(0.1)
SAMPLERS: dict[str, Kernel] = {
    "GGMC (OBABO)": ggmc.GGMC(STEP, FRICTION, STEPS),
    "GGMC (OBABO), minibatches": ggmc.GGMC(STEP, FRICTION, STEPS, guide=ggmc.Minibatch(BATCH, "iid")),
    "GGMC, O(ABA)O": ggmc.GGMC(STEP, FRICTION, STEPS, "O(ABA)O"),
    "HMC": ggmc.HMC(STEP, STEPS),
    "MALT": ggmc.MALT(STEP, FRICTION, STEPS),
    "AMAGOLD": ggmc.AMAGOLD(STEP, FRICTION, STEPS),
    "GGMC, cosine there and back": ggmc.GGMC(
        STEP, FRICTION, STEPS, along=ggmc.schedule.Along(step_size=ggmc.schedule.ThereAndBack(COSINE))
    ),
    "GGMC, cosine": ggmc.GGMC(STEP, FRICTION, STEPS, along=ggmc.schedule.Along(step_size=COSINE), adjust=False),
    "SGHMC": ggmc.SGHMC(STEP, FRICTION, STEPS),
}


class Settings(NamedTuple):
    """How much is run."""

    chains: int
    steps: int
    """Of each chain, in all."""
    lengths: tuple[int, ...]
    """Steps between two tests, K."""


SIZES = {
    "tiny": Settings(8_000, 60, (1, 15)),
    "small": Settings(10_000, 256, (1, 2, 4, 8, 16, 32, 64)),
    "full": Settings(100_000, 512, (1, 2, 4, 8, 16, 32, 64, 128)),
}


def way_back(kernel: Kernel) -> dict[str, Any]:
    """How near the way back comes, and log α of one trajectory.

    Args:
        kernel: Any.
    """
    target = quartic_of_examples(SPREAD)
    found = ggmc.retrace(kernel, target)
    init, step = kernel.bind(target)
    generator = torch.Generator().manual_seed(0)
    state = init(torch.zeros(1, 1, dtype=torch.float64), generator)
    log_alpha = step(state, generator)[1].log_accept.item()
    return {
        "distance": found.distance,
        "possible": found.possible,
        "log_alpha": log_alpha if math.isfinite(log_alpha) else None,
    }


def deferred(steps: int, settings: Settings) -> dict[str, float]:
    """E[x²] of GGMC with minibatches, less the truth, tested once in so many steps, and not tested.

    Args:
        steps: K.
        settings: How much is run.
    """
    target, guide = quartic_of_examples(SPREAD), ggmc.Minibatch(BATCH, "iid")
    row: dict[str, float] = {"steps": steps}
    for name, adjust in (("tested", True), ("untested", False)):
        kernel = ggmc.GGMC(STEP, FRICTION, steps, guide=guide, adjust=adjust)
        bias, rate = mean_of_square(kernel, target, settings.chains, max(3, settings.steps // steps), seed=steps)
        row |= {f"{name}_bias": bias.mean, f"{name}_bias_error": bias.error}
        if adjust:
            row["acceptance"] = rate.mean
    return row


def main(size: str = "small", out: Path = Path("out/claims")) -> Path:
    """Retrace, defer, draw.

    Args:
        size: "tiny", "small" or "full".
        out: The folder of figures and numbers.

    Returns:
        The folder.
    """
    settings = size_named(size, SIZES)
    numbers: dict[str, Any] = {"size": size, "chains": settings.chains, "step_size": STEP, "friction": FRICTION}
    numbers["way_back"] = {name: way_back(kernel) for name, kernel in SAMPLERS.items()}
    for name, found in numbers["way_back"].items():
        print(f"{name:30}{'way back' if found['possible'] else 'no way back'}, misses by {found['distance']:.1e}")
    with progress.bar(settings.lengths, desc="steps between two tests") as lengths:
        numbers["deferred"] = [deferred(steps, settings) for steps in lengths]
    draw(numbers, out)
    write_numbers(out, numbers)
    return out


@styled
def draw(numbers: dict[str, Any], out: Path) -> None:
    """The figure.

    Args:
        numbers: As in numbers.json.
        out: Its folder.
    """
    rows = numbers["deferred"]
    figure, (bias, rate) = plt.subplots(1, 2, figsize=(7.4, 2.9), gridspec_kw={"wspace": 0.1})
    steps = [row["steps"] for row in rows]
    for name, line, colour, label in (
        ("untested", "^--", VERMILION, "without the test"),
        ("tested", "s-", GREEN, "tested once in K steps"),
    ):
        errors = [2 * row[f"{name}_bias_error"] for row in rows]
        bias.errorbar(steps, [row[f"{name}_bias"] for row in rows], errors, fmt=line, color=colour, label=label)
    bias.axhline(0, color="black", linewidth=0.6)
    bias.set(ylabel="bias of E[θ²]", title="(a) Bias, ± 2 standard errors")
    bias.legend()
    rate.plot(steps, [row["acceptance"] for row in rows], "o-", color=BLUE)
    rate.set(ylabel="mean of min(1, α)", ylim=(0, 1), title="(b) Acceptance")
    for axis in (bias, rate):
        axis.set_xscale("log", base=2)
        axis.set_xlabel("steps between two tests, K")
    save(figure, out / "deferred")


if __name__ == "__main__":
    command(main, __doc__)
