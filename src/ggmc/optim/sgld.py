"""SGLD: stochastic-gradient Langevin dynamics in a training loop, in its usual one line.

    θ ← θ − (ℓ/2)·(g + weight_decay·θ) + √(ℓT/N) ε

for learning rate ℓ = N·h², as everywhere here, and N = num_data. These are the letters O, for an infinite time, B for
h/2 and A for h: SGLD(lr) is GGMC(lr, momentum=0), its one reversible step untested, and at T = 0
`torch.optim.SGD(lr=ℓ/2)`. Biased, by O(h²) and by the gradient's noise.

Reference: Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011.
"""

from __future__ import annotations

import math
from typing import Never

from torch import Tensor

from ggmc.errors import Condition, NotExact
from ggmc.optim.chain import Chain
from ggmc.optim.groups import Given
from ggmc.optim.integrator import Memoryless
from ggmc.optim.sampler import Sampler
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Potential, Trajectory

NO_TEST = (
    "SGLD has no trajectory to test: its test needs the gradient at the end of each step too. Use "
    "ggmc.optim.GGMC(momentum=0), its reversible form, or ggmc.MALA, which is SGLD with the test"
)


class Overdamped(Memoryless):
    """Every step with a momentum of its own, so that only the positions are remembered."""

    no_test = NO_TEST
    euler = False

    def step(self, chain: Chain, force: Tensor, now: Settings, trajectory: Trajectory | None) -> None:
        if now.temperature == 0:
            chain.descend(force, max(now.rates) / 2, now.ratios)
            return
        chain.friction(0.0, math.sqrt(now.temperature))
        chain.kick(force, now.num_data * now.half.time, now.ratios)
        chain.drift(now.step_size, now.ratios)


class SGLD(Sampler):
    """The simplest stochastic-gradient sampler, biased, as a baseline. The parameters are at θ between steps.

    Args:
        parameters: A module, several parameters, or parameter groups with an "lr" and a "weight_decay" of their own.
        lr: ℓ = num_data · h², twice the learning rate of SGD, for step size h.
        num_data: The number of examples in all.
        temperature: T; 0 is optimisation.
        weight_decay: A Gaussian prior of variance 1/(num_data · weight_decay).
        seed: Of the noise; None for one drawn from torch's own generator.

    Example:
        >>> import torch
        >>> from ggmc import optim
        >>> net = torch.nn.Linear(2, 1)
        >>> optimiser = optim.SGLD(net, lr=0.01, num_data=1000)
        >>> net(torch.ones(4, 2)).square().mean().backward()
        >>> optimiser.step()
        >>> optimiser.begin_trajectory()
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: SGLD has no trajectory to test: its test needs the gradient at the end of each step ...
    """

    def __init__(
        self,
        parameters: Given,
        lr: float,
        *,
        num_data: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        seed: int | None = None,
    ):
        super().__init__(
            parameters, Overdamped(), seed, lr=lr, num_data=num_data, temperature=temperature,
            weight_decay=weight_decay,
        )  # fmt: skip
        self._chain.owed = 0.0  # each step draws a momentum of its own

    def begin_trajectory(self, potential: Potential | None = None) -> Never:
        """Refused."""
        raise NotExact(NO_TEST, Condition.TEST)

    def end_trajectory(self, potential: Potential | None = None, reject: bool = False) -> Never:
        """Refused."""
        raise NotExact(NO_TEST, Condition.TEST)
