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
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ggmc.errors import BadInput, require_seed
from ggmc.guides.anchor import curvatures, find_anchor, given_anchor, gradients_at
from ggmc.guides.base import BatchGuide, GradientField
from ggmc.guides.batches import Batches
from ggmc.guides.minibatch import batch_gradient, check_size, known_size, with_data
from ggmc.guides.orders import Order, as_order
from ggmc.targets.base import Advice, DataTarget, Target

CURVATURES = ("none", "diagonal", "dense")
CACHE = 2 * 2**30  # bytes: what is known of each batch at the anchor is kept if it is smaller, else computed again
SHORT = 10  # steps of a trajectory by default: little noise does not need whole sweeps to cancel


@dataclass(frozen=True)
class ControlVariate(BatchGuide):
    """Drive the chain with minibatch gradients corrected at an anchor.

    What is known of each batch at the anchor is computed once, when the guide is bound. So the cut into batches is
    fixed, and its examples are seen as they are: there is no `recut` and no `augment`, as in `ggmc.Minibatch`.

    Args:
        size: The most examples in a batch, or "auto", which leaves it to warm-up.
        order: In which order a trajectory reads the batches: "palindrome", "epoch", "iid" or a `ggmc.CustomOrder`.
        curvature: "none" corrects to first order. "diagonal" and "dense" correct to second order, with d or d² numbers
            for each batch; "diagonal" helps only where parameters are little correlated. Where warm-up is to find the
            mass, it takes the curvature.
        anchor: Values in the form of the target's start, inside its constraints; by default the mode that L-BFGS finds
            from the start. It is then fixed. Chains start around it, as widely as the curvature says, or at it where
            `curvature="none"`.
        seed: The seed of the cut of the data into batches.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.DataDensity(
        ...     log_prior=lambda w: -(w**2).sum() / 2,
        ...     log_likelihood=lambda w, x: -((x - w) ** 2).sum(-1) / 2,
        ...     data=torch.arange(10.0, dtype=torch.float64)[:, None],
        ...     start=torch.zeros(1, dtype=torch.float64),
        ... )
        >>> field = ggmc.ControlVariate(4, curvature="dense").bind(target)
        >>> field.anchor, field.curvature                # the mode, 45 / 11, and ∇²U there
        (tensor([4.0909], dtype=torch.float64), tensor([[11.]], dtype=torch.float64))
        >>> [round(field(field.anchor[None] + 1, torch.tensor([batch]))[0].item(), 6) for batch in range(3)]  # no noise
        [11.0, 11.0, 11.0]
    """

    size: int | str
    order: str | Order = "palindrome"
    curvature: str = "none"
    anchor: Tensor | Mapping[str, Tensor] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_size(self.size)
        as_order(self.order)
        require_seed("seed", self.seed)
        if self.curvature not in CURVATURES:
            raise BadInput(f"curvature must be one of {list(CURVATURES)}, got {self.curvature!r}")

    def bind(self, target: Target) -> ControlVariateField:
        target = with_data(target, self)
        batches = Batches(target.data, known_size(self.size), self.seed)
        anchor = find_anchor(target) if self.anchor is None else given_anchor(target, self.anchor)
        return ControlVariateField(target, batches, as_order(self.order), anchor, self.curvature)

    def bind_again(self, target: Target, found: Mapping[str, Tensor]) -> ControlVariateField:
        target = with_data(target, self)
        batches = Batches(target.data, known_size(self.size), self.seed)
        anchor = found["anchor"].to(target.start)
        return ControlVariateField(target, batches, as_order(self.order), anchor, self.curvature)

    def with_size(self, size: int, field: GradientField | None = None) -> ControlVariate:
        anchor = field.anchor_values if isinstance(field, ControlVariateField) else self.anchor
        return replace(self, size=size, anchor=anchor)


