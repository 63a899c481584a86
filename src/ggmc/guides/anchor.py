"""The anchor of control variates: where it is, and the gradients and curvatures of the batches there."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ggmc import progress
from ggmc.errors import BadInput
from ggmc.guides.batches import Batches
from ggmc.targets.base import DataTarget

log = logging.getLogger("ggmc")

ITERATIONS = 500
EXACT_DIAGONAL = 1024  # parameters: beyond this a diagonal is estimated with random signs
PROBES = 16


def find_anchor(target: DataTarget) -> Tensor:
    """The mode that L-BFGS finds from the target's start.

    Args:
        target: The target.

    Returns:
        An unconstrained row [d].
    """
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
            return math.inf if math.isnan(value) else value

        with target.device:  # where the optimiser makes its own tensors
            optimiser.step(evaluate)  # pyright: ignore[reportArgumentType]
    potential, gradient = target.potential_and_gradient(row[None])
    if not (potential.isfinite().all() and gradient.isfinite().all()):
        raise BadInput("the search for an anchor left the support: give start closer to the mode, or an anchor")
    log.info("Anchor found at a potential of %.6g, gradient norm %.3g.", potential.item(), gradient.norm().item())
    return row.detach()


def given_anchor(target: DataTarget, values: Tensor | Mapping[str, Tensor]) -> Tensor:
    """The user's own anchor as an unconstrained row.

    Args:
        target: The target.
        values: Values in the form of the target's start, inside its constraints.

    Returns:
        [d], in the target's precision.
    """
    row = target.unconstrain(values).detach().to(target.start)
    if row.shape != target.start.shape or not row.isfinite().all():
        raise BadInput(f"anchor must be finite values in the form of start, inside its constraints, got {values!r}")
    return row


def gradients_at(target: DataTarget, batches: Batches, anchor: Tensor, keep: bool) -> tuple[Tensor, Tensor | None]:
    """∇U, and the gradient ∇P_j of each batch j, at the anchor.

    Args:
        target: The target.
        batches: The batches.
        anchor: An unconstrained row [d].
        keep: Whether the gradients of the batches are to be kept.

    Returns:
        [d], and [batches, d] or None.
    """
    total = torch.zeros(anchor.shape, dtype=torch.float64, device=anchor.device)
    kept: list[Tensor] = []
    for numbers in torch.arange(batches.count, device=anchor.device).split(target.rows_at_once(max(batches.sizes))):
        batch, weights = batches[numbers]
        gradient = target.batch_gradient(anchor.expand(len(numbers), -1), batch, weights)
        total += gradient.sum(0, dtype=torch.float64)
        if keep:
            kept.append(gradient)
    return (total / batches.count).to(anchor.dtype), torch.cat(kept) if keep else None


def curvatures(target: DataTarget, batches: Batches, anchor: Tensor, diagonal: bool) -> Tensor:
    """The Hessian ∇²P_j of each batch j at the anchor.

    Args:
        target: The target.
        batches: The batches.
        anchor: An unconstrained row [d].
        diagonal: Whether only the diagonal is wanted.

    Returns:
        [batches, d, d], or [batches, d].
    """
    d = len(anchor)
    estimated = diagonal and d > EXACT_DIAGONAL
    if estimated:
        # The same signs for every batch, so that the mean of the estimates is the estimate of the mean.
        generator = torch.Generator("cpu").manual_seed(0)
        directions = torch.randint(2, (PROBES, d), generator=generator, device="cpu").to(anchor) * 2 - 1
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
