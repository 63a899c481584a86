"""One long chain of an optimiser against the truth: is it exact?

Features of (θ, m) over one long chain may differ from their expectations by Monte Carlo error only. Errors come from
the means of 40 stretches, each many times as long as anything is remembered; the false-failure rate is 1e-6 for all
features together. Part of the potential, x²/2, is the weight decay's, and the gradients are noisy.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

F64 = torch.float64
NUM_DATA = 4
WEIGHT_DECAY = 0.25  # of x alone
GRID = np.linspace(-6, 6, 200_001)


@dataclass(frozen=True)
class Problem:
    """A target whose expectations are known.

    Args:
        size: The number of coordinates.
        potential: U of a point.
        gradient: Its gradient.
        draw: An exact draw, from a draw of x and random numbers, at a temperature.
        features: Functions of a point.
        expectations: Of these features, from those of x, x², x³ and x⁴, at a temperature.
    """

    size: int
    potential: Callable[[Sequence[float]], float]
    gradient: Callable[[Sequence[float]], list[float]]
    draw: Callable[[float, random.Random, float], list[float]]
    features: Callable[[Any], dict[str, Any]]
    expectations: Callable[[list[float], float], dict[str, float]]


def quartic(x: Any) -> Any:
    """x⁴/4 + x: light tails, not symmetric."""
    return x * x * x * x / 4 + x  # not a power: far out it shall be infinite, not an error


LINE = Problem(
    1,
    lambda p: quartic(p[0]),
    lambda p: [p[0] * p[0] * p[0] + 1],
    lambda x, dice, temperature: [x],
    lambda p: {"x": p[0], "x²": p[0] ** 2},
    lambda x, temperature: {"x": x[1], "x²": x[2]},
)

# U = x⁴/4 + x + (y − x²/2)²/2: given x, y ~ N(x²/2, T).
PLANE = Problem(
    2,
    lambda p: quartic(p[0]) + (p[1] - p[0] * p[0] / 2) * (p[1] - p[0] * p[0] / 2) / 2,
    lambda p: [p[0] * p[0] * p[0] + 1 - p[0] * (p[1] - p[0] * p[0] / 2), p[1] - p[0] * p[0] / 2],
    lambda x, dice, temperature: [x, dice.gauss(x * x / 2, math.sqrt(temperature))],
    lambda p: {"x": p[0], "x²": p[0] ** 2, "y": p[1], "y²": p[1] ** 2, "xy": p[0] * p[1]},
    lambda x, temperature: {"x": x[1], "x²": x[2], "y": x[2] / 2, "y²": x[4] / 4 + temperature, "xy": x[3] / 2},
)


def violations(
    make: Callable[[list[Tensor]], Any],
    trajectories: int,
    problem: Problem = LINE,
    temperature: float = 1.0,
    rates: Sequence[float] = (2.56, 2.56, 2.56),
    last_gradient: bool = False,
    reject: bool = True,
) -> dict[str, float]:
    """Features whose means differ from the truth by more than their Monte Carlo error, with their z-scores.

    Args:
        make: Makes the optimiser, of one parameter for each coordinate; num_data is 4, and the weight decay of x 0.25.
        trajectories: How many, a multiple of 40.
        problem: The target.
        temperature: T.
        rates: Learning rates at the start and at each step, of the first group; others keep their ratio to it.
        last_gradient: Whether the scheme needs a gradient at the end.
        reject: Whether trajectories are tested.
    """
    density = np.exp(-(quartic(GRID) - quartic(GRID).min()) / temperature)
    dice = random.Random(0)
    start = problem.draw(dice.choices(GRID, density)[0], dice, temperature)
    points = [torch.tensor([value], dtype=F64, requires_grad=True) for value in start]
    optimiser = make(points)
    ratios = [group["lr"] / optimiser.param_groups[0]["lr"] for group in optimiser.param_groups]

    def here() -> list[float]:
        return [point.item() for point in points]

    def without_prior() -> float:
        place = here()
        return problem.potential(place) - NUM_DATA * WEIGHT_DECAY / 2 * place[0] * place[0]

    def set_rate(rate: float) -> None:
        for group, ratio in zip(optimiser.param_groups, ratios, strict=True):
            group["lr"] = rate * ratio

    def set_gradient() -> None:
        place = here()
        gradient = problem.gradient(place)
        gradient[0] -= NUM_DATA * WEIGHT_DECAY * place[0]
        for point, value in zip(points, gradient, strict=True):
            point.grad = torch.tensor([(value + dice.gauss(0, 0.3)) / NUM_DATA], dtype=F64)

    rows: list[list[float]] = []
    for _ in range(trajectories):
        set_rate(rates[0])
        optimiser.begin_trajectory()
        for rate in rates[1:]:
            set_rate(rate)
            set_gradient()
            optimiser.step()
        if last_gradient:
            set_gradient()
        optimiser.end_trajectory(without_prior, reject=reject)
        rows.append([*here(), *optimiser.momenta.tolist()])
    moments = [float(np.average(GRID**power, weights=density)) for power in range(5)]
    return _compare(np.array(rows).T, problem, problem.expectations(moments, temperature), temperature)


def _compare(
    series: np.ndarray[Any, Any], problem: Problem, of_position: dict[str, float], temperature: float
) -> dict[str, float]:
    """θ and m are independent, and m ~ N(0, T)."""
    found, truth = problem.features(series[: problem.size]), dict(of_position)
    for number, momentum in enumerate(series[problem.size :]):
        for power, expected in ((1, 0.0), (2, temperature)):
            name = f"m{number}^{power}"
            found[name], truth[name] = momentum**power, expected
            for feature, expectation in of_position.items():
                found[f"{feature}·{name}"] = found[feature] * momentum**power
                truth[f"{feature}·{name}"] = expectation * expected
    limit = stats.t.isf(1e-6 / 2 / len(truth), 39)
    wrong: dict[str, float] = {}
    for name, values in found.items():
        means = values.reshape(40, -1).mean(1)
        z = (means.mean() - truth[name]) / (means.std(ddof=1) / math.sqrt(40))
        if not abs(z) < limit:
            wrong[name] = float(z)
    return wrong
