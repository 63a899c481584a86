"""The asymmetric quartic U = x⁴/4 + x: exact draws, its moments, and the bias of E[x²] without the test, from log α.

Along any path that can be retraced, α is the probability density of the way back from the target, divided by that of
the way there. So paths that start from exact draws have E[α f(end)] = E[f] for every f, and the bias of the end is

    E[f(end)] − E[f] = E[(1 − α) f(end)],

whose Monte Carlo error falls with the step size as fast as the bias itself. With f less a constant it is the same,
because E[α] = 1, and has a smaller error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import ggmc
from experiments.estimates import Estimate, estimate
from ggmc.dynamics.state import State
from ggmc.kernels import Kernel
from ggmc.targets.base import Target

F64 = torch.float64
GRID = np.linspace(-6.0, 5.0, 200_001)
WEIGHTS = np.exp(-(GRID**4 / 4 + GRID))
WEIGHTS /= WEIGHTS.sum()
SQUARE = float(WEIGHTS @ GRID**2)  # E[x²] = 0.9170


def exact_draws(number: int, generator: torch.Generator) -> Tensor:
    """Independent draws [number, 1].

    Args:
        number: How many.
        generator: Of the uniform numbers.
    """
    uniform = torch.rand(number, generator=generator, dtype=F64).numpy()
    return torch.from_numpy(np.interp(uniform, np.cumsum(WEIGHTS), GRID))[:, None]


def quartic() -> ggmc.Density:
    """The target without data."""
    return ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=F64))


def quartic_of_examples(spread: float, examples: int = 100) -> ggmc.DataDensity:
    """The same target, shared out over examples that also pull to the left and to the right.

    Args:
        spread: The standard deviation of the gradient of a single example, times the number of examples.
        examples: How many.
    """
    pulls = torch.randn(examples, generator=torch.Generator().manual_seed(0), dtype=F64)
    pulls = spread / examples * (pulls - pulls.mean()) / pulls.std(correction=0)

    def log_likelihood(x: Tensor, pull: Tensor) -> Tensor:
        return -((x**4 / 4 + x) / examples + pull * x)

    return ggmc.DataDensity(lambda x: 0.0 * x.sum(), log_likelihood, pulls, torch.zeros(1, dtype=F64))


def square_at_the_end(state: State) -> Tensor:
    """θ² of every chain."""
    return state.position[:, 0] ** 2


def bias_from_alpha(
    kernel: Kernel,
    target: Target,
    chains: int,
    trajectories: int,
    seed: int,
    function: Callable[[State], Tensor] = square_at_the_end,
) -> tuple[Estimate, Estimate]:
    """E[f] at the end of paths that start from exact draws, less E[f] of the target.

    Args:
        kernel: Without the test, and of a word that can be retraced.
        target: The quartic.
        chains: Independent paths.
        trajectories: Of each path; so many that its end has forgotten its start.
        seed: Of everything random.
        function: f.

    Returns:
        The bias, and the mean of α, which is 1.
    """
    generator = torch.Generator().manual_seed(seed)
    init, step = kernel.bind(target)
    state = init(exact_draws(chains, generator), generator)
    log_alpha = torch.zeros(chains, dtype=F64)
    for _ in range(trajectories):
        state, info = step(state, generator)
        log_alpha += info.log_accept
    alpha = log_alpha.exp()
    return estimate((1 - alpha) * (function(state) - SQUARE)), estimate(alpha)


def mean_of_square(
    kernel: Kernel, target: Target, chains: int, trajectories: int, seed: int
) -> tuple[Estimate, Estimate]:
    """E[x²] along chains that start from exact draws, less that of the target, and the mean of min(1, α).

    Args:
        kernel: Any.
        target: The quartic.
        chains: Independent ones, whose means give the error.
        trajectories: Of each; the first third is left out.
        seed: Of everything random.
    """
    generator = torch.Generator().manual_seed(seed)
    init, step = kernel.bind(target)
    state = init(exact_draws(chains, generator), generator)
    squares, accepted = torch.zeros(2, chains, dtype=F64)
    kept = range(trajectories // 3, trajectories)
    for number in range(trajectories):
        state, info = step(state, generator)
        if number in kept:
            squares += square_at_the_end(state) / len(kept)
            accepted += info.acceptance() / len(kept)
    return estimate(squares - SQUARE), estimate(accepted)
