"""The statistical check of an order that is said to be reversible: are its tapes the same read backwards?

A feature f is a number computed from a tape x; its difference is d = f(x) − f(x reversed). If the order is reversible,
d and −d have the same distribution, and then for n independent tapes, whatever f is,

    P(|Σ d| > z √Σd²) ≤ 2 exp(−z²/2)        (Hoeffding's inequality for random signs)

So the rate of false alarms is guaranteed, not approximate. The check has two parts. The first looks for a direction in
very many features: products of scores of the batches at up to eight places of the tape, near each other and far apart,
at single positions and summed over all positions; how many different batches a part of the tape holds; and random
functions of the whole tape. The second takes the few features that differ most and tests them on fresh tapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

import torch
from torch import Tensor

from ggmc.errors import BadInput, Condition, NotExact
from ggmc.guides.augmentation import order_of_batches
from ggmc.guides.orders import ORDERS, Order

MOST_TAPES, LEAST_TAPES = 4000, 1000  # for the second part, half as many for the first; fewer of long ones ...
NUMBERS = 200_000  # ... so that about so many entries are read
CONFIRMED = 32  # features that the second part tests
SCORES = 8  # functions of the batch number that are multiplied with each other in pairs ...
SCORES_OF_TUPLES = {1: 8, 2: 8, 3: 4, 4: 3, 5: 2, 6: 2, 7: 2, 8: 2}  # ... and in longer products fewer
POSITIONS = {1: 512, 2: 64, 3: 48, 4: 24, 5: 16, 6: 16, 7: 16, 8: 16}  # at which products are formed, at most
ALL_LAGS = 16
PROJECTIONS = 256
MOST_KINDS = 256  # of entries that are not batch numbers

Feature = Callable[[Tensor], Tensor]
"""Batch numbers [entries, tapes] -> [tapes]."""


def is_built_in(order: Order) -> bool:
    """Whether an order is one of the library's own, which are known to be reversible and need no check.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.guides.orders import as_order
        >>> from ggmc.guides.order_check import is_built_in
        >>> is_built_in(as_order("epoch")), is_built_in(ggmc.CustomOrder(lambda *_: torch.zeros(3), reversible=True))
        (True, False)
    """
    return any(order_of_batches(order) is known for known in ORDERS.values())


def check_reversible(order: Order, entries: int, batches: int, false_alarms: float = 1e-6, seed: int = 0) -> None:
    """Refuse an order whose tapes, read backwards, are seen to have another distribution.

    Args:
        order: The order; of a `Recut` or `Augmented` the base is checked, which is all that can have a direction.
        entries: Gradients of a trajectory. An order may be reversible at one length and not at another.
        batches: The number of batches.
        false_alarms: The most that the probability of refusing a reversible order can be.
        seed: The seed of the tapes and of the features.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.guides.order_check import check_reversible
        >>> def in_turn(entries, batches, generator):
        ...     return (torch.arange(entries) + torch.randint(batches, (), generator=generator)) % batches
        >>> check_reversible(ggmc.CustomOrder(in_turn, reversible=True), entries=6, batches=4)
        Traceback (most recent call last):
        ...
        ggmc.errors.NotExact: the order 'in_turn' is said to be reversible, but read backwards its tapes have ...
    """
    order = order_of_batches(order)
    generator = torch.Generator("cpu").manual_seed(seed)
    tapes = max(LEAST_TAPES, min(MOST_TAPES, NUMBERS // entries))
    looked_at, fresh = (_draw(order, entries, batches, number, generator) for number in (tapes // 2, tapes))
    _refuse_a_shared_tape(order, looked_at, fresh)
    looked_at, fresh, different = _numbered(looked_at, fresh, batches, generator)
    scores = _scores(different, generator)
    if entries == 1 or not len(scores):
        return
    features = _most_different(looked_at, scores, generator)
    back = fresh.flip(0)
    worst = _evidence(torch.stack([feature(fresh) - feature(back) for feature in features])).max().item()
    if worst > math.sqrt(2 * math.log(2 * len(features) / false_alarms)):
        raise NotExact(
            f"the order {order.name!r} is said to be reversible, but read backwards its tapes have another "
            f"distribution: over {tapes} tapes of {entries} entries a mean differs from its mirror image by "
            f"{worst:.1f} standard errors. Use order='palindrome', or adjust=False",
            Condition.TAPE,
        )


def _draw(order: Order, entries: int, batches: int, tapes: int, generator: torch.Generator) -> Tensor:
    drawn = order.draw(entries, batches, tapes, generator)
    if drawn.shape[:2] != (entries, tapes):
        raise BadInput(
            f"the order {order.name!r} must draw a tape of shape [{entries}, {tapes}, ...] for {tapes} chains, got "
            f"{list(drawn.shape)}"
        )
    return drawn


def _numbered(one: Tensor, other: Tensor, batches: int, generator: torch.Generator) -> tuple[Tensor, Tensor, int]:
    """Tapes as whole numbers, and how many there are: batch numbers as they are, and entries of other kinds by rank."""
    both = torch.cat([one, other], 1)
    both = both if both.is_floating_point() else both.long()
    if both.dim() > 2 or both.is_floating_point() or int(both.min()) < 0 or int(both.max()) >= batches:
        rows = both.flatten(0, 1).flatten(1).double() if both.dim() > 2 else both.flatten()[:, None].double()
        weights = torch.rand(rows.shape[1], generator=generator, dtype=torch.float64, device="cpu") + 0.5
        ranks = (rows * weights).sum(1).unique(return_inverse=True)[1]  # of a mixture of all that an entry holds
        batches = min(int(ranks.max()) + 1, MOST_KINDS)
        both = (ranks * batches // (int(ranks.max()) + 1)).view(both.shape[:2])
    return both[:, : one.shape[1]], both[:, one.shape[1] :], batches


def _refuse_a_shared_tape(order: Order, one: Tensor, other: Tensor) -> None:
    """One tape for all chains would leave each chain exact, but correlate them."""
    shared = all(bool((tapes == tapes[:, :1]).all()) for tapes in (one, other))
    if shared and not torch.equal(one[:, 0], other[:, 0]):
        raise NotExact(
            f"the order {order.name!r} gives all chains the same tape, which correlates them, so that R̂ and standard "
            "errors would be wrong: draw a column of its own for each chain",
            Condition.TAPE,
        )


def _scores(batches: int, generator: torch.Generator) -> Tensor:
    """Functions of the batch number, orthonormal and of mean zero: [scores, batches].

    Waves, slow and quick, see a direction of travel; a ramp sees sorting; random ones see anything, if less of it. Up
    to nine batches, no function is left out.
    """
    turn = torch.arange(batches, dtype=torch.float64, device="cpu") * (2 * math.pi / batches)
    quick = turn * max(2, batches // 4)
    waves = [turn.cos(), turn.sin(), quick.cos(), quick.sin(), turn]
    noise = torch.randn((SCORES, batches), generator=generator, dtype=torch.float64, device="cpu")
    found = [torch.full_like(turn, 1 / math.sqrt(batches))]
    for wanted in [*waves, *noise]:
        rest = wanted
        for _ in range(2):  # once more, for what rounding left
            for known in found:
                rest = rest - (rest @ known) * known
        if rest.norm() > 1e-6 * wanted.norm():
            found.append(rest / rest.norm())
    return torch.stack(found)[1 : SCORES + 1] * math.sqrt(batches)


# The first part: which features differ most


def _most_different(tapes: Tensor, scores: Tensor, generator: torch.Generator) -> list[Feature]:
    """The features, of all that are looked at, whose means differ most from their mirror image."""
    along = scores.float()[:, tapes]  # [scores, entries, tapes]
    found: list[tuple[float, Feature]] = []
    for shape in _shapes(len(tapes), generator):
        found += _products(along, scores, shape)
    found += _projections(along, scores, generator)
    found += _varieties(tapes)
    found.sort(key=lambda pair: -pair[0])
    return [feature for _, feature in found[:CONFIRMED]]


def _shapes(entries: int, generator: torch.Generator) -> Iterator[tuple[int, ...]]:
    """Places relative to the first one: single ones, pairs, triples, windows without gaps, and random ones with."""
    yield (0,)
    far = {entries - 1 - round((entries - 1 - ALL_LAGS) * i / 24) for i in range(25)} if entries > ALL_LAGS else set()
    for lag in sorted({*range(1, min(ALL_LAGS, entries - 1) + 1), *far}):
        yield (0, lag)
    for pair in combinations(range(1, min(8, entries)), 2):
        yield (0, *pair)
    for length in range(4, min(8, entries) + 1):
        yield tuple(range(length))
    for length in (3, 4, 5):
        for span in (min(9, entries), min(17, entries), entries):
            if span > length:
                inside = torch.randperm(span - 2, generator=generator, device="cpu")[: length - 2].sort().values + 1
                yield (0, *inside.tolist(), span - 1)


def _products(along: Tensor, scores: Tensor, shape: tuple[int, ...]) -> list[tuple[float, Feature]]:
    """Products of the scores at the places of a shape, at each position and summed over all positions."""
    length = len(shape)
    along = along[: SCORES_OF_TUPLES[length]]
    base, entries, tapes = along.shape
    places = _positions(entries - shape[-1], POSITIONS[length])[:, None] + torch.tensor(shape, device="cpu")
    difference = _sums(along, places) - _sums(along, entries - 1 - places)  # [positions, base ** length]
    together = difference.sum(0, keepdim=True) / math.sqrt(len(places))
    found: list[tuple[float, Feature]] = []
    for rows, z in ((places[:, None], difference), (places[None], together)):
        largest, where = (z.abs() / math.sqrt(2 * tapes)).flatten().topk(min(CONFIRMED, z.numel()))
        for size, index in zip(largest.tolist(), where.tolist(), strict=True):
            position, product = divmod(index, z.shape[1])
            chosen = [product // base**power % base for power in reversed(range(length))]
            found.append((size, partial(_product, scores[chosen], rows[position])))
    return found


def _positions(number: int, most: int) -> Tensor:
    """Evenly spread numbers from 0 to number − 1, both ends included."""
    return torch.linspace(0, number - 1, min(number, most), dtype=torch.float64, device="cpu").round().long()


def _sums(along: Tensor, places: Tensor) -> Tensor:
    """All products of scores at the places of each row, summed over the tapes: [rows, scores ** places]."""
    by_place = along.transpose(0, 1)  # [entries, scores, tapes]
    products = torch.ones((len(places), 1, along.shape[2]), dtype=along.dtype, device=along.device)
    for column in places[:, :-1].unbind(1):
        products = (products[:, :, None] * by_place[column][:, None]).flatten(1, 2)
    return (products @ by_place[places[:, -1]].mT).flatten(1)


def _product(scores: Tensor, places: Tensor, tapes: Tensor) -> Tensor:
    """One product, a score for each place, summed over the rows of places."""
    factors = [score[tapes[column]] for score, column in zip(scores, places.unbind(1), strict=True)]
    return torch.stack(factors).prod(0).sum(0)


def _projections(along: Tensor, scores: Tensor, generator: torch.Generator) -> list[tuple[float, Feature]]:
    """Random functions of the whole tape: tanh of a weighted sum of scores."""
    entries = along.shape[1]
    shape = (PROJECTIONS, len(scores) * entries)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu") / math.sqrt(entries)
    there, back = (torch.tanh(weights.float() @ x.flatten(0, 1)) for x in (along, along.flip(1)))
    return [
        (size, partial(_projection, scores, row))
        for size, row in zip(_evidence(there - back).tolist(), weights, strict=True)
    ]


def _projection(scores: Tensor, weights: Tensor, tapes: Tensor) -> Tensor:
    return torch.tanh(weights @ scores[:, tapes].flatten(0, 1))


def _varieties(tapes: Tensor) -> list[tuple[float, Feature]]:
    """How many different batches a part of the tape holds: passes without repetition show in that."""
    entries = len(tapes)
    there, back = _last_read(tapes), _last_read(tapes.flip(0))
    lengths = {round(entries ** (i / 12)) for i in range(13)} | {entries // 2, entries - 1}
    found: list[tuple[float, Feature]] = []
    for length in sorted(lengths - {0, 1, entries}):
        begins = _positions(entries - length + 1, 12).tolist()
        differences = torch.stack([_new(there, begin, length) - _new(back, begin, length) for begin in begins])
        found += [
            (size, partial(_variety, begin, length))
            for size, begin in zip(_evidence(differences).tolist(), begins, strict=True)
        ]
    return found


def _last_read(tapes: Tensor) -> Tensor:
    """The place before each one where the same batch was read last, −1 if there is none: [entries, tapes]."""
    batch, place = tapes.mT.contiguous().sort(dim=1, stable=True)
    before = torch.full_like(place, -1)
    before[:, 1:] = torch.where(batch[:, 1:] == batch[:, :-1], place[:, :-1], -1)
    return torch.empty_like(before).scatter_(1, place, before).mT.contiguous()


def _new(last_read: Tensor, begin: int, length: int) -> Tensor:
    """How many of so many entries read a batch that none of them read before: [tapes]."""
    return (last_read[begin : begin + length] < begin).sum(0).double()


def _variety(begin: int, length: int, tapes: Tensor) -> Tensor:
    return _new(_last_read(tapes[begin : begin + length]), 0, length)


def _evidence(differences: Tensor) -> Tensor:
    """Means in standard errors, of rows [features, tapes]; none where mirror images differ by rounding only."""
    return (differences.sum(1) / differences.norm(dim=1).clamp_min(1e-3)).abs()
