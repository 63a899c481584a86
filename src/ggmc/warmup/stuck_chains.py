"""Chains that early warm-up finds in a region that holds next to no probability.

The mass of the region where a chain moves is estimated from a window of its draws. With their mean potential Ū and
their covariance Σ, in d dimensions at temperature T,

    log mass ≈ −Ū/T + ½ log det Σ + constant,

which is exact for a Gaussian region. Potential alone would not do: a wide mode lies higher than a narrow one, and may
hold more. A chain that mixes slowly has seen only a part of its region, but gradients tell the width of the whole:
E[g²] = T·E[∂²U] for each coordinate, so that −½ Σ log(E[g²]/T²) is a second estimate of ½ log det Σ, too small where
coordinates are correlated. The larger of the two counts.

Modes of comparable mass are left as they are: that the chains disagree about them is for R̂ to show. So are chains whose
potential is still falling: they are on their way.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ggmc.dynamics.state import State, choose

log = logging.getLogger("ggmc")

LEAST, PER_ROOT_DIMENSION = 10.0, 5.0  # by how much less log mass than the others a chain counts as stuck
LARGEST_DENSE = 64  # dimensions; beyond it, and with few draws, the covariance is taken to be diagonal
DRAWS_PER_DIMENSION = 3
EULER = 0.5772156649015329


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
        return cls(0, zeros[:, 0].clone(), zeros, torch.diag_embed(zeros) if dense else zeros)

    def add(self, position: Tensor, potential: Tensor) -> None:
        """One draw of every chain: Welford's update.

        Args:
            position: Where the chains are, [chains, d].
            potential: U at the position, [chains].
        """
        self.count += 1
        rows = position.double()
        self.potential = self.potential + (potential - self.potential) / self.count
        before = rows - self.mean
        self.mean = self.mean + before / self.count
        after = rows - self.mean
        dense = self.scatter.dim() == 3
        self.scatter = self.scatter + (before[:, :, None] * after[:, None, :] if dense else before * after)

    def copy(self, device: torch.device) -> ChainMoments:
        """The same, in memory of its own."""
        return ChainMoments(self.count, *(x.to(device, copy=True) for x in (self.potential, self.mean, self.scatter)))

    def log_mass(self, gradient: Tensor, temperature: float) -> Tensor:
        """The estimate above, up to a constant: [chains].

        Args:
            gradient: ∇U where the chains are now, [chains, d].
            temperature: T.
        """
        volume = torch.maximum(self._explored_log_volume(), _log_volume_from(gradient, temperature))
        return (-self.potential / temperature + volume).nan_to_num(-torch.inf, torch.inf, -torch.inf)

    def _explored_log_volume(self) -> Tensor:
        """½ log det Σ, [chains]; −∞ for a chain that did not move."""
        covariance, d = self.scatter / max(1, self.count - 1), self.mean.shape[1]
        if covariance.dim() == 3 and self.count < DRAWS_PER_DIMENSION * d:
            covariance = covariance.diagonal(dim1=1, dim2=2)
        log_det = torch.linalg.slogdet(covariance)[1] if covariance.dim() == 3 else covariance.log().sum(1)
        return (log_det / 2).nan_to_num(-torch.inf, torch.inf, -torch.inf)


def _log_volume_from(gradient: Tensor, temperature: float) -> Tensor:
    """½ log det Σ from one gradient of each chain, [chains]; E[log χ²₁] = −γ − log 2 is what one draw is low by."""
    one_draw = EULER + math.log(2.0)
    return -(((gradient.double() / temperature) ** 2).log() + one_draw).sum(1) / 2


class Judged(NamedTuple):
    """What a window tells of each chain."""

    log_mass: Tensor
    """Of its region, up to a constant, [chains]."""
    stuck: Tensor
    """Whether its region holds next to no probability, [chains] bool."""
    travelling: Tensor
    """Whether it has come, or is coming, from such a region by itself, [chains] bool."""


def allowance(dimensions: int) -> float:
    """A difference in potential, or log mass, that chains in equilibrium do not show: theirs is a few √(d/2)."""
    return LEAST + PER_ROOT_DIMENSION * math.sqrt(dimensions)


def fall(dimensions: int) -> float:
    """How far below its mean, in temperatures, a potential in equilibrium hardly ever is: its deviation is √(d/2)."""
    return 2.0 + 2.0 * math.sqrt(dimensions / 2)


def judge(moments: ChainMoments, potential: Tensor, gradient: Tensor, temperature: float) -> Judged:
    """Which chains are stuck.

    Args:
        moments: Of the window that has just ended.
        potential: U where the chains are now, [chains].
        gradient: ∇U there, [chains, d].
        temperature: T.
    """
    log_mass, allowed = moments.log_mass(gradient, temperature), allowance(moments.mean.shape[1])
    behind = log_mass < _middle(log_mass) - allowed
    falling = (moments.potential - potential) / temperature > fall(moments.mean.shape[1])
    return Judged(log_mass, behind & ~falling, behind & falling)


def move_stuck_chains(state: State, moments: ChainMoments, judged: Judged) -> tuple[State, list[str]]:
    """Move stuck chains to where the chain with the most mass is.

    Args:
        state: All chains.
        moments: Of the window that has just ended.
        judged: From `judge`.

    Returns:
        The state, and a sentence for each chain that was moved.
    """
    best = int(judged.log_mass.argmax())
    remarks = [
        f"Warm-up moved chain {chain} to chain {best}: where it was stuck, at a mean potential of "
        f"{moments.potential[chain].item():.4g} beside {moments.potential[best].item():.4g}, there is estimated to be "
        f"e^{(judged.log_mass[chain] - judged.log_mass[best]).item():.0f} times as much probability. If that region "
        "matters, sample again with kernel=trace.kernel and start=... there: without tuning no chain is moved."
        for chain in judged.stuck.nonzero().flatten().tolist()
    ]
    for remark in remarks:
        log.info("%s", remark)
    everyone_at_best = state.map(lambda rows: rows[best].expand_as(rows))
    return choose(judged.stuck, everyone_at_best, state), remarks


def _middle(values: Tensor) -> Tensor:
    """The median; of an even number of values, the upper of the two in the middle."""
    return -(-values).median()
