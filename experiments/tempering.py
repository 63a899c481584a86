"""The tempering curve of a small Bayesian network: how good predictions are against the temperature T.

Run with `python -m experiments.tempering [--size tiny|small|full] [--out DIR]`. At temperature T the distribution
exp(−U/T) is sampled: T = 1 is Bayes' rule, T < 1 a cold posterior. Where cold is better than T = 1 on test data, the
cold posterior effect, something in prior, likelihood or sampler does not fit. Here every trajectory is tested, so that
the sampler has no bias of its own. The net has one hidden layer of tanh units and a standard normal prior on every
weight; the data are scikit-learn's digits, 200 of them for training, so that the posterior is wide.

Intervals are 95 % and speak of the Markov chains alone: the jackknife leaves out one chain at a time. How sure the
test images make a difference is said apart: `nll_less_bayes` compares each temperature with T = 1, image by image.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import arviz
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import t as student
from sklearn.datasets import load_digits
from torch import Tensor, nn

import ggmc
from experiments.figures import BLUE, GREY, command, save, size_named, styled, write_numbers
from ggmc import progress

HIDDEN, PRIOR_SCALE, TEST = 16, 1.0, 1_000


class Settings(NamedTuple):
    """How much is run."""

    images: int
    """For training."""
    chains: int
    warmup: int
    draws: int
    steps: tuple[int, int]
    """The least and the largest number of steps of a trajectory."""
    temperatures: tuple[float, ...]


TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 3.0)
SIZES = {
    "tiny": Settings(60, 4, 60, 40, (5, 15), (0.1, 1.0, 3.0)),
    "small": Settings(200, 6, 120, 120, (15, 35), TEMPERATURES),
    "full": Settings(200, 16, 1_000, 2_000, (50, 150), TEMPERATURES),
}
Scores = dict[str, Callable[[np.ndarray, np.ndarray], float]]
SCORES: Scores = {"nll": ggmc.metrics.nll, "accuracy": ggmc.metrics.accuracy, "ece": ggmc.metrics.ece}
LABELS = {"nll": "Test NLL, nats per image", "accuracy": "Test accuracy", "ece": "Expected calibration error"}


def digits(number: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images [number, 64] and labels, test images and labels."""
    found: Any = load_digits()
    x, y = torch.tensor(found.data / 8 - 1, dtype=torch.float32), torch.tensor(found.target)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    return x[TEST : TEST + number], y[TEST : TEST + number], x[:TEST], y[:TEST]


def with_interval(score: Callable[..., float], probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """A score of the mean over all draws, and the half width of its 95 % interval, by the jackknife over chains.

    Args:
        score: Of probabilities [images, classes] and labels.
        probabilities: The mean over the draws of each chain, [chains, images, classes].
        labels: [images].
    """
    chains = len(probabilities)
    left_out = np.array([score(np.delete(probabilities, one, 0).mean(0), labels) for one in range(chains)])
    error = np.sqrt((chains - 1) * left_out.var())
    return {"value": score(probabilities.mean(0), labels), "half_width": float(error * student.ppf(0.975, chains - 1))}


def row_of(trace: ggmc.Trace, posterior: ggmc.Posterior, x: Tensor, y: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """All that is reported of one temperature, and the log probability of each test image."""
    with torch.no_grad():
        outputs = [posterior.outputs(rows, x).softmax(-1) for rows in trace.rows()]
    drawn = torch.stack(outputs).double().numpy()  # [chains, draws, images, classes]
    r_hats = np.array([float(arviz.rhat(drawn[:, :, image, y[image]])) for image in range(0, len(y), 10)])
    by_chain = drawn.mean(1)
    row: dict[str, Any] = {name: with_interval(score, by_chain, y) for name, score in SCORES.items()}
    row |= {
        "acceptance": float(trace.stats["acceptance_rate"].mean()),
        "divergences": int(trace.stats["diverging"].sum()),
        "step_size": float(trace.kernel.step_size),
        "r_hat_median": float(np.median(r_hats)),
        "r_hat_largest": float(r_hats.max()),
        "r_hat_potential": float(arviz.rhat(np.asarray(trace.stats["lp"]))),
    }
    return row, np.log(by_chain.mean(0)[np.arange(len(y)), y])


def main(size: str = "small", out: Path = Path("out/tempering")) -> Path:
    """Sample at every temperature, score, draw.

    Args:
        size: "tiny", "small" or "full".
        out: The folder of figures and numbers.

    Returns:
        The folder.
    """
    settings = size_named(size, SIZES)
    x, y, x_test, y_test = digits(settings.images)
    torch.manual_seed(0)
    net = ggmc.nets.MLP([64, HIDDEN, 10], nn.Tanh)
    posterior = ggmc.Posterior(net, "categorical", ggmc.priors.Gaussian(PRIOR_SCALE), x, y)
    kernel = ggmc.HMC(steps=settings.steps)
    _, traces = ggmc.tempering(
        posterior, settings.temperatures, kernel,
        draws=settings.draws, warmup=settings.warmup, chains=settings.chains, seed=0,
    )  # fmt: skip
    rows: dict[float, dict[str, Any]] = {}
    logs: dict[float, np.ndarray] = {}
    for temperature in progress.bar(settings.temperatures, desc="scores"):
        rows[temperature], logs[temperature] = row_of(traces[temperature], posterior, x_test, y_test.numpy())
    for temperature, row in rows.items():
        difference = logs[1.0] - logs[temperature]
        row["nll_less_bayes"] = {
            "value": float(difference.mean()), "error_of_test_images": float(difference.std() / len(difference) ** 0.5),
        }  # fmt: skip
    numbers = {
        "size": size, "training_images": settings.images, "test_images": TEST, "chains": settings.chains,
        "draws": settings.draws, "weights": posterior.layout.size, "prior_scale": PRIOR_SCALE,
        "temperatures": list(rows), "rows": list(rows.values()),
    }  # fmt: skip
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
    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4), sharex=True)
    temperatures, rows = numbers["temperatures"], numbers["rows"]
    for axis, letter, (name, label) in zip(axes.flat, "abc", LABELS.items(), strict=False):
        values, widths = ([row[name][key] for row in rows] for key in ("value", "half_width"))
        axis.errorbar(temperatures, values, widths, fmt="o-", color=BLUE)
        axis.set(title=f"({letter}) {label}")
    checks = axes[1, 1]
    checks.plot(temperatures, [row["r_hat_largest"] for row in rows], "v:", color="black", label="R̂, largest")
    checks.plot(temperatures, [row["r_hat_median"] for row in rows], "^--", color="black", label="R̂, median")
    checks.plot(temperatures, [row["acceptance"] for row in rows], "s-", color=BLUE, label="acceptance")
    checks.set(title="(d) Acceptance, and R̂ of predictions", ylim=(min(0.8, *checks.get_ylim()), None))
    checks.legend(loc="upper right")
    for axis in axes.flat:
        axis.axvline(1.0, color=GREY, linewidth=0.8, linestyle="--")
        axis.set(xscale="log")
        axis.set_xticks([0.01, 0.03, 0.1, 0.3, 1.0, 3.0], ["0.01", "0.03", "0.1", "0.3", "1", "3"])
        axis.minorticks_off()
    for axis in axes[1]:
        axis.set_xlabel("temperature T")
    save(figure, out / "tempering")


if __name__ == "__main__":
    command(main, __doc__)
