"""How far a pass over the data carries a chain: acceptance and effective draws against the learning rate.

Run with `.venv/bin/python -m benchmarks.acceptance` (an hour or two on two cores; `a9a`, `mnist`, `cifar`, `tall` as
arguments choose among the targets). What is measured is kept in out/acceptance, and out/acceptance.png shows all that
is kept there.

Chains are first brought to equilibrium with exact gradients. Every setting is then measured from those states: the mean
of min(1, α) over trajectories with fresh momenta and fresh tapes. All orders travel as far per trajectory, twice
through the data, at the same cost. The learning rate is N h². Reported for each setting:

- acceptance;
- time travelled per pass of gradients over the data, times acceptance: h · batches · α;
- effective draws per pass, (1−ρ)/(1+ρ)/passes, where 1−ρ is half the mean squared jump of the predictions (rejected
  trajectories do not jump) in units of their variance in equilibrium, and the test counts as 1/3 of a pass. On the
  nets, with four states at hand, that variance is rough and the figure good for comparison only.

The columns are minibatches in the orders iid, epoch and palindrome, control variates with the three curvatures, and
full-gradient HMC with the same mass. How sweeps and control variates compare with HMC is then told at the best length
and learning rate of each, measured once more on fresh trajectories.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from torch import Tensor, nn

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import ggmc
from benchmarks.logistic import a9a, logistic_regression, simulated
from benchmarks.posteriors import DATA
from ggmc.errors import BadInput
from ggmc.guides import GradientField, Guide
from ggmc.warmup.mass import per_tensor

log = logging.getLogger("benchmarks.acceptance")

TEST = 1 / 3  # of a pass


@dataclass
class Study:
    """A target in equilibrium, and what is looked at."""

    name: str
    target: ggmc.DataDensity
    states: Tensor  # [n, d], in equilibrium
    predictions: Callable[[Tensor], Tensor]  # [n, d] -> [n, features]
    mass: Any  # for all settings
    batches: int
    trajectories: int  # for each setting and state
    lengths: tuple[int, ...]  # passes per trajectory, among which the best is sought
    anchor: Any = None


class Measured(NamedTuple):
    """One setting."""

    rate: float  # learning rate
    acceptance: float
    time_per_pass: float
    draws_per_pass: float
    error: float  # of the time per pass: one standard error


def measure(
    study: Study, kernel: ggmc.GGMC, field: GradientField, seed: int = 1, trajectories: int | None = None
) -> Measured:
    """Trajectories from equilibrium; the chain does not move on."""
    generator = torch.Generator().manual_seed(seed)
    target = study.target
    sampler = replace(kernel, adjust=False, fresh_momentum=True).sampler(target, field)
    state = sampler.init(study.states, generator)
    before = study.predictions(study.states)
    variance = before.var(0)
    accepted: list[Tensor] = []
    jumps: list[float] = []
    steps = 0
    for _ in range(trajectories or study.trajectories):
        after, info = sampler.step(state, sampler.parameters, generator)
        alpha = info.acceptance()
        moved = (study.predictions(after.position) - before) ** 2 / (2 * variance)
        accepted.append(alpha)
        jumps.append((alpha[:, None] * moved.nan_to_num(0, 0, 0)).mean().item())
        steps = info.steps
    alphas, change = torch.stack(accepted), min(float(np.mean(jumps)), 1.0)
    alpha, error = alphas.mean().item(), alphas.std().item() / math.sqrt(alphas.numel())
    # The exact gradient at a trajectory's end serves the next one's beginning too; a minibatch's does not.
    gradients = steps if field.exact else sampler.scheme.plan(steps).gradients
    h, passes = sampler.parameters.step_size.item(), gradients / field.epoch
    draws = change / (2 - change)
    with_test = passes + (0.0 if field.exact else TEST)
    travelled = steps * h / passes
    return Measured(target.num_data * h * h, alpha, travelled * alpha, draws / with_test, travelled * error)


def settings(study: Study) -> dict[str, tuple[Guide, int | str, str, float]]:
    """Every guide with its length, its scheme, and a learning rate to begin at: all go twice through the data."""
    size = math.ceil(study.target.num_data / study.batches)
    anchored = {
        label: ggmc.ControlVariate(size, curvature=curvature, anchor=study.anchor)
        for label, curvature in (("control variates", "none"), ("… diagonal", "diagonal"), ("… dense", "dense"))
    }
    return {
        "iid": (ggmc.Minibatch(size, "iid"), "2 epochs", "O(ABA)O", 1e-7),
        "epoch": (ggmc.Minibatch(size, "epoch"), "2 epochs", "O(ABA)O", 1e-6),
        "palindrome": (ggmc.Minibatch(size), "1 sweep", "O(ABA)O", 1e-6),
        **{label: (guide, "1 sweep", "O(ABA)O", 1e-6) for label, guide in anchored.items()},
        "full-gradient HMC": (ggmc.Exact(), 2, "O(BAB)O", 1e-4),
    }


def sweep(study: Study, guide: Guide, steps: int | str, scheme: str, first: float, mass: Any = None) -> list[Measured]:
    """From a `first` learning rate that is surely accepted up to where hardly anything is, by factors of 2 or 8."""
    field = guide.bind(study.target)
    kernel = ggmc.GGMC(1.0, math.inf, steps, scheme, guide, mass=study.mass if mass is None else mass)
    found: list[Measured] = []
    rate = first
    while True:
        found.append(measure(study, replace(kernel, step_size=math.sqrt(rate / study.target.num_data)), field))
        if found[-1].acceptance < 0.02:
            break
        rate *= 8 if found[-1].acceptance > 0.995 else 2
    farthest = max(found, key=lambda m: m.time_per_pass).rate
    for rate in (farthest / math.sqrt(2), farthest * math.sqrt(2)):  # once more around the best
        found.append(measure(study, replace(kernel, step_size=math.sqrt(rate / study.target.num_data)), field))
    return sorted(found)


def rate_at_half(found: list[Measured]) -> float:
    """The learning rate where acceptance falls to one half, interpolated in its logarithm."""
    rates, acceptances = [m.rate for m in found], [m.acceptance for m in found]
    if acceptances[0] < 0.5:
        raise ValueError(f"the first learning rate, {rates[0]:.1e}, is too large: {acceptances[0]:.2f} are accepted")
    return float(np.exp(np.interp(-0.5, [-a for a in acceptances], np.log(rates))))


def best_time(found: list[Measured]) -> float:
    """The farthest a pass carries at any learning rate."""
    return max(m.time_per_pass for m in found)


# The targets


def equilibrium(target: ggmc.DataDensity, start: Tensor, mass: Any, draws: int, steps: int, thin: int) -> Tensor:
    """States of one chain with exact gradients, thinned, after twice as long a burn-in; the log tells of its way."""
    h = 0.1 / math.sqrt(target.num_data)
    sampler = ggmc.HMC(step_size=h, steps=steps, mass=mass).sampler(target, ggmc.Exact().bind(target))
    generator = torch.Generator().manual_seed(0)
    state = sampler.init(start[None], generator)
    kept: list[Tensor] = []
    for draw in range(draws * thin * 3):
        state, info = sampler.step(state, sampler.parameters.change(step_size=h), generator)
        if draw < draws * thin * 2:  # the step follows acceptance in the burn-in only
            h *= math.exp(0.3 * (info.acceptance().item() - 0.8))
        elif draw % thin == 0:
            kept.append(state.position[0])
        if draw % thin == 0:
            assert state.potential is not None
            log.info("U = %.1f after %d trajectories, h = %.3g", state.potential.item(), draw + 1, h)
    return torch.stack(kept)


def logistic_study(name: str, X: np.ndarray, y: np.ndarray, batches: int) -> Study:
    """Logistic regression, whitened by the curvature at the mode."""
    target = logistic_regression(X, y)
    anchored = ggmc.ControlVariate(target.num_data, curvature="dense").bind(target)
    trace = ggmc.sample(
        target, ggmc.HMC(guide=ggmc.ControlVariate(len(X) // 10, curvature="dense")), 100, 300, 8, progress=False
    )
    states = torch.from_numpy(trace["theta"][:, ::50].reshape(-1, X.shape[1]))
    probe = torch.from_numpy(X[:: len(X) // 200])
    mass, anchor = anchored.mass(), anchored.anchor
    return Study(name, target, states, lambda rows: rows @ probe.mT, mass, batches, 2, (2, 4, 8), anchor)


PRIOR = {"*.bias": ggmc.priors.Gaussian(math.sqrt(0.1)), "*": ggmc.priors.Gaussian(math.sqrt(2), fan_in=True)}


def network_study(name: str, target: ggmc.Posterior, anchor: Tensor, states: Tensor) -> Study:
    """A network in equilibrium, and a row to anchor control variates at."""
    inputs = target.data.slice(0, 50)[0]

    def predictions(rows: Tensor) -> Tensor:
        return target.outputs(rows, inputs).log_softmax(-1).flatten(1)

    return Study(name, target, states, predictions, None, 20, 3, (2, 4), target.constrain(anchor))


def descended(target: ggmc.Posterior) -> Tensor:
    """From a draw of the prior some way towards a mode, prior included: weights shrink where the data ask for none."""
    row = target.starts(1, torch.Generator().manual_seed(1))
    optimiser = torch.optim.SGD([row], 0.02 / target.num_data, momentum=0.9)
    field = ggmc.Minibatch(100, "epoch").bind(target)
    tape = field.tape(10 * field.epoch, 1, torch.Generator().manual_seed(0))
    assert tape is not None
    for entry in tape:
        row.grad = field(row, entry)[0]
        optimiser.step()
    return row[0]


def mnist(examples: int) -> Study:
    """MNIST with a 784-500-256-10 network, begun at a draw of the prior, whose distribution most directions keep."""
    data = np.load(DATA / "mnist.npz")
    names = {key.lower(): key for key in data}
    x = torch.from_numpy(data[names["x_train"]][:examples].reshape(examples, -1)).float() / 255 - 0.13
    y = torch.from_numpy(data[names["y_train"]][:examples]).long()
    target = ggmc.Posterior(ggmc.nets.MLP([784, 500, 256, 10]), "categorical", PRIOR, x, y, start="prior")
    start = target.starts(1, torch.Generator().manual_seed(1))[0]
    states = equilibrium(target, start, None, draws=4, steps=10, thin=8)
    return network_study(f"MNIST, first {examples:,}, 784-500-256-10", target, descended(target), states)


def cifar() -> Study:
    """2,000 CIFAR-10 images with a small convolutional net."""
    data = np.load(DATA / "cifar10_tiny.npz")
    x = torch.from_numpy(data["x_train"]).float().view(-1, 3, 32, 32) / 255
    x = (x - x.mean((0, 2, 3), keepdim=True)) / x.std((0, 2, 3), keepdim=True)
    module = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 48, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(48 * 16, 10),
    )  # fmt: skip
    y = torch.from_numpy(data["y_train"]).long()
    target = ggmc.Posterior(module, "categorical", PRIOR, x, y, start="prior")
    anchor = descended(target)
    states = equilibrium(target, anchor, None, draws=4, steps=25, thin=6)
    return network_study("cifar10_tiny, 27k-weight convolutional net", target, anchor, states)


# The report


def report(study: Study) -> dict[str, list[Measured]]:
    """The table, and the ratios that matter."""
    found: dict[str, list[Measured]] = {}
    print(
        f"\n{study.name}: N = {study.target.num_data:,}, d = {study.target.layout.size:,}, {study.batches} batches\n",
        flush=True,
    )
    print(f"{'':20}{'rate at α = ½':>16}{'time/pass × α':>16}{'draws/pass':>12}    acceptance by learning rate")
    for name, (guide, steps, scheme, first) in settings(study).items():
        try:
            found[name] = sweep(study, guide, steps, scheme, first)
        except BadInput as error:
            print(f"{name:20} not possible: {str(error).split(':')[0]}")
            continue
        one = found[name]
        points = ", ".join(f"{m.rate:.1e} {m.acceptance:.2f}" for m in one if 0.02 < m.acceptance < 0.98)
        best = max(m.draws_per_pass for m in one)
        print(f"{name:20}{rate_at_half(one):16.2e}{best_time(one):16.3g}{best:12.3g}    {points}", flush=True)
    ratio = rate_at_half(found["palindrome"]) / rate_at_half(found["iid"])
    print(f"\nlearning rate at α = ½, palindrome ÷ iid, {study.batches} batches each: {ratio:.1f}")
    tuned(study)
    return found


COLUMNS = ("iid", "epoch", "palindrome", "control variates", "… diagonal", "… dense", "full-gradient HMC")


def draw(kept: Path, file: Path) -> None:
    """All targets measured so far, side by side: acceptance above, effective draws below."""
    studies = [json.loads(path.read_text()) for path in sorted(kept.glob("*.json"))]
    size = (5.5 * len(studies), 8)
    figure, axes = plt.subplots(2, len(studies), figsize=size, constrained_layout=True, squeeze=False)
    for (above, below), study in zip(axes.T, studies, strict=True):
        for label, found in study["found"].items():
            rates, acceptances, _, draws = zip(*(one[:4] for one in found), strict=True)
            colour = f"C{COLUMNS.index(label)}"
            above.semilogx(rates, acceptances, "o-", label=label, color=colour, markersize=3)
            below.loglog(rates, draws, "o-", color=colour, markersize=3)
        above.set(title=study["name"], xlabel="learning rate N h²", ylabel="acceptance")
        below.set(xlabel="learning rate N h²", ylabel="effective draws per pass", ylim=(1e-6, 3))
    lines = {line.get_label(): line for above in axes[0] for line in above.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


class Farthest(NamedTuple):
    """The most time per pass that a guide makes at any length and learning rate."""

    at: Measured
    passes: float
    rates: dict[float, float]  # at α = ½, by passes

    def __str__(self) -> str:
        rates = ", ".join(f"{rate:.1e}" for rate in self.rates.values())
        time = f"{self.at.time_per_pass:.3g} ± {self.at.error:.1g}"
        return f"{time}  (α {self.at.acceptance:.2f}, {self.passes:g} passes; rates at α = ½: {rates})"


def farthest(study: Study, guide: Any, scheme: str, first: float, lengths: Sequence[float] = ()) -> Farthest:
    """The best of many is best by luck too, so it is measured once more, on trajectories of its own."""
    best: tuple[float, Any, float] | None = None
    rates: dict[float, float] = {}
    batches = 1 if isinstance(guide, ggmc.Exact) else math.ceil(study.target.num_data / guide.size)
    for passes in lengths or study.lengths:
        steps = round(passes * batches)
        found = sweep(study, guide, steps, scheme, first)
        rates[passes] = rate_at_half(found)
        one = max(found, key=lambda m: m.time_per_pass)
        if best is None or one.time_per_pass > best[0]:
            step_size = math.sqrt(one.rate / study.target.num_data)
            kernel = ggmc.GGMC(step_size, math.inf, steps, scheme, guide, mass=study.mass)
            best = one.time_per_pass, kernel, passes
    assert best is not None
    _, kernel, passes = best
    return Farthest(measure(study, kernel, guide.bind(study.target), 2, 4 * study.trajectories), passes, rates)


def tuned(study: Study) -> None:
    """Batch size, scheme, length and rate at their best, beside HMC with the same mass at its best."""
    number = study.target.num_data

    def batch(batches: int) -> int:
        return math.ceil(number / batches)

    two = ggmc.Minibatch(batch(2))
    chosen: dict[str, tuple[int, Any, str, Sequence[float]]] = {
        f"{study.batches} batches, O(ABA)O": (study.batches, ggmc.Minibatch(batch(study.batches)), "O(ABA)O", ()),
        "2 batches, O(BAB)O": (2, two, "O(BAB)O", ()),
    }
    if study.mass is not None:  # small enough for a dense curvature
        for batches in (study.batches, study.batches // 4):
            guide = ggmc.ControlVariate(batch(batches), curvature="dense", anchor=study.anchor)
            chosen[f"control variates, {batches} batches"] = (batches, guide, "O(ABA)O", (0.5, 1, 2))
    print(f"\ntime per pass × α at the best of {study.lengths} passes per trajectory, on fresh trajectories")
    print("(control variates: half a pass, one or two)" if study.mass is not None else "")
    iid = farthest(study, ggmc.Minibatch(batch(study.batches), "iid"), "O(ABA)O", 1e-7)
    print(f"    {f'{study.batches} batches, iid':30}{iid}", flush=True)
    hmc = farthest(study, ggmc.Exact(), "O(BAB)O", 1e-4)
    print(f"    {'full-gradient HMC':30}{hmc}", flush=True)
    half = min(hmc.rates.values())
    for label, (batches, guide, scheme, lengths) in chosen.items():
        one = farthest(study, guide, scheme, half / batches**2 / 32, lengths)
        ratio = one.at.time_per_pass / hmc.at.time_per_pass
        error = ratio * math.hypot(one.at.error / one.at.time_per_pass, hmc.at.error / hmc.at.time_per_pass)
        with_test = ratio * one.passes / (one.passes + TEST)
        faster = [f"{rate / iid.rates[passes]:.1f}" for passes, rate in one.rates.items() if passes in iid.rates]
        print(f"    {label:30}{one}")
        print(
            f"{'':34}{ratio:.2f} ± {error:.2f} × HMC's time, {with_test:.2f} with the test counted; "
            f"{', '.join(faster)} × iid's rates",
            flush=True,
        )
    if study.mass is None:
        mass, passes = per_tensor(study.target, study.states), study.lengths[-1]
        rate = rate_at_half(sweep(study, two, 2 * passes, "O(BAB)O", half / 128, mass))
        ratio = rate / iid.rates[passes]
        print(
            f"    … and a mass per tensor, {passes} passes: rate at α = ½ {rate:.1e}, {ratio:.0f} × iid's", flush=True
        )


def prototype() -> None:
    """N = 200,000, d = 50, 20 batches, h = 0.0375 in whitened units, 40 steps: the three orders at equal cost."""
    study = logistic_study("tall", *simulated(), batches=20)
    study.states = study.states[:16]
    print("\nLogistic regression, N = 200,000, d = 50, 20 batches, h = 0.0375, 40 steps: acceptance, four cuts")
    for order, scheme in (*((order, "O(ABA)O") for order in ("iid", "epoch", "palindrome")), ("palindrome", "O(BAB)O")):
        seen: list[float] = []
        for seed in range(4):
            guide = ggmc.Minibatch(10_000, order, seed=seed)
            kernel = ggmc.GGMC(0.0375, math.inf, 40, scheme, guide, mass=study.mass)
            seen.append(measure(study, kernel, guide.bind(study.target)).acceptance)
        print(f"    {order:12}{scheme:9}{np.mean(seen):.2f}  ({', '.join(f'{a:.2f}' for a in seen)})", flush=True)


def main() -> None:
    """Print the tables, save the figure."""
    makers = {
        "a9a": lambda: logistic_study("a9a", *a9a(), batches=40),
        "cifar": cifar,
        "mnist": lambda: mnist(options.mnist_examples),
    }
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=["tall", *makers], help="all of them if none is named")
    parser.add_argument("--mnist-examples", type=int, default=2000)
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    names = options.names or ["tall", *makers]
    if "tall" in names:
        prototype()
    kept, figure = Path("out/acceptance"), Path("out/acceptance.png")
    kept.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name == "tall":
            continue
        begun = time.perf_counter()
        study = makers[name]()
        (kept / f"{name}.json").write_text(json.dumps({"name": study.name, "found": report(study)}))
        print(f"({time.perf_counter() - begun:.0f} s)")
        draw(kept, figure)
        print(f"\nSaved {figure}")


if __name__ == "__main__":
    main()