class ControlVariateField(GradientField):
    """The corrected field, its anchor, and what is known there.

    Args:
        target: The target.
        batches: The batches.
        order: The distribution of the tape.
        anchor: θ* as an unconstrained row [d].
        curvature: "none", "diagonal" or "dense".
    """

    def __init__(self, target: DataTarget, batches: Batches, order: Order, anchor: Tensor, curvature: str):
        self._target, self._batches, self._anchor = target, batches, anchor
        numbers, d = batches.count, len(anchor)
        needed = {"none": 0, "diagonal": numbers * d, "dense": numbers * d * d}[curvature] * 8
        if needed > CACHE:
            power = "²" if curvature == "dense" else ""
            raise BadInput(
                f'curvature="{curvature}" needs {numbers} batches × {d}{power} numbers, {needed / 2**30:.3g} GiB: use '
                'another curvature ("diagonal", "none"), or larger batches'
            )
        self._gradient_at_anchor, per_batch = gradients_at(target, batches, anchor, keep=numbers * d * 8 <= CACHE)
        self._gradients = None if per_batch is None else per_batch - self._gradient_at_anchor
        self._curvature: Tensor | None = None
        self._curvatures: Tensor | None = None
        if curvature != "none":
            each = curvatures(target, batches, anchor, diagonal=curvature == "diagonal")
            self._curvature = each.mean(0, dtype=torch.float64)
            self._curvatures = (each - self._curvature).to(anchor.dtype)
        sweep = order.sweep(numbers)
        super().__init__(
            order=order,
            epoch=numbers,
            sweep=sweep,
            default_steps=min(SHORT, sweep),
            frozen=self._kept,
            advice=Advice(mass=self.mass, starts=self.starts),
            found={"anchor": anchor},
        )

    # Read-only: what adapts while sampling voids exactness.

    @property
    def anchor(self) -> Tensor:
        """θ*, unconstrained: [d]."""
        return self._anchor

    @property
    def gradient_at_anchor(self) -> Tensor:
        """∇U(θ*): [d]."""
        return self._gradient_at_anchor

    @property
    def curvature(self) -> Tensor | None:
        """∇²U(θ*), float64, [d, d] or its diagonal [d]; None with `curvature="none"`."""
        return self._curvature

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        gradient = batch_gradient(self._target, self._batches, position, entry)
        if self._gradients is not None:
            gradient = gradient - self._gradients[entry]
        else:
            at_anchor = batch_gradient(self._target, self._batches, self._anchor.expand_as(position), entry)
            gradient = gradient - (at_anchor - self._gradient_at_anchor)
        if self._curvatures is not None:
            away, curvature = position - self._anchor, self._curvatures[entry]
            bent = curvature * away if curvature.dim() == 2 else torch.bmm(curvature, away[:, :, None])[:, :, 0]
            gradient = gradient - bent
        return gradient, None

    def _kept(self) -> list[Tensor]:
        kept = (self._anchor, self._gradient_at_anchor, self._gradients, self._curvatures)
        return [tensor for tensor in kept if tensor is not None]

    @property
    def anchor_values(self) -> dict[str, Tensor]:
        """The anchor as the user's named values, inside their constraints."""
        return self._target.constrain(self._anchor)

    def mass(self) -> Tensor | None:
        """M = H, made positive, which gives the target unit frequency in all directions; None without a curvature."""
        return None if self._curvature is None else _made_positive(self._curvature)

    def starts(self, chains: int, temperature: float, generator: torch.Generator) -> Tensor:
        """Draws of the normal approximation at the anchor, twice as wide; the anchor itself without a curvature.

        Args:
            chains: How many.
            temperature: The temperature T of the target.
            generator: The source of randomness.

        Returns:
            [chains, d].
        """
        mass = self.mass()
        if mass is None:
            return self._anchor.expand(chains, -1).clone()
        noise = torch.randn((chains, len(mass)), generator=generator, dtype=torch.float64, device=generator.device)
        noise = noise.to(mass.device)
        if mass.dim() == 1:
            away = noise / mass.sqrt()
        else:  # M = LLᵀ, so that L⁻ᵀε has covariance M⁻¹
            away = torch.linalg.solve_triangular(torch.linalg.cholesky(mass).mT, noise.mT, upper=True).mT
        return self._anchor + (2 * math.sqrt(temperature) * away).to(self._anchor.dtype)


def _made_positive(curvature: Tensor) -> Tensor:
    """The curvature with absolute eigenvalues, the smallest raised: a mass must be positive definite."""
    if curvature.dim() == 1:
        size = curvature.abs()
        return size.clamp_min(1e-6 * size.max().item())
    values, vectors = torch.linalg.eigh((curvature + curvature.mT) / 2)
    values = values.abs().clamp_min(1e-9 * values.abs().max().item())
    return (vectors * values) @ vectors.mT
