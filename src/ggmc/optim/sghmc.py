"""SGHMC: stochastic-gradient Hamiltonian Monte Carlo in a training loop, by symplectic Euler and Maruyama.

    m ← β m − h·N·(g + weight_decay·θ) + √(2(1 − β) T) ε
    θ ← θ + h m

with h = √(ℓ/N), for learning rate ℓ, momentum β = 1 − γh and N = num_data. At T = 0 and from rest, m = −N·h·v gives
v ← β v + g and θ ← θ − ℓ v, which is `torch.optim.SGD(lr=ℓ, momentum=β)`.

Biased: its momenta by O(h), its positions by O(h²) with exact gradients, and both by the gradient's noise. The pair
(θ, m) never retraces a step (Theorem 1 of Garriga-Alonso and Fortuin, 2020), so log α is −∞. Its positions alone are
those of unadjusted AMAGOLD at its kick points, of step size h' = h√(1 + c) and momentum m/√(1 + c), c = γh/(2 − γh),
whose log α is finite: AMAGOLD is the relabelling of SGHMC that a test can correct.

Reference: Chen, Fox and Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", 2014.
"""

from __future__ import annotations

import math

from torch import Tensor

from ggmc.optim.chain import Chain
from ggmc.optim.groups import Given
from ggmc.optim.integrator import Memoryless
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Trajectory
from ggmc.optim.trajectory_sampler import TrajectorySampler

THEOREM_1 = (
    "SGHMC cannot be Metropolis-corrected: symplectic Euler–Maruyama never retraces its step in (θ, m), so α is 0 at "
    "every learning rate (Theorem 1 of Garriga-Alonso and Fortuin, 2020). Use ggmc.optim.GGMC, or ggmc.AMAGOLD, which "
    "has the same positions at its kick points and a finite log α; or monitor SGHMC with reject=False"
)


class EulerMaruyama(Memoryless):
    """O and B at once, then A: the word is no palindrome."""

    no_test = THEOREM_1
    euler = True

    def step(self, chain: Chain, force: Tensor, now: Settings, trajectory: Trajectory | None) -> None:
        chain.friction(now.momentum, math.sqrt(2 * (1 - now.momentum) * now.temperature))
        chain.kick(force, now.num_data * now.step_size, now.ratios)
        chain.drift(now.step_size, now.ratios)


class SGHMC(TrajectorySampler):
    """The usual stochastic-gradient sampler with momentum, biased, as a baseline.

    The parameters are at θ between steps. A trajectory may be monitored, and its log α is −∞.

    Args:
        parameters: A module, several parameters, or parameter groups with an "lr" and a "weight_decay" of their own.
        lr: ℓ = num_data · h², SGD's learning rate, for step size h.
        momentum: β = 1 − γh, SGD's momentum.
        num_data: The number of examples in all.
        temperature: T; 0 is optimisation.
        weight_decay: A Gaussian prior of variance 1/(num_data · weight_decay).
        seed: Of the noise; None for one drawn from torch's own generator.

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

    def __init__(
        self,
        parameters: Given,
        lr: float,
        momentum: float = 0.9,
        *,
        num_data: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        seed: int | None = None,
    ):
        super().__init__(
            parameters, EulerMaruyama(), seed, lr=lr, momentum=momentum, num_data=num_data, temperature=temperature,
            weight_decay=weight_decay,
        )  # fmt: skip
