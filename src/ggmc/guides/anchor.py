"""The anchor of control variates: where it is, and what the batches look like from there."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from ggmc import progress
from ggmc.errors import BadInput
from ggmc.targets.base import DataTarget
from ggmc.guides.batches import Batches

log = logging.getLogger("ggmc")

ITERATIONS = 500
EXACT_DIAGONAL = 1024  # parameters: beyond this a diagonal is estimated with random signs
PROBES = 16


def find_anchor(target: DataTarget) -> Tensor:
    """The mode that L-BFGS finds from the target's start: [d]."""
    row = target.start.clone()
    optimiser = torch.optim.LBFGS(
        [row], max_iter=ITERATIONS, tolerance_grad=1e-6, tolerance_change=1e-10, line_search_fn="strong_wolfe"
    )
    scale = 1.0 / target.num_data  # a mean over the data keeps the optimiser's tolerances meaningful

    with progress.bar(desc="finding the anchor") as bar:

        def evaluate() -> float:
            potential, gradient = target.potential_and_gradient(row.detach()[None])
            row.grad = gradient[0] * scale
            bar.update()
            bar.set_postfix_str(f"potential {potential.item():.6g}", refresh=False)
            value = potential.item() * scale
            return value if value == value else float("inf")

        optimiser.step(evaluate)  # pyright: ignore[reportArgumentType]
    potential, gradient = target.potential_and_gradient(row[None])
    if not (potential.isfinite().all() and gradient.isfinite().all()):
        raise BadInput("the search for an anchor left the support: give start closer to the mode, or an anchor")
    log.info("Anchor found at a potential of %.6g, gradient norm %.3g.", potential.item(), gradient.norm().item())
    return row.detach()


def given_anchor(target: DataTarget, values: Any) -> Tensor:
    """The user's own anchor as a row: [d]."""
    row = target.unconstrain(values).detach().to(target.start)
    if row.shape != target.start.shape or not row.isfinite().all():
        raise BadInput(f"anchor must be finite values in the form of start, inside its constraints, got {values!r}")
    return row


def gradients_at(target: DataTarget, batches: Batches, anchor: Tensor, keep: bool) -> tuple[Tensor, Tensor | None]:
    """∇U, and ∇P_j for every batch j if they are to be kept: [d] and [batches, d]."""
    total = torch.zeros(anchor.shape, dtype=torch.float64, device=anchor.device)
    kept: list[Tensor] = []
    for numbers in torch.arange(batches.count, device=anchor.device).split(target.rows_at_once(max(batches.sizes))):
        batch, weights = batches[numbers]
        gradient = target.batch_potential_and_gradient(anchor.expand(len(numbers), -1), batch, weights)[1]
        total += gradient.sum(0, dtype=torch.float64)
        if keep:
            kept.append(gradient)
    return (total / batches.count).to(anchor.dtype), torch.cat(kept) if keep else None


def curvatures(target: DataTarget, batches: Batches, anchor: Tensor, diagonal: bool) -> Tensor:
    """H_j = ∇²P_j(θ*) for every batch j, [batches, d, d], or its diagonal, [batches, d]."""
    d = len(anchor)
    estimated = diagonal and d > EXACT_DIAGONAL
    if estimated:
        # The same signs for every batch: what they get wrong of each, they get wrong of the mean by the same rule.
        directions = torch.randint(2, (PROBES, d), generator=torch.Generator().manual_seed(0)).to(anchor) * 2 - 1
    else:
        directions = torch.eye(d, dtype=anchor.dtype, device=anchor.device)
    at_once = target.rows_at_once(2 * max(batches.sizes))
    found: list[Tensor] = []
    for number in progress.bar(range(batches.count), desc="curvature at the anchor"):
        parts: list[Tensor] = []
        for part in directions.split(at_once):
            numbers = torch.full((len(part),), number, device=anchor.device)
            parts.append(target.batch_hessian_products(anchor.expand_as(part), *batches[numbers], part))
        products = torch.cat(parts)
        if estimated:
            products = (directions * products).mean(0)
        found.append(products.diagonal() if diagonal and not estimated else products)
    return torch.stack(found)
