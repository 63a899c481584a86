"""What the runs of the study show: its figures as PDF and PNG, and all their numbers as JSON."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import ggmc
from experiments.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, STYLE, VERMILION, save, write_numbers
from experiments.integrators.rates import OURS, PAPERS
from experiments.integrators.settings import Size

ROWS = {"potential": "potential U", "kinetic": "kinetic energy K", "log_accept": "log α"}
RUNS = ("GGMC", "HMC", "sweeps", "sweeps, augmented guide")
LINES = ("o-", "s--", "^:", "D-.", "v-", "P--", "X:", "<-.")  # told apart without colour too
COLOURS = (BLACK, ORANGE, BLUE, GREEN, VERMILION, PURPLE, SKY, GREY)


def draw_all(size: Size, runs: dict[str, str], half: list[dict[str, Any]], out: str) -> dict[str, Any]:
    """All figures and numbers of the study.

    Args:
        size: Of the study.
        runs: The folder of each run, by its name.
        half: What `rates.half_accepted` found.
        out: Where figures go.

    Returns:
        The numbers.
    """
    folder = Path(out)
    measured = {name: _measured(size, path) for name, path in runs.items()}
    with plt.rc_context(STYLE):
        for temperature in size.temperatures:
            curves(size, measured, temperature, folder / f"energies T={temperature:g}")
        acceptance(size, measured, half, folder / "acceptance")
    means = {name: _in_short(run) for name, run in measured.items()}
    numbers: dict[str, Any] = {"size": size.name, "runs": means, "half": half}
    by_arm = {str(each["arm"]): float(each["rate"]) for each in half}
    numbers["factor"] = by_arm[OURS] / by_arm[PAPERS]
    write_numbers(folder, numbers)
    return numbers


def _measured(size: Size, path: str) -> dict[str, np.ndarray]:
    """Per cycle: energies and log α of a run of one chain."""
    trace = ggmc.load(path)
    dimensions = trace.positions.shape[-1]
    warmth = trace.stats["kinetic_temperature"][0]
    return {
        "epoch": size.epochs * (1 + np.arange(trace.num_draws)),
        "potential": -trace.stats["lp"][0],
        "kinetic": warmth * dimensions / 2,
        "warmth": warmth,
        "log_accept": trace.stats["log_accept"][0],
        "learning_rate": size.images * trace.stats["step_size"][0] ** 2,
        "accepted": np.exp(np.minimum(0.0, trace.stats["log_accept"][0])),
    }


def _in_short(run: dict[str, np.ndarray]) -> dict[str, float | None]:
    """Means over the second half of a run; None where they are not finite."""
    late = {name: values[len(values) // 2 :] for name, values in run.items()}
    means = {name: float(np.mean(values)) for name, values in late.items() if name != "epoch"}
    return {name: value if math.isfinite(value) else None for name, value in means.items()}


def curves(size: Size, measured: dict[str, dict[str, np.ndarray]], temperature: float, path: Path) -> None:
    """The paper's Fig. 1 and A.1: energies and log α against the epoch, GGMC beside HMC.

    Args:
        size: Of the study.
        measured: By the runs' names.
        temperature: T.
        path: Of the figure, without its ending.
    """
    colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.85, len(size.learning_rates)))
    figure, axes = plt.subplots(3, 2, figsize=(8.5, 8), sharex=True, sharey="row")
    for column, arm in enumerate(("GGMC", "HMC")):
        for rate, colour, line in zip(size.learning_rates, colours, LINES, strict=False):
            run = measured[f"{arm} lr={rate:g} T={temperature:g}"]
            for axis, kind in zip(axes[:, column], ROWS, strict=True):
                axis.plot(run["epoch"], run[kind], line, color=colour, markersize=3, label=f"{rate:g}")
        axes[0, column].set_title(arm)
        axes[2, column].set_xlabel("epoch")
    for axis, label in zip(axes[:, 0], ROWS.values(), strict=True):
        axis.set_ylabel(label)
    axes[2, 0].set_yscale("symlog", linthresh=1.0)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right center", title="learning rate")
    figure.suptitle(f"ResNet-20, {size.images:,} images, T = {temperature:g}, {size.epochs} epochs between two tests")
    save(figure, path)


def acceptance(size: Size, measured: dict[str, dict[str, np.ndarray]], half: list[dict[str, Any]], path: Path) -> None:
    """Acceptance against the learning rate: in the runs themselves, and from states that were burnt in.

    Args:
        size: Of the study.
        measured: By the runs' names.
        half: What `rates.half_accepted` found.
        path: Of the figure, without its ending.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 5.2))
    for arm, colour, line in zip(RUNS, COLOURS, LINES, strict=False):
        means = [_in_short(measured[f"{arm} lr={rate:g} T=1"])["log_accept"] for rate in size.learning_rates]
        left.plot(size.learning_rates, [-math.inf if m is None else m for m in means], line, color=colour, label=arm)
    for each, colour, line in zip(half, COLOURS, LINES, strict=False):
        points = np.array(sorted(zip(each["rates"], each["acceptance"], strict=True)))
        right.plot(points[:, 0], points[:, 1], line, color=colour, label=each["arm"])
    right.axhline(0.5, color=GREY, linewidth=0.8)
    left.set_title("in the runs, T = 1 (SGHMC: −∞)")
    right.set_title("from states that were burnt in, T = 1")
    left.set_yscale("symlog", linthresh=1.0)
    left.set_ylabel("mean of log α")
    right.set_ylabel("mean of min(1, α)")
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xlabel("learning rate N h²")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16))
    save(figure, path)
