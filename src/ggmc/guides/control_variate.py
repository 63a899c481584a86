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
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass, as_mass
from ggmc.errors import BadInput
from ggmc.guides.anchor import curvatures, find_anchor, given_anchor, gradients_at
from ggmc.guides.minibatch import MinibatchField, check_size, data_of, known_size
from ggmc.guides.orders import Order, as_order
from ggmc.targets.data import Batches
from ggmc.targets.density import Target

CURVATURES = ("none", "diagonal", "dense")
CACHE = 2 * 2**30  # bytes: what is known of each batch at the anchor is kept if it is smaller, else computed again
SHORT = 10  # steps of a trajectory where nobody says otherwise: little noise does not need whole sweeps to cancel


@dataclass(frozen=True)
class ControlVariate:
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
        batches = Batches(data_of(target, self), known_size(self.size), self.seed)
        given: Any = target
        anchor = find_anchor(given) if self.anchor is None else given_anchor(given, self.anchor)
        return ControlVariateField(given, batches, as_order(self.order), anchor, self.curvature)


class ControlVariateField(MinibatchField):
    """The corrected field, its anchor, and what is known there."""

    whole_sweeps = False

    def __init__(self, target: Any, batches: Batches, order: Order, anchor: Tensor, curvature: str):
        super().__init__(target, batches, order)
        self.anchor = anchor
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

    @property
    def default_steps(self) -> int:
        return min(SHORT, self.sweep)

    def __call__(self, position: Tensor, entry: Tensor) -> tuple[Tensor, None]:
        gradient, _ = super().__call__(position, entry)
        if self._gradients is not None:
            gradient = gradient - self._gradients[entry]
        else:
            at_anchor, _ = super().__call__(self.anchor.expand_as(position), entry)
            gradient = gradient - (at_anchor - self.gradient_at_anchor)
        if self._curvatures is not None:
            away, curvature = position - self.anchor, self._curvatures[entry]
            bent = curvature * away if curvature.dim() == 2 else torch.bmm(curvature, away[:, :, None])[:, :, 0]
            gradient = gradient - bent
        return gradient, None

    def frozen(self) -> list[Tensor]:
        kept = (self.anchor, self.gradient_at_anchor, self._gradients, self._curvatures)
        return [tensor for tensor in kept if tensor is not None]

    def mass(self, temperature: float) -> Mass | None:
        """M = H, which gives the target unit frequency in all directions."""
        if self.curvature is None:
            return None
        try:
            return as_mass(_made_positive(self.curvature)).to(self.anchor[None])
        except BadInput:
            return None

    def starts(self, chains: int, temperature: float, generator: torch.Generator) -> Tensor:
        """Draws of the normal approximation at the anchor, twice as wide; at the anchor itself without one."""
        shape = (chains, len(self.anchor))
        noise = torch.randn(shape, generator=generator, dtype=self.anchor.dtype, device=self.anchor.device)
        mass = self.mass(temperature)
        if mass is None:
            return self.anchor + 0 * noise
        return self.anchor + 2 * math.sqrt(temperature) * mass.velocity(mass.colour(noise))


def _made_positive(curvature: Tensor) -> Tensor:
    """The curvature with its signs dropped and its smallest values lifted: a mass must be positive definite."""
    if curvature.dim() == 1:
        size = curvature.abs()
        return size.clamp_min(1e-6 * size.max().item())
    values, vectors = torch.linalg.eigh((curvature + curvature.mT) / 2)
    values = values.abs().clamp_min(1e-9 * values.abs().max().item())
    return (vectors * values) @ vectors.mT
