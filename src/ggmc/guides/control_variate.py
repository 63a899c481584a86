"""Control variates: minibatch gradients with most of their noise taken out.

Let P_j(θ) be a minibatch's potential, prior and weight included, so that U is the mean of P_j over the batches j. With
an anchor θ*, and H_j = ∇²P_j(θ*) or its diagonal, mean H,

    g(θ; j) = ∇P_j(θ) − [∇P_j(θ*) − ∇U(θ*)] − (H_j − H)(θ − θ*)

has mean ∇U(θ) and, near the anchor, noise that falls with the distance from it (`curvature="none"`) or its square. The
brackets depend on the batch alone: computed once, they cost nothing at a step.

Reference: Baker, Fearnhead, Fox and Nemeth, "Control variates for stochastic gradient MCMC", 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.guides.anchor import curvatures, find_anchor, given_anchor, gradients_at
from ggmc.guides.base import BatchGuide, GradientField
from ggmc.guides.minibatch import batch_gradient, check_size, known_size, with_data
from ggmc.guides.orders import Order, as_order
from ggmc.guides.batches import Batches
from ggmc.targets.base import Advice, DataTarget, Target

CURVATURES = ("none", "diagonal", "dense")
CACHE = 2 * 2**30  # bytes: what is known of each batch at the anchor is kept if it is smaller, else computed again
SHORT = 10  # steps of a trajectory where nobody says otherwise: little noise does not need whole sweeps to cancel


@dataclass(frozen=True)
class ControlVariate(BatchGuide):
    """Drive the chain with minibatches corrected at an anchor.

    The anchor is the mode that L-BFGS finds from the target's start, or the values you give; it is then fixed. Chains
    start around it, as widely as the curvature says, or at it where `curvature="none"`. `curvature` corrects to second
    order: "dense" needs d² numbers per batch, "diagonal" d, and helps only where parameters are little correlated.
    Where warm-up is to find the mass, it takes the curvature. `size`, `order` and `seed` are as in `ggmc.Minibatch`.

    Example:
        >>> import ggmc
        >>> ggmc.GGMC(guide=ggmc.ControlVariate(100, curvature="dense")).guide.curvature
        'dense'
    """

    size: int | str
    order: Any = "palindrome"
    curvature: str = "none"
    anchor: Any = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_size(self.size)
        as_order(self.order)
        if self.curvature not in CURVATURES:
            raise BadInput(f"curvature must be one of {list(CURVATURES)}, got {self.curvature!r}")

    def bind(self, target: Target) -> ControlVariateField:
        target = with_data(target, self)
        batches = Batches(target.data, known_size(self.size), self.seed)
        anchor = find_anchor(target) if self.anchor is None else given_anchor(target, self.anchor)
        return ControlVariateField(target, batches, as_order(self.order), anchor, self.curvature)

    def with_size(self, size: int, field: GradientField | None = None) -> ControlVariate:
        anchor = field.anchor_values if isinstance(field, ControlVariateField) else self.anchor
        return replace(self, size=size, anchor=anchor)


class ControlVariateField(GradientField):
    """The corrected field, its anchor, and what is known there."""

    def __init__(self, target: DataTarget, batches: Batches, order: Order, anchor: Tensor, curvature: str):
        self.anchor = anchor
        self._target, self._batches = target, batches
        numbers, d = batches.count, len(anchor)
        needed = {"none": 0, "diagonal": numbers * d, "dense": numbers * d * d}[curvature] * 8
        if needed > CACHE:
            power = "²" if curvature == "dense" else ""
            raise BadInput(
                f'curvature="{curvature}" needs {numbers} batches × {d}{power} numbers, {needed / 2**30:.3g} GiB: use '
                'another curvature ("diagonal", "none"), or larger batches'
            )
        self.gradient_at_anchor, per_batch = gradients_at(target, batches, anchor, keep=numbers * d * 8 <= CACHE)
        self._gradients = None if per_batch is None else per_batch - self.gradient_at_anchor
        self.curvature: Tensor | None = None  # of U at the anchor: [d] or [d, d], float64
        self._curvatures: Tensor | None = None
        if curvature != "none":
            each = curvatures(target, batches, anchor, diagonal=curvature == "diagonal")
            self.curvature = each.mean(0, dtype=torch.float64)
            self._curvatures = (each - self.curvature).to(anchor.dtype)
        kept = (self.anchor, self.gradient_at_anchor, self._gradients, self._curvatures)
        sweep = order.sweep(numbers)
        super().__init__(
            order=order,
            epoch=numbers,
            sweep=sweep,
            default_steps=min(SHORT, sweep),
            frozen=[tensor for tensor in kept if tensor is not None],
            advice=Advice(mass=self.mass, starts=self.starts),
        )

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        gradient = batch_gradient(self._target, self._batches, position, entry)
        if self._gradients is not None:
            gradient = gradient - self._gradients[entry]
        else:
            at_anchor = batch_gradient(self._target, self._batches, self.anchor.expand_as(position), entry)
            gradient = gradient - (at_anchor - self.gradient_at_anchor)
        if self._curvatures is not None:
            away, curvature = position - self.anchor, self._curvatures[entry]
            bent = curvature * away if curvature.dim() == 2 else torch.bmm(curvature, away[:, :, None])[:, :, 0]
            gradient = gradient - bent
        return gradient, None

    @property
    def anchor_values(self) -> dict[str, Tensor]:
        """The anchor as the user's named values."""
        return self._target.constrain(self.anchor)

    def mass(self) -> Tensor | None:
        """M = H, which gives the target unit frequency in all directions; None without a curvature."""
        return None if self.curvature is None else _made_positive(self.curvature)

    def starts(self, chains: int, temperature: float, generator: torch.Generator) -> Tensor:
        """Draws of the normal approximation at the anchor, twice as wide; at the anchor itself without one."""
        mass = self.mass()
        if mass is None:
            return self.anchor.expand(chains, -1).clone()
        noise = torch.randn((chains, len(self.anchor)), generator=generator, dtype=torch.float64, device=mass.device)
        if mass.dim() == 1:
            away = noise / mass.sqrt()
        else:  # M = LLᵀ, so that L⁻ᵀε has covariance M⁻¹
            away = torch.linalg.solve_triangular(torch.linalg.cholesky(mass).mT, noise.mT, upper=True).mT
        return self.anchor + (2 * math.sqrt(temperature) * away).to(self.anchor.dtype)


def _made_positive(curvature: Tensor) -> Tensor:
    """The curvature with its signs dropped and its smallest values lifted: a mass must be positive definite."""
    if curvature.dim() == 1:
        size = curvature.abs()
        return size.clamp_min(1e-6 * size.max().item())
    values, vectors = torch.linalg.eigh((curvature + curvature.mT) / 2)
    values = values.abs().clamp_min(1e-9 * values.abs().max().item())
    return (vectors * values) @ vectors.mT
