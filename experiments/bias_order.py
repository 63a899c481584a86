"""The order of the bias of every scheme without the test, against its step size h.

Run with `python -m experiments.bias_order [--size tiny|small|full] [--out DIR]`. Trajectories have length 1 and γ = 1;
θ and m are read at their ends, where the library draws.

On U = θ²/2 a trajectory is a linear map plus Gaussian noise. Both are read off the library's own engine, and the
covariance that they leave invariant is solved for: no Monte Carlo error. SGNHT is not linear and is sampled. Gradient
noise, where there is some, is N(0, 1) and independent at each gradient, like that of independent minibatches. On
U = x⁴/4 + x the bias of E[x²] comes from log α, see `quartic.py`; SGHMC's from the AMAGOLD whose kick points are its
positions; SGNHT's from plain means.

What to expect, in `EXPECTED`, where 0 is no bias at all:

- Words that read the same backwards have errors in even powers of h: order 2 with exact gradients.
- On the Gaussian, BAB keeps (1 − h²/4) θ² + m², ABA keeps θ² + (1 − h²/4) m², and O keeps m² = 1. With O at the ends of
  a step, m is exact there and θ is not. With O in the middle, in BAOAB, ABOBA and AMAGOLD, θ is exact at the ends.
- SGHMC's momenta lag behind its positions by half a step: order 1; its positions are AMAGOLD's kick points: order 2.
- Gradient noise heats by h²σ²/2 per step, and friction cools by 2γh: order 1. SGLD's friction is infinite: order 2
  in h, which is 1 in its learning rate. SGNHT adapts its friction to the noise: order 2.
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
from experiments.estimates import Estimate, estimate, slope
from experiments.linear import Noisy, stationary_covariance
from experiments.quartic import F64, bias_from_alpha, mean_of_square, quartic
from experiments.relabelling import FRICTION, relabelled
from ggmc import progress
from ggmc.dynamics.state import State
from ggmc.guides import Exact, Guide
from ggmc.kernels import WordKernel

NOISE = 1.0  # standard deviation
FAMILIES = {
    "θ, exact": "(a) Gaussian, exact ∇U", "m, exact": "(d) Gaussian, exact ∇U", "quartic": "(c) Quartic, exact ∇U",
    "θ, noisy": "(b) Gaussian, noisy ∇U", "m, noisy": "(e) Gaussian, noisy ∇U",
}  # fmt: skip
EXPECTED = {  # in the order of FAMILIES
    "OBABO": (2, 0, 2, 1, 1), "OABAO": (2, 0, 2, 1, 1), "BAOAB": (0, 2, 2, 1, 1), "ABOBA": (0, 2, 2, 1, 1),
    "O(BAB)O": (2, 0, 2, 1, 1), "O(ABA)O": (2, 0, 2, 1, 1), "SGHMC": (2, 1, 2, 1, 1), "SGLD": (2, 0, 2, 2, 2),
    "AMAGOLD": (0, 2, 2, 1, 1), "SGNHT": (2, 2, 2, 2, 2),
}  # fmt: skip
LOOKS = {
    "OBABO": (figures.BLUE, "o", "-"), "OABAO": (figures.VERMILION, "s", "-"), "BAOAB": (figures.GREEN, "D", "-"),
    "ABOBA": (figures.PURPLE, "^", "-"), "O(BAB)O": (figures.BLUE, "v", "--"), "SGHMC": (figures.BLACK, "X", "-."),
    "O(ABA)O": (figures.VERMILION, "P", "--"), "SGLD": (figures.ORANGE, "<", ":"), "AMAGOLD": (figures.SKY, ">", ":"),
    "SGNHT": (figures.GREY, "*", "-."),
}  # fmt: skip


class Settings(NamedTuple):
    """How much is run: chains, and the steps of a trajectory, one over h, on each target."""

    chains: int
    gaussian: tuple[int, ...]
    quartic: tuple[int, ...]


SIZES = {
    "tiny": Settings(12_000, (4, 16), (3, 6)),
    "small": Settings(120_000, (2, 4, 8, 16), (3, 4, 6, 8)),
    "full": Settings(1_000_000, (2, 4, 8, 16, 32, 64), (3, 4, 6, 8, 12)),
}


def kernel_of(name: str, steps: int, guide: Guide) -> WordKernel:
    """A scheme without the test, with step size 1/steps."""
    h = 1 / steps
    others: dict[str, Callable[[], WordKernel]] = {
        "SGHMC": lambda: ggmc.SGHMC(h, FRICTION, steps, guide),
        "SGLD": lambda: ggmc.SGLD(h, steps, guide),
        "AMAGOLD": lambda: ggmc.AMAGOLD(h, FRICTION, steps, guide, adjust=False),
        "SGNHT": lambda: ggmc.SGNHT(h, FRICTION, steps, guide),
    }
    return others[name]() if name in others else ggmc.GGMC(h, FRICTION, steps, name, guide, adjust=False)


def gaussian() -> ggmc.Density:
    """U = θ²/2."""
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))


def on_gaussian(name: str, steps: int, guide: Guide, chains: int) -> tuple[Estimate, Estimate]:
    """Var θ − 1 and Var m − 1: solved for where the scheme is linear, else sampled."""
    if name != "SGNHT":
        theta, m = (stationary_covariance(kernel_of(name, steps, guide), gaussian()).diag() - 1).tolist()
        return Estimate(theta, 0.0), Estimate(m, 0.0)
    generator = torch.Generator().manual_seed(steps)
    init, step = kernel_of(name, steps, guide).bind(gaussian())
    state = init(torch.randn(chains // 2, 1, dtype=F64, generator=generator), generator)
    found, burn_in, kept = torch.zeros(2, chains // 2, dtype=F64), 15, 35
    for number in range(burn_in + kept):
        state, _ = step(state, generator)
        if number >= burn_in:
            found += torch.cat([state.position, state.momentum], 1).T ** 2 / kept
    return estimate(found[0] - 1), estimate(found[1] - 1)


def on_quartic(name: str, steps: int, chains: int) -> Estimate:
    """The bias of E[x²]."""
    if name == "SGNHT":
        return mean_of_square(kernel_of(name, steps, Exact()), quartic(), chains // 2, 45, seed=steps)[0]
    if name == "SGLD":  # a time of h²/2 per step
        return bias_from_alpha(kernel_of(name, steps, Exact()), quartic(), chains // 3, 8 * steps, seed=steps)[0]
    if name != "SGHMC":
        return bias_from_alpha(kernel_of(name, steps, Exact()), quartic(), chains, 8, seed=steps)[0]
    amagold = relabelled(1 / steps, steps, Exact())
    half = (amagold.step_size or 0) / 2

    def at_kick(state: State) -> Tensor:
        return (state.position + half * state.momentum)[:, 0] ** 2

    found, _ = bias_from_alpha(amagold, quartic(), chains, 8, steps, at_kick)
    return Estimate(found.mean + half**2, found.error)  # E[(θ + h'm/2)²] is larger than E[θ²] by h'²/4 already


def main(size: str = "small", out: Path = Path("out/bias_order")) -> Path:
    """Compute every bias, fit slopes, draw.

    Args:
        size: "tiny", "small" or "full".
        out: The folder of figures and numbers.

    Returns:
        The folder.
    """
    settings = figures.size_named(size, SIZES)
    found: dict[str, dict[str, list[Estimate]]] = {family: {name: [] for name in LOOKS} for family in FAMILIES}
    with progress.bar(LOOKS, desc="schemes") as names:
        for name in names:
            for many in settings.gaussian:
                for kind, guide in (("exact", Exact()), ("noisy", Noisy(NOISE))):
                    theta, m = on_gaussian(name, many, guide, settings.chains)
                    found[f"θ, {kind}"][name].append(theta)
                    found[f"m, {kind}"][name].append(m)
            found["quartic"][name] = [on_quartic(name, many, settings.chains) for many in settings.quartic]
    grids = {f: [1 / many for many in (settings.quartic if f == "quartic" else settings.gaussian)] for f in FAMILIES}
    slopes = {f: {name: slope(grids[f], each) for name, each in found[f].items()} for f in FAMILIES}
    table(slopes)
    numbers = {
        "size": size, "friction": FRICTION, "gradient_noise_sd": NOISE, "chains": settings.chains,
        "step_sizes": grids,
        "bias_and_error": found,
        "slope_and_error": slopes,
        "expected": {family: {name: EXPECTED[name][i] for name in LOOKS} for i, family in enumerate(FAMILIES)},
    }  # fmt: skip
    draw(numbers, out)
    figures.write_numbers(out, numbers)
    return out


def table(slopes: dict[str, dict[str, Estimate | None]]) -> None:
    """Print the orders, measured and expected."""
    print(f"{'':9}" + "".join(f"{family:>20}" for family in FAMILIES))
    for name, expected in EXPECTED.items():
        cells = [slopes[family][name] for family in FAMILIES]
        texts = [
            "–" if cell is None else f"{cell.mean:.2f}" + f" ± {cell.error:.2f}" * (cell.error > 0) for cell in cells
        ]
        print(f"{name:9}" + "".join(f"{text + f' ({order})':>20}" for text, order in zip(texts, expected, strict=True)))


@figures.styled
def draw(numbers: dict[str, Any], out: Path) -> None:
    """The figure.

    Args:
        numbers: As in numbers.json.
        out: Its folder.
    """
    figure, axes = plt.subplots(2, 3, figsize=(7.2, 4.9))
    panels = (axes[0, 0], axes[1, 0], axes[0, 2], axes[0, 1], axes[1, 1])
    for axis, (family, title) in zip(panels, FAMILIES.items(), strict=True):
        h, exact, seen = np.array(numbers["step_sizes"][family]), [], []
        for name, (colour, marker, line) in LOOKS.items():
            found = [Estimate(*each) for each in numbers["bias_and_error"][family][name]]
            size, clear = np.abs([each.mean for each in found]), np.array([each.is_clear for each in found])
            if not clear.any() and found[0].error == 0:
                exact.append(name)
                continue
            errors = 2 * np.array([each.error for each in found])
            axis.plot(h, np.where(clear, size, np.nan), line, color=colour, linewidth=1.0)
            axis.errorbar(h[clear], size[clear], errors[clear], fmt=marker, color=colour, markersize=4.5)
            axis.errorbar(h[~clear], (size + errors)[~clear], fmt=marker, color=colour, mfc="none", markersize=4.5)
            seen.extend(size[clear])
        high = max(seen)
        for order, line in ((1, (0, (1, 3))), (2, (0, (4, 3)))):
            axis.plot(h, high * 1.6 * (h / h.max()) ** order, color="black", linestyle=line, linewidth=0.7)
        axis.set(xscale="log", yscale="log", xlabel="step size h", title=title, ylim=(min(seen) / 2, high * 2.5))
        axis.set_ylabel("|bias of E[x²]|" if family == "quartic" else f"|Var {family[0]} − 1|")
        axis.set_xticks(h, [f"1/{round(1 / each)}" for each in h])
        axis.minorticks_off()
        if exact:
            axis.text(0.98, 0.03, "no bias: " + ",\n".join(exact), transform=axis.transAxes, ha="right", fontsize=7)
    (key := axes[1, 2]).axis("off")
    for name, (colour, marker, line) in LOOKS.items():
        key.plot([], [], marker + line, color=colour, label=name, linewidth=1.0)
    key.plot([], [], color="black", linestyle=(0, (1, 3)), linewidth=0.7, label="slope 1")
    key.plot([], [], color="black", linestyle=(0, (4, 3)), linewidth=0.7, label="slope 2")
    key.plot([], [], "o", color="black", mfc="none", label="at most (< 2 errors)")
    key.legend(loc="center", ncols=2, columnspacing=1.0)
    figures.save(figure, out / "bias_order")


if __name__ == "__main__":
    figures.command(main, __doc__)
