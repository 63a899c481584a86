"""The predictive band of a small network on the 120-point synthetic regression, beside a long run of HMC.

Run with `.venv/bin/python -m benchmarks.band`, with the reference data at hand; saves out/band.png. One hidden layer of
50 tanh units, known noise. Palindromic minibatch sweeps with the test, and SGHMC without one, are compared with exact
full-gradient HMC run ten times as long: root mean squared distance of the predictive mean and of the band's half-width,
in units of the latter. A second, independent run of HMC shows what distance is Monte Carlo error.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from torch import nn

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ggmc
from benchmarks.posteriors import DATA

NOISE = 0.15


def main() -> None:
    """Print the distances, save the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    data = np.load(DATA / "hmc_reference" / "synthetic_regression.npz")
    x, y, x_test = inputs_of(data)
    torch.manual_seed(0)
    net = ggmc.nets.MLP([1, 50, 1], nn.Tanh).double()
    prior = {
        "*.bias": ggmc.priors.Gaussian(1.0),
        "layers.0.weight": ggmc.priors.Gaussian(3.0),
        "*": ggmc.priors.Gaussian(2.0, fan_in=True),
    }
    posterior = ggmc.Posterior(net, ggmc.likelihoods.Gaussian(NOISE), prior, x, y, start="map", vectorise=True)
    draws = options.draws
    runs: dict[str, tuple[Any, int, int]] = {
        "HMC, long": (ggmc.HMC(), 10 * draws, 0),
        "HMC, long, again": (ggmc.HMC(), 10 * draws, 1),
        "GGMC, palindromic minibatches": (ggmc.GGMC(guide=ggmc.Minibatch(30)), draws, 2),
        "SGHMC": (ggmc.SGHMC(0.006, 5.0, "20 epochs", ggmc.Minibatch(30, "iid")), draws, 3),
    }
    found: dict[str, ggmc.Prediction] = {}
    seconds: dict[str, float] = {}
    reference: ggmc.Prediction | None = None
    print(f"{'':32}{'mean off by':>14}{'width off by':>14}{'acceptance':>12}{'seconds':>9}")
    for name, (kernel, number, seed) in runs.items():
        begun = time.perf_counter()
        trace = ggmc.sample(posterior, kernel, number, max(300, number // 4), seed=seed, progress=False)
        seconds[name] = time.perf_counter() - begun
        found[name] = trace.predict(x_test)
        reference = reference or found[name]
        distances = distance(found[name], reference)
        rate = trace.stats["acceptance_rate"].mean()
        print(f"{name:32}{distances[0]:14.4f}{distances[1]:14.4f}{rate:12.2f}{seconds[name]:9.0f}", flush=True)
    picture(found, x, y, x_test)


def inputs_of(data: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The points, standardised, and a grid that goes beyond them."""
    x, y = (torch.from_numpy(data[name]).double().flatten() for name in "xy")
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    edge = 0.3 * (x.max() - x.min())
    return (
        x[:, None],
        y,
        torch.linspace(float(x.min() - edge), float(x.max() + edge), 200, dtype=torch.float64)[:, None],
    )


def half_width(prediction: ggmc.Prediction) -> np.ndarray:
    """Two standard deviations."""
    return 2 * np.sqrt(prediction.total)


def distance(one: ggmc.Prediction, reference: ggmc.Prediction) -> tuple[float, float]:
    """Of means and half-widths, in units of the reference's half-width."""
    unit = half_width(reference)
    parts = (one.mean - reference.mean) / unit, half_width(one) / unit - 1
    return float(np.sqrt(np.mean(parts[0] ** 2))), float(np.sqrt(np.mean(parts[1] ** 2)))


def picture(found: dict[str, ggmc.Prediction], x: torch.Tensor, y: torch.Tensor, x_test: torch.Tensor) -> None:
    """Each band on the reference's edges."""
    shown = {name: one for name, one in found.items() if "again" not in name}
    figure, axes = plt.subplots(1, len(shown), figsize=(5 * len(shown), 4.5), sharey=True, layout="constrained")
    reference = found["HMC, long"]
    grid = x_test[:, 0]
    for axis, (name, one), colour in zip(axes, shown.items(), ("#2b6cb0", "#2f855a", "#dd6b20"), strict=True):
        axis.fill_between(grid, one.mean - half_width(one), one.mean + half_width(one), color=colour, alpha=0.25)
        axis.plot(grid, one.mean, color=colour)
        for sign in (-1, 1):
            axis.plot(grid, reference.mean + sign * half_width(reference), "k--", linewidth=0.8)
        axis.plot(x[:, 0], y, "k.", markersize=3)
        axis.set(title=name, xlabel="x", ylim=(-4, 4))
    axes[0].set_ylabel("y: mean ± 2 sd; dashed, the long run of HMC")
    Path("out").mkdir(exist_ok=True)
    figure.savefig("out/band.png", dpi=110)
    print("\nSaved out/band.png")


if __name__ == "__main__":
    main()
