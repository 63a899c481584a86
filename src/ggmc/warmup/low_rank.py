"""A mass of low rank: a diagonal, and the stiffest directions that the chains have met.

With D the diagonal (the precision of the prior, else T over the variances of the chains), A = D^(−½) H D^(−½) is the
curvature H of the potential in units of D. H is averaged over past states of the chains; where there are data, each
state sees a part of them, so that a product with A costs two gradients over the data whatever the number of states.
Products are differences of gradients, so they are known for any target. The leading eigenvectors of A come from random
directions by subspace iteration (Halko, Martinsson and Tropp, 2011); no matrix [d, d] is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from ggmc.dynamics.mass import Diagonal, LowRank, Mass, MassLike, as_mass
from ggmc.errors import BadInput
from ggmc.targets.base import DataTarget, Target
from ggmc.warmup.mass import STATES
from ggmc.warmup.windows import Window

LARGEST_RANK = 200
LARGEST_FACTOR = 2**25  # numbers in the directions, 256 MiB
LEAST = 1.0  # what the data must add along a direction, in units of the diagonal, for it to be kept
OVERSAMPLING = 8  # directions beyond the rank, without which the last ones would come out wrong
ROUNDS = 2  # of products, each with all directions: one of iteration, one to tell the eigenvalues
BEGIN = 0.25  # of warm-up: before that chains are still on their way, and the diagonal alone does
STATES_WITHOUT_DATA = 4  # each of which costs a whole gradient
ROWS_WITHOUT_DATA = 64  # at once

Product = Callable[[Tensor], Tensor]


def largest_rank(parameters: int) -> int:
    """How many directions are looked for: min(200, d/4), or fewer where they would take more than 256 MiB.

    Args:
        parameters: d.
    """
    return max(1, min(LARGEST_RANK, parameters // 4, LARGEST_FACTOR // parameters))


def is_wanted(mass: MassLike) -> bool:
    """Whether a mass of low rank shall be found."""
    return isinstance(mass, str) and mass == "low_rank"


def prior_diagonal(target: Target) -> Diagonal | None:
    """The diagonal that the target advises, such as the precision of its prior; None where it advises none."""
    advised = None if target.advice.mass is None else target.advice.mass()
    if advised is None or advised.dim() != 1:
        return None
    try:
        mass = as_mass(advised).to(target.start)
    except BadInput:  # not positive
        return None
    return mass if isinstance(mass, Diagonal) else None


def check_low_rank(target: Target) -> None:
    """Refuse a target whose gradients tell nothing about its curvature."""
    if target.not_exact is not None:
        raise BadInput(
            'mass="low_rank" is found from differences of gradients, but those of this target are not a function of '
            f'the parameters alone: {target.not_exact}. Or use mass="tensor" or "diagonal"'
        )


def found_mass(
    target: Target, window: Window, known: Mass, diagonal: Mass | None, part: float
) -> tuple[Mass | None, str]:
    """The mass at the end of a window, and what it is in words; None where there is nothing new.

    Args:
        target: What is sampled.
        window: With the past states.
        known: The mass so far.
        diagonal: From the window's positions, or None where the target advises one.
        part: Of warm-up that is over.
    """
    first = known.directions if isinstance(known, LowRank) else None
    if diagonal is None:
        diagonal = prior_diagonal(target)
    if window.states is None or not isinstance(diagonal, Diagonal):
        return None, "as it was: the chains have not moved"
    if part < BEGIN or not len(window.states.rows):
        return diagonal, "a diagonal: warm-up is too short for more"
    return low_rank(target, window.states.rows, diagonal, window.states.seen, first)


def low_rank(
    target: Target, states: Tensor, diagonal: Diagonal, seed: int, first: Tensor | None = None
) -> tuple[Mass, str]:
    """The mass of low rank, and what it is in words; the diagonal alone where no direction stands out.

    Args:
        target: What is sampled.
        states: Past states of the chains [states, d].
        diagonal: D.
        seed: Of the random directions, and of which examples each state sees.
        first: Directions [d, k] to start from, if some are known.
    """
    generator = torch.Generator(target.device).manual_seed(seed)
    product = curvature_products(target, states, diagonal.matrix, generator)
    values, directions = leading(product, target.layout.size, largest_rank(target.layout.size), generator, first)
    if not values.isfinite().all():
        return diagonal, "a diagonal: the curvature is not finite where the chains have been"
    kept = values - 1 >= LEAST
    if not kept.any():
        return diagonal, "a diagonal: no direction is twice as stiff as it says"
    values = values[kept] - 1
    shown = ", ".join(f"{values[i]:.3g}" for i in sorted({0, len(values) // 2, len(values) - 1}))
    why = f"a diagonal and the {len(values)} stiffest directions, stiffer by {shown} times it (first, middle, last)"
    return LowRank(diagonal.matrix, directions[:, kept], values, dtype=target.dtype), why


def leading(
    product: Product, size: int, rank: int, generator: torch.Generator, first: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues [rank] of a symmetric matrix, in falling order, and their eigenvectors [d, rank].

    Args:
        product: The matrix times columns [d, n].
        size: d.
        rank: How many.
        generator: Of the random directions.
        first: Columns to start from, if some are known.

    Example:
        >>> import torch
        >>> from ggmc.warmup.low_rank import leading
        >>> matrix = torch.diag(torch.tensor([100.0, 50.0] + 20 * [0.0], dtype=torch.float64))
        >>> values, _ = leading(lambda columns: matrix @ columns, 22, 2, torch.Generator().manual_seed(0))
        >>> values
        tensor([100.0000,  50.0000], dtype=torch.float64)
    """
    columns = min(size, rank + OVERSAMPLING)
    basis = torch.randn(size, columns, generator=generator, dtype=torch.float64, device=generator.device)
    if first is not None:
        number = min(first.shape[1], columns)
        basis[:, :number] = first[:, :number]
    for _ in range(ROUNDS - 1):
        basis = product(torch.linalg.qr(basis)[0])
        if not basis.isfinite().all():
            return basis.new_full((rank,), torch.nan), basis[:, :rank]
    basis = torch.linalg.qr(basis)[0]
    image = product(basis)
    if not image.isfinite().all():
        return basis.new_full((rank,), torch.nan), basis[:, :rank]
    small = basis.mT @ image
    values, rotation = torch.linalg.eigh((small + small.mT) / 2)
    return values.flip(0)[:rank], (basis @ rotation).flip(1)[:, :rank]


