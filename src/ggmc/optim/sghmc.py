"""SGHMC: stochastic-gradient Hamiltonian Monte Carlo in a training loop, by symplectic Euler and Maruyama.

    m ← β m − h·N·(g + weight_decay·θ) + √(2(1 − β) T) ε
    θ ← θ + h m

with h = √(ℓ/N), for learning rate ℓ, momentum β = 1 − γh and N = num_data. At T = 0 and from rest, m = −N·h·v gives
v ← β v + g and θ ← θ − ℓ v, which is `torch.optim.SGD(lr=ℓ, momentum=β)`. Biased, by O(h), and no test can correct it
or tell how wrong it is: see `ggmc.kernels.sghmc`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ggmc.dynamics.state import Info
from ggmc.errors import NotExact
from ggmc.kernels.sghmc import THEOREM_1
from ggmc.optim.sampler import Parameters, Potential, Sampler
from ggmc.optim.settings import Settings


class SGHMC(Sampler):
    """The usual stochastic-gradient sampler with momentum, biased, as a baseline; settings as in `GGMC`.

    The parameters sit at θ between steps. A trajectory may be looked at, and its log α is −∞.

    Example:
        >>> import torch
        >>> from ggmc import optim
        >>> net = torch.nn.Linear(2, 1)
        >>> optimiser = optim.SGHMC(net, lr=0.01, momentum=0.9, num_data=1000)
        >>> optimiser.begin_trajectory()
        >>> net(torch.ones(4, 2)).square().mean().backward()
        >>> optimiser.step()
        >>> optimiser.end_trajectory().log_accept.item()
        -inf
        >>> optimiser.begin_trajectory(); optimiser.step(); optimiser.end_trajectory(reject=True)
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: SGHMC cannot be Metropolis-corrected: symplectic Euler–Maruyama never retraces ...
    """

    _euler = True

    def __init__(
        self,
        parameters: Parameters,
        lr: float,
        momentum: float = 0.9,
        *,
        num_data: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        seed: int | None = None,
    ):
        super().__init__(
            parameters, seed, lr=lr, momentum=momentum, num_data=num_data, temperature=temperature,
            weight_decay=weight_decay,
        )  # fmt: skip

    def _move(self, force: Tensor, now: Settings) -> None:
        self._rub(self._momentum, now.momentum, math.sqrt(2 * (1 - now.momentum) * now.temperature), into=self._spare)
        self._momentum, self._spare = self._spare, self._momentum
        self._momentum.add_(force, alpha=-now.num_data * now.step_size)
        self._position.add_(self._momentum, alpha=now.step_size)

    def end_trajectory(self, potential: Potential | None = None, reject: bool = False) -> Info:
        if reject:
            raise NotExact(THEOREM_1.replace("ggmc.GGMC", "ggmc.optim.GGMC").replace("adjust", "reject"))
        info = super().end_trajectory(potential)
        never = torch.full_like(info.energy_error, torch.inf)
        return info._replace(log_accept=-never, energy_error=never)
