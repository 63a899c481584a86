"""A Bayesian convolutional net on scikit-learn's digits, sampled exactly from minibatches.

Four chains, driven by palindromic minibatch sweeps, each trajectory tested once against the exact posterior. Beside
them, at no more cost: an SGD point estimate, and SGHMC, the usual sampler, which no test can correct. All are asked for
the test digits, and for a digit that is slowly turned upside down, which none of them has seen.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import ggmc

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUT = Path("out")
torch.manual_seed(0)

digits: Any = load_digits()
order = torch.randperm(len(digits.target))
images = (torch.from_numpy(digits.images).float() / 16)[order, None]
labels = torch.from_numpy(digits.target)[order]
x, y, x_test, y_test = images[:1000], labels[:1000], images[1000:], labels[1000:]


# The posterior of a small convolutional net: three lines

net = ggmc.nets.CNN(channels_in=1, classes=10, image=8, widths=(8, 16))
prior = {"*.bias": ggmc.priors.Gaussian(0.5), "*.weight": ggmc.priors.Gaussian(2.5, fan_in=True)}
posterior = ggmc.Posterior(net, "categorical", prior, x, y, start="map")
trace = ggmc.sample(posterior, ggmc.GGMC(guide=ggmc.Minibatch(250), steps="20 sweeps"), draws=60, warmup=25)


# Beside it: SGHMC at the usual momentum, and an SGD point estimate with the prior as weight decay

step_size, friction = ggmc.from_learning_rate(lr=0.05, momentum=0.9, num_data=len(x), euler=True)
sghmc = ggmc.SGHMC(step_size, friction, "5 epochs", ggmc.Minibatch(100, "epoch"))
biased = ggmc.sample(posterior, sghmc, draws=60, warmup=40)

point = copy.deepcopy(net)
optimiser = torch.optim.SGD(point.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
for _ in range(100):
    for batch in torch.randperm(len(x)).split(50):
        optimiser.zero_grad()
        nn.functional.cross_entropy(point(x[batch]), y[batch]).backward()
        optimiser.step()


def point_prediction(inputs: Tensor) -> np.ndarray:
    """The point estimate's class probabilities."""
    with torch.no_grad():
        return point(inputs).softmax(-1).numpy()


def turned(image: Tensor, degrees: Tensor) -> Tensor:
    """One image [1, 8, 8] at several angles."""
    angle = degrees * torch.pi / 180
    zero = torch.zeros_like(angle)
    rows = [torch.stack([angle.cos(), -angle.sin(), zero], -1), torch.stack([angle.sin(), angle.cos(), zero], -1)]
    grid = nn.functional.affine_grid(torch.stack(rows, 1), [len(degrees), 1, 8, 8], align_corners=False)
    return nn.functional.grid_sample(image.expand(len(degrees), 1, 8, 8), grid, align_corners=False)


# How good is it, and may it be trusted?

print(f"\n{posterior}\n\nIs it sampled?\n")
temperatures = trace.temperatures(draws=25)
for kind in ("kinetic", "configurational"):
    mean, low, high = (temperatures.loc["all", kind + end] for end in ("", "_low", "_high"))
    print(f"    {kind + ' temperature':28}{mean:.3f}  (95 %: {low:.3f} to {high:.3f}; should hold 1)")
mixing = trace.predictive_summary(x_test[:50])
rate, steps = trace.stats["acceptance_rate"].mean(), trace.stats["n_steps"].mean()
print(f"    {'acceptance':28}{rate:.2f}   of trajectories of {steps:.0f} steps, step size {trace.kernel.step_size:.4f}")
rhat, ess = mixing["r_hat"], mixing["ess_bulk"]
print(f"    {'R̂ on 500 predictions':28}median {rhat.median():.2f}, worst {rhat.max():.2f}")
print(f"    {'effective draws of them':28}median {ess.median():.0f}, least {ess.min():.0f}")

predictions = {
    "GGMC, exact": trace.predict(x_test).probabilities,
    "SGHMC": biased.predict(x_test).probabilities,
    "SGD, one point": point_prediction(x_test),
}
metrics = ("accuracy", "nll", "brier", "ece")
print(
    f"\n{len(y_test)} test digits\n\n    {'':18}" + "".join(f"{name:>10}" for name in metrics) + f"{'acceptance':>13}"
)
accepted = {"GGMC, exact": f"{rate:.2f}", "SGHMC": "0 (−∞)", "SGD, one point": "–"}
for name, probabilities in predictions.items():
    scores = "".join(f"{getattr(ggmc.metrics, metric)(probabilities, y_test):10.4f}" for metric in metrics)
    print(f"    {name:18}{scores}{accepted[name]:>13}")


# The picture

angles = torch.arange(0.0, 181.0, 7.5)
three = x_test[(y_test == 3).nonzero()[0, 0]]
seen = turned(three, angles)
exact = trace.predict(seen)
certain = point_prediction(seen)
blue, grey, orange = "#2b6cb0", "#718096", "#dd6b20"

figure = plt.figure(figsize=(13, 9), layout="constrained")
parts: Any = figure.subfigures(2, 1, height_ratios=[1.1, 1])
top, bottom = parts
left, right = top.subplots(1, 2)
for name, probabilities in predictions.items():
    ggmc.metrics.plot_reliability(probabilities, y_test, axis=left, label=name, bins=10)
left.set_title("Are its probabilities right? On the test digits")
for cls in range(10):
    assert exact.probabilities is not None
    line = right.plot(angles, exact.probabilities[:, cls], linewidth=2)[0]
    right.plot(angles, certain[:, cls], "--", color=line.get_color(), linewidth=1, alpha=0.8)
    best = int(exact.probabilities[:, cls].argmax())
    if exact.probabilities[best, cls] > 0.15:
        right.annotate(str(cls), (angles[best].item(), exact.probabilities[best, cls]), color=line.get_color(), size=14)
right.set(
    title="A 3, slowly turned: posterior (solid), point estimate (dashed)", xlabel="degrees", ylabel="probability"
)
strip, curves = bottom.subplots(2, 1, height_ratios=[1, 3])
shown = seen[::2, 0]
strip.imshow(torch.cat(list(shown), 1), cmap="gray_r")
strip.set_axis_off()
curves.plot(angles, exact.total, color=blue, linewidth=2, label="total uncertainty (nats)")
curves.plot(angles, exact.epistemic, color=orange, linewidth=2, label="of which epistemic: the draws disagree")
point_entropy = -(certain * np.log(np.maximum(certain, 1e-30))).sum(1)
curves.plot(angles, point_entropy, "--", color=grey, label="point estimate")
curves.set(xlabel="degrees", ylabel="entropy", xlim=(angles[0] - 3.75, angles[-1] + 3.75), ylim=(-0.1, 2.9))
curves.set_title("It knows when it does not know")
curves.legend(frameon=False, loc="upper left", ncols=3)
OUT.mkdir(exist_ok=True)
figure.savefig(OUT / "demo.png", dpi=110)
print(f"\nSaved {OUT / 'demo.png'}")