def curvature_products(target: Target, states: Tensor, diagonal: Tensor, generator: torch.Generator) -> Product:
    """The averaged curvature in units of the diagonal, times columns [d, n], by central differences of gradients.

    Args:
        target: What is sampled.
        states: Over which it is averaged, [states, d].
        diagonal: D, [d].
        generator: Cuts the data into parts.
    """
    parts = list(_parts(target, states, generator))
    scale = diagonal.double().rsqrt()
    reach = torch.finfo(target.dtype).eps ** (1 / 3)  # balances rounding and what is not linear

    def product(columns: Tensor) -> Tensor:
        total = torch.zeros_like(columns)
        for state, gradient, rows in parts:
            for begin in range(0, columns.shape[1], rows):
                some = slice(begin, begin + rows)
                steps = (reach * scale * columns[:, some].mT).to(target.dtype)
                ahead, behind = gradient(torch.cat([state + steps, state - steps])).double().chunk(2)
                total[:, some] += ((ahead - behind) * scale).mT / (2 * reach * len(parts))
        return total

    return product


def _parts(
    target: Target, states: Tensor, generator: torch.Generator
) -> Iterator[tuple[Tensor, Callable[[Tensor], Tensor], int]]:
    """Each state, a gradient of rows near it whose mean over the states is ∇U, and how many rows' steps at once."""
    number = min(len(states), STATES)
    if not isinstance(target, DataTarget):
        for i in _spread(len(states), min(number, STATES_WITHOUT_DATA)):
            yield states[i], lambda rows: target.potential_and_gradient(rows)[1], ROWS_WITHOUT_DATA // 2
        return
    number = min(number, target.num_data)
    shuffled = torch.randperm(target.num_data, generator=generator, device=generator.device)
    for i, examples in zip(_spread(len(states), number), shuffled.tensor_split(number), strict=True):
        batch = target.data.take(examples)

        def gradient(rows: Tensor, batch: object = batch, size: int = len(examples)) -> Tensor:
            own = tree_map(lambda leaf: leaf.expand(len(rows), *leaf.shape), batch)
            weights = torch.full((len(rows), size), float(number), dtype=target.dtype, device=target.device)
            return target.batch_gradient(rows, own, weights)

        yield states[i], gradient, max(1, target.rows_at_once(len(examples)) // 2)


def _spread(length: int, number: int) -> list[int]:
    """So many of the numbers below the length, at even distances, the last one included."""
    return [length - 1 - (i * length) // number for i in range(number)]
