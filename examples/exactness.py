"""Exact posterior draws, and the bias of leaving out the Metropolis test.

First a skewed density in two dimensions, whose moments are known: GGMC beside the same Langevin dynamics without the
test. Then a Bayesian logistic regression on scikit-learn's breast-cancer data, with nothing tuned by hand. Then the
same posterior from minibatches, which the test keeps just as exact, and from SGHMC, which it cannot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import arviz
import matplotlib
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer

import ggmc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

torch.set_default_dtype(torch.float64)
OUT = Path("out")


# A skewed density: x falls off slowly to the left and fast to the right, and y follows its size.


def skewed(p: torch.Tensor) -> torch.Tensor:
    """Log density of one point."""
    x, y = p[0], p[1]
    return x - 5 * torch.nn.functional.softplus(x) - (y - torch.sqrt(1 + x**2)) ** 2 / 2


target = ggmc.Density(skewed, torch.zeros(2))
settings = {"step_size": 1.2, "friction": 1.0, "steps": 3}
runs = {
    "GGMC": ggmc.sample(target, ggmc.GGMC(**settings), draws=5_000, warmup=500),
    "without the test": ggmc.sample(target, ggmc.GGMC(**settings, adjust=False), draws=5_000, warmup=500),
}

x_grid, y_grid = torch.linspace(-30, 8, 1500), torch.linspace(-6, 36, 1500)
xs, ys = torch.meshgrid(x_grid, y_grid, indexing="xy")
density = torch.exp(torch.func.vmap(torch.func.vmap(skewed))(torch.stack([xs, ys], -1)))
density = (density / density.sum()).numpy()
functions = {"x": lambda x, y: x, "x²": lambda x, y: x**2, "y": lambda x, y: y, "xy": lambda x, y: x * y}

print("\nA skewed density: mean ± Monte Carlo error, and how many errors off the truth\n")
print(f"{'':6}{'truth':>9}" + "".join(f"{name:>31}" for name in runs))
for label, function in functions.items():
    truth = (density * function(xs.numpy(), ys.numpy())).sum()
    line = f"{'E[' + label + ']':6}{truth:9.3f}"
    for trace in runs.values():
        values = function(trace["theta"][..., 0], trace["theta"][..., 1])
        mean, error = values.mean(), arviz.mcse(values)
        line += f"{mean:14.3f} ± {error:.3f} ({(mean - truth) / error:+5.1f})"
    print(line)
accepted = [trace.stats["acceptance_rate"].mean() for trace in runs.values()]
print(f"\nSame dynamics, same cost. The test accepts {accepted[0]:.2f} of the trajectories, and so makes them exact.")


# Logistic regression: 30 standardised features and a constant, weights ~ N(0, 1).

data: Any = load_breast_cancer()
X = torch.from_numpy((data.data - data.data.mean(0)) / data.data.std(0))
benign = torch.from_numpy(data.target).double()


def log_posterior(p: dict[str, torch.Tensor]) -> torch.Tensor:
    """Log prior and log likelihood, summed over all data."""
    logits = X @ p["weights"] + p["constant"]
    log_prior = -(p["weights"] ** 2).sum() / 2 - p["constant"] ** 2 / 2
    return log_prior + (benign * logits - torch.nn.functional.softplus(logits)).sum()


posterior = ggmc.Density(log_posterior, {"weights": torch.zeros(30), "constant": torch.zeros(())})
trace = ggmc.sample(posterior)

table, lengths = trace.summary(), trace.stats["n_steps"]
table.index = [*data.feature_names, "constant"]
strongest = table.loc[table["mean"].abs().sort_values(ascending=False).index]
print("\nBreast cancer, benign or not: the ten strongest of 31 weights\n")
print(strongest.head(10)[["mean", "sd", "hdi_3%", "hdi_97%", "ess_bulk", "r_hat"]].to_string())
print(
    f"\nTuned by itself: step size {trace.kernel.step_size:.2f}, {lengths.min()} to {lengths.max()} steps, mass "
    f"{trace.kernel.mass}; acceptance {trace.stats['acceptance_rate'].mean():.2f}, worst R̂ {table['r_hat'].max():.3f}, "
    f"fewest effective draws {table['ess_bulk'].min():.0f} of {trace.num_chains * trace.num_draws}."
)


# The same posterior from minibatches: a prior, and a likelihood with one term per example.


def log_likelihood(p: dict[str, torch.Tensor], batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """One term for each example of the batch."""
    rows, outcomes = batch
    return torch.nn.functional.logsigmoid((2 * outcomes - 1) * (rows @ p["weights"] + p["constant"]))


with_data = ggmc.DataDensity(
    log_prior=lambda p: -(p["weights"] ** 2).sum() / 2 - p["constant"] ** 2 / 2,
    log_likelihood=log_likelihood,
    data=(X, benign),
    start={"weights": torch.zeros(30), "constant": torch.zeros(())},
)
from_batches = {
    "palindromic minibatches": ggmc.sample(with_data, ggmc.GGMC(guide=ggmc.Minibatch(115)), draws=500, warmup=300),
    "control variates": ggmc.sample(
        with_data, ggmc.GGMC(guide=ggmc.ControlVariate(115, curvature="dense")), draws=500, warmup=300
    ),
    "SGHMC, no test": ggmc.sample(
        with_data, ggmc.SGHMC(0.03, 1.0, "10 epochs", ggmc.Minibatch(115, "iid")), draws=500, warmup=300
    ),
}


def weights_of(run: ggmc.Trace) -> np.ndarray:
    """All 31 parameters: [chains, draws, 31]."""
    return np.concatenate([run["weights"], run["constant"][..., None]], -1)


exact = weights_of(trace)
exact_error = np.array([arviz.mcse(exact[..., i]) for i in range(31)])
print("\nThe same posterior from minibatches of 115 of the 569 patients\n")
print(f"{'':26}{'acceptance':>11}{'means off by, worst':>26}{'spreads ÷ exact':>22}")
for name, run in from_batches.items():
    draws = weights_of(run)
    error = np.hypot(exact_error, [arviz.mcse(draws[..., i]) for i in range(31)])
    off = np.abs(draws.mean((0, 1)) - exact.mean((0, 1))) / error
    ratio = draws.std((0, 1)) / exact.std((0, 1))
    rate = run.stats["acceptance_rate"].mean()
    print(f"{name:26}{rate:11.2f}{off.max():16.1f} MC errors{ratio.min():14.2f} to {ratio.max():.2f}")


# The picture

figure, axes = plt.subplots(2, 2, figsize=(12, 10), constrained_layout=True)
blue, orange = "#2b6cb0", "#dd6b20"
levels = density.max() * np.array([0.01, 0.1, 0.4, 0.8])
for axis, (name, run), colour in zip(axes[0], runs.items(), (blue, orange), strict=True):
    shown = run["theta"][:, ::4].reshape(-1, 2)
    axis.plot(*shown.T, ".", color=colour, alpha=0.25, markersize=3)
    axis.contour(xs, ys, density, levels=levels, colors="black", linewidths=0.8)
    axis.set(xlim=(-8, 4), ylim=(-3, 9), xlabel="x", ylabel="y", title=f"{name}: draws on the true contours")
bins = np.linspace(-8, 5, 70)
for (name, run), colour in zip(runs.items(), (blue, orange), strict=True):
    axes[1, 0].hist(run["theta"][..., 0].ravel(), bins, density=True, color=colour, alpha=0.5, label=name)
marginal = density.sum(0) / (x_grid[1] - x_grid[0]).item()
axes[1, 0].plot(x_grid, marginal, color="black", label="truth")
axes[1, 0].set(xlim=(-8, 5), xlabel="x", ylabel="density", title="x alone: exact, and biased without the test")
axes[1, 0].legend(frameon=False)
top = strongest.head(12)[::-1]
axes[1, 1].errorbar(top["mean"], range(len(top)), xerr=2 * top["sd"], fmt="o", color=blue, capsize=3)
axes[1, 1].axvline(0, color="black", linewidth=0.8)
axes[1, 1].set_yticks(range(len(top)), top.index)
axes[1, 1].set(xlabel="weight (mean ± 2 sd)", title="Breast cancer: what speaks for benign (right) or not (left)")
OUT.mkdir(exist_ok=True)
figure.savefig(OUT / "exactness.png", dpi=110)
print(f"\nSaved {OUT / 'exactness.png'}")
