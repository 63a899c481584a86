"""SGLD: stochastic-gradient Langevin dynamics in a training loop, in its usual one line.

    θ ← θ − ℓ·(g + weight_decay·θ) + √(2ℓT/N) ε

for learning rate ℓ = N·h²/2 and N = num_data; at T = 0 `torch.optim.SGD(lr=ℓ)`. Biased, by O(h²) and by the gradient's
noise. Welling and Teh, "Bayesian learning via stochastic gradient Langevin dynamics", 2011.
"""

from __future__ import annotations

import math
from typing import Never

from torch import Tensor

from ggmc.errors import NotExact
from ggmc.optim.sampler import Parameters, Potential, Sampler
from ggmc.optim.settings import Settings

NO_TEST = (
    "SGLD has no trajectory to test: its test needs the gradient at the end of each step too. Use "
    "ggmc.optim.GGMC(momentum=0), its reversible form, or ggmc.MALA, which is SGLD with the test"
)


class SGLD(Sampler):
    """The simplest stochastic-gradient sampler, biased, as a baseline; settings as in `GGMC`, without momentum.

    The parameters sit at θ between steps.

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
        parameters: Parameters,
        lr: float,
        *,
        num_data: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        seed: int | None = None,
    ):
        super().__init__(parameters, seed, lr=lr, num_data=num_data, temperature=temperature, weight_decay=weight_decay)
        self._owed = 0.0  # there is no momentum to draw

    def _move(self, force: Tensor, now: Settings) -> None:
        spread = math.sqrt(2 * now.lr * now.temperature / now.num_data)
        if spread:
            noise = self._spare.normal_(0.0, spread, generator=self._generator)
            self._position.add_(noise.add_(force, alpha=-now.lr))
        else:
            self._position.add_(force, alpha=-now.lr)

    def begin_trajectory(self, potential: Potential | None = None) -> Never:
        """Refused."""
        raise NotExact(NO_TEST)

    def end_trajectory(self, potential: Potential | None = None, reject: bool = False) -> Never:
        """Refused."""
        raise NotExact(NO_TEST)
