"""Chains that early warm-up finds in a region that holds next to no probability.

The mass of the region where a chain moves is estimated from a window of its draws. With their mean potential Ū and
their covariance Σ, in d dimensions at temperature T,

    log mass ≈ −Ū/T + ½ log det Σ + constant,

which is exact for a Gaussian region. Potential alone would not do: a wide mode lies higher than a narrow one, and holds
more. Modes of comparable mass are left as they are: that the chains disagree about them is for R̂ to show.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ggmc.dynamics.state import State, choose

log = logging.getLogger("ggmc")

LEAST, PER_ROOT_DIMENSION = 10.0, 5.0  # by how much less log mass than the others a chain counts as stuck
LARGEST_DENSE = 64  # dimensions; beyond it, and with few draws, the covariance is taken to be diagonal
DRAWS_PER_DIMENSION = 3


@dataclass
class ChainMoments:
    """Running moments of each chain of one window, in float64.

    Args:
        count: Draws of each chain so far.
        potential: Their mean potential, [chains].
        mean: Their mean position, [chains, d].
        scatter: Sums of squared deviations, [chains, d], or of products of deviations, [chains, d, d].
    """

    count: int
    potential: Tensor
    mean: Tensor
    scatter: Tensor

    @classmethod
    def none(cls, like: Tensor) -> ChainMoments:
        """Nothing seen yet, of positions like these [chains, d]."""
        zeros = torch.zeros(like.shape, dtype=torch.float64, device=like.device)
        dense = like.shape[1] <= LARGEST_DENSE
        return cls(0, zeros[:, 0].clone(), zeros, torch.diag_embed(zeros) if dense else zeros.clone())

    def add(self, state: State) -> None:
        """One draw of every chain: Welford's update."""
        assert state.potential is not None
        self.count += 1
        rows = state.position.double()
        self.potential = self.potential + (state.potential - self.potential) / self.count
        before = rows - self.mean
        self.mean = self.mean + before / self.count
        after = rows - self.mean
        dense = self.scatter.dim() == 3
        self.scatter = self.scatter + (before[:, :, None] * after[:, None, :] if dense else before * after)

    def copy(self, device: torch.device) -> ChainMoments:
        """The same, in memory of its own."""
        return ChainMoments(self.count, *(x.to(device, copy=True) for x in (self.potential, self.mean, self.scatter)))

    def log_mass(self, temperature: float) -> Tensor:
        """The estimate above, up to a constant: [chains]; −∞ for a chain that did not move."""
        scatter, d = self.scatter / max(1, self.count - 1), self.mean.shape[1]
        if scatter.dim() == 3 and self.count < DRAWS_PER_DIMENSION * d:
            scatter = scatter.diagonal(dim1=1, dim2=2)
        volume = torch.linalg.slogdet(scatter)[1] if scatter.dim() == 3 else scatter.log().sum(1)
        return (-self.potential / temperature + volume / 2).nan_to_num(-torch.inf, -torch.inf, -torch.inf)


def allowance(dimensions: int) -> float:
    """A difference in potential, or log mass, that chains in equilibrium do not show: theirs is a few √(d/2)."""
    return LEAST + PER_ROOT_DIMENSION * math.sqrt(dimensions)


def move_stuck_chains(state: State, moments: ChainMoments, temperature: float) -> tuple[State, list[str]]:
    """Move a chain whose region holds next to no mass to where the chain with the most is.

    Args:
        state: All chains.
        moments: Of the window that has just ended.
        temperature: T.

    Returns:
        The state, and a sentence for each chain that was moved.
    """
    log_mass = moments.log_mass(temperature)
    stuck = log_mass < log_mass.median() - allowance(state.position.shape[1])
    best = int(log_mass.argmax())
    remarks = [
        f"Warm-up moved chain {chain} to chain {best}: where it was stuck, at a mean potential of "
        f"{moments.potential[chain].item():.4g} beside {moments.potential[best].item():.4g}, there is estimated to be "
        f"e^{(log_mass[chain] - log_mass[best]).item():.0f} times as much probability. If you know that region to matter, "
        "use more warm-up, or start=... with chains in all regions."
        for chain in stuck.nonzero().flatten().tolist()
    ]
    for remark in remarks:
        log.warning("%s", remark)
    everyone_at_best = state.map(lambda rows: rows[best].expand_as(rows))
    return choose(stuck, everyone_at_best, state), remarks
