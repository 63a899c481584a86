"""The mass: the inverse covariance of all chains' positions in a window, or the size of each tensor's gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ggmc.dynamics.mass import Dense, Diagonal, Mass, MassLike, is_kind
from ggmc.errors import BadInput
from ggmc.targets.base import Target

Kind = Literal["diagonal", "dense"]

DRAWS_PER_PARAMETER = 10  # a dense mass from fewer draws than this costs more in noise than it gains
ENOUGH_DRAWS_PER_PARAMETER = 4  # effective ones; with fewer, a window's covariance is shrunk towards its diagonal ...
SHRINKAGE = 5.0  # ... which then counts for this many draws
LARGEST_DENSE = 256  # beyond this a dense product per step outweighs most gradients
GOLDEN = (5**0.5 - 1) / 2
STATES = 16  # past ones of a window, over which the curvature is averaged for a mass of low rank


def suitable_kind(parameters: int, draws: int) -> Kind:
    """Dense where the last window will hold enough draws to know it."""
    return "dense" if parameters <= LARGEST_DENSE and draws >= DRAWS_PER_PARAMETER * parameters else "diagonal"


def kind_to_learn(wanted: MassLike, known: bool, parameters: int, draws: int) -> Kind | None:
    """The kind of mass that is found from the chains' positions, or None.

    Args:
        wanted: The kernel's mass: as given, the name of a kind, or None for the one that suits.
        known: Whether the guide or the target knew one.
        parameters: d.
        draws: That the last window will hold, of all chains.
    """
    if wanted is None and not known:
        return suitable_kind(parameters, draws)
    if is_kind(wanted) and (wanted in ("diagonal", "dense") or (wanted == "low_rank" and not known)):
        return "dense" if wanted == "dense" else "diagonal"
    return None


def per_tensor(target: Target, position: Tensor) -> Mass:
    """One number per named tensor, the root mean square of its gradients, in units of the smallest.

    For networks of too many parameters to know each one's variance: tensors with large gradients are the stiff ones.
    """
    gradient = target.potential_and_gradient(position)[1].double()
    sizes = torch.ones(position.shape[-1], dtype=torch.float64, device=position.device)
    for columns in target.layout.columns.values():
        sizes[columns] = gradient[:, columns].square().mean().sqrt()
    smallest = sizes[sizes > 0].min() if (sizes > 0).any() else sizes.new_ones(())
    return Diagonal((sizes / smallest).clamp_min(1.0), position.dtype)


def longer(mass: Mass, before: Mass) -> float:
    """With another mass positions move at another speed: how many times as long as before the same way takes."""
    now = mass.velocity_variance()
    speed_up = now.log() - before.velocity_variance().double().log().to(now.device)
    return math.exp(-speed_up.median().item() / 2)


@dataclass
class Moments:
    """Running mean, scatter and squared jumps of positions, pooled over chains and draws, in float64."""

    count: int
    mean: Tensor  # [d]
    scatter: Tensor  # [d], or [d, d] for a dense mass
    square_jumps: Tensor  # [d]

    @classmethod
    def none(cls, like: Tensor, kind: Kind) -> Moments:
        """Nothing seen yet."""
        mean = torch.zeros(like.shape[-1], dtype=torch.float64, device=like.device)
        return cls(0, mean, torch.diag(mean) if kind == "dense" else mean.clone(), mean.clone())

    def add(self, position: Tensor, previous: Tensor) -> None:
        """Take in one draw of every chain, and where each came from: Chan's update for a batch."""
        rows = position.double()
        self.count += len(rows)
        centre = rows.mean(0)
        delta = centre - self.mean
        self.mean += delta * (len(rows) / self.count)
        self.square_jumps += ((rows - previous) ** 2).sum(0)
        rows = rows - centre
        between = len(rows) * (self.count - len(rows)) / self.count
        if self.scatter.dim() == 2:
            self.scatter += rows.mT @ rows + between * torch.outer(delta, delta)
        else:
            self.scatter += (rows**2).sum(0) + between * delta**2

    def copy(self, device: torch.device) -> Moments:
        """The same, in memory of its own."""
        return Moments(self.count, *(x.to(device, copy=True) for x in (self.mean, self.scatter, self.square_jumps)))

    @property
    def variance(self) -> Tensor:
        scatter = self.scatter.diagonal() if self.scatter.dim() == 2 else self.scatter
        return scatter / max(1, self.count - 1)

    @property
    def effective_draws(self) -> float:
        """Of the slowest coordinate: count · (1−ρ)/(1+ρ), with 1−ρ half the mean squared jump of a unit variance."""
        change = (self.square_jumps / (2 * self.count * self.variance)).clamp(0.0, 1.0)
        return self.count * (change / (2 - change)).min().item()

    def mass(self, temperature: float, like: Tensor) -> Mass | None:
        """M = T·Σ⁻¹, so that the target has unit scale and unit frequency; None while Σ is not known."""
        variance = self.variance
        if self.count < 2 or not (variance.isfinite() & (variance > 0)).all():
            return None
        diagonal = Diagonal(temperature / variance, like.dtype)
        if self.scatter.dim() == 1:
            return diagonal
        covariance = self.scatter / (self.count - 1)
        # With enough draws it is not shrunk: a sample covariance is equally good in all coordinates, while any mix with
        # its diagonal closes a narrow valley, which is what a dense mass is for. With few, some directions are unseen.
        if self.effective_draws < ENOUGH_DRAWS_PER_PARAMETER * len(self.mean):
            trust = self.count / (self.count + SHRINKAGE)
            covariance = trust * covariance + (1 - trust) * torch.diag(variance)
        factor, failed = torch.linalg.cholesky_ex(covariance)
        if failed.item():
            return diagonal
        try:
            return Dense(temperature * torch.cholesky_inverse(factor), like.dtype)
        except BadInput:  # so narrow that its inverse is no longer positive definite in float64
            return diagonal


@dataclass
class PastStates:
    """Between 16 and 32 states of all chains in turn, spread evenly over what has been seen of a window.

    Args:
        rows: [states, d].
        every: Of how many trajectories one is kept.
        seen: Trajectories so far.
    """

    rows: Tensor
    every: int = 1
    seen: int = 0

    def add(self, position: Tensor) -> None:
        """One draw of every chain, of which one chain's may be kept."""
        if self.seen % self.every == 0:
            chain = int(self.seen * GOLDEN % 1.0 * len(position))  # even over chains, whatever is thinned out later
            self.rows = torch.cat([self.rows, position[chain : chain + 1]])
            if len(self.rows) == 2 * STATES:
                self.rows, self.every = self.rows[::2], 2 * self.every
        self.seen += 1
