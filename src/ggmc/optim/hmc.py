"""HMC: Hamiltonian Monte Carlo in a training loop, the word `O(ABA)O` with a momentum drawn afresh for each trajectory.

The step is that of `oabao.py`, without friction. Targets exp(−(U(θ) + |m|²/2)/T), exactly, with gradients of all
data or of batches. Neal, "MCMC using Hamiltonian dynamics", 2011.
"""

from __future__ import annotations

from ggmc.dynamics.state import Info
from ggmc.errors import BadInput
from ggmc.optim.groups import Given
from ggmc.optim.oabao import Midpoint
from ggmc.optim.trajectory import Potential
from ggmc.optim.trajectory_sampler import TrajectorySampler


class HMC(TrajectorySampler):
    """Hamiltonian Monte Carlo: every step belongs to a trajectory, and every trajectory is tested by default.

    Args:
        parameters: A module, several parameters, or parameter groups with an "lr" and a "weight_decay" of their own.
        lr: ℓ = num_data · h², for step size h.
        num_data: The number of examples in all.
        temperature: T.
        weight_decay: A Gaussian prior of variance 1/(num_data · weight_decay).
        seed: Of the noise; None for one drawn from torch's own generator.

    Example:
        >>> import torch
        >>> from ggmc import optim
        >>> point = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        >>> optimiser = optim.HMC([point], lr=0.5, num_data=1, seed=0)
        >>> def potential():
        ...     return (point**4 / 4 + point).sum()
        >>> draws = []
        >>> for _ in range(1000):
        ...     optimiser.begin_trajectory()
        ...     for _ in range(3):
        ...         optimiser.zero_grad()
        ...         potential().backward()
        ...         optimiser.step()
        ...     info = optimiser.end_trajectory(potential)
        ...     draws.append(point.item())
        >>> abs(sum(draws) / 1000 + 0.6224) < 0.1                   # the truth is −0.6224
        True
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
            parameters, Midpoint(None), seed, lr=lr, num_data=num_data, temperature=temperature,
            weight_decay=weight_decay,
        )  # fmt: skip

    def end_trajectory(self, potential: Potential | None = None, reject: bool = True) -> Info:
        """End the trajectory, tested by default; see `GGMC.end_trajectory`.

        Args:
            potential: The loss summed over all data, or a function that computes it.
            reject: Whether to accept the end with probability min(1, α) only.
        """
        return super().end_trajectory(potential, reject)

    def _require_can_step(self) -> None:
        if self._trajectory is None:
            raise BadInput("HMC draws its momentum where a trajectory begins: begin_trajectory() before step()")
        super()._require_can_step()
