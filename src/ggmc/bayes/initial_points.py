"""Where the chains of a module's posterior begin."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ggmc import progress
from ggmc.bayes.private_random import seeded
from ggmc.errors import BadInput
from ggmc.guides import Minibatch

if TYPE_CHECKING:
    from ggmc.bayes.posterior import Posterior

NAMES = ("apart", "module", "prior", "map")

SPREAD = 1.0  # of chains that an initialisation does not move away from the module's values, as in ggmc.Density
PRIOR_TRIES = 30  # draws of the prior for each chain, before giving up on a finite potential
SCALE_DRAWS = 2000  # numbers from which a tensor's scale is told

# The short optimisation
BATCH = 128
STEPS = 500  # or two passes over the data, whichever is longer
RATE = 0.01  # of Adam, falling to zero on a cosine


def starts(target: Posterior, way: str, chains: int, generator: torch.Generator) -> Tensor:
    """Where each chain begins: [chains, d].

    Args:
        target: The posterior.
        way: One of `NAMES`.
        chains: How many.
        generator: The source of randomness, on the target's device.
    """
    if way == "prior":
        return finite_prior_draws(target, chains, generator)
    if way == "module":
        rows = target.start.expand(chains, -1)
    else:
        rows = initialised(target, chains, generator)
        rows = torch.where(target.is_finite(rows)[:, None], rows, target.start)
    if way == "map":
        return optimised(target, rows, generator)
    spread = torch.full_like(rows[:, :1], target.jitter)
    if way == "apart":
        spread[1:][(rows[1:] == target.start).all(1)] = SPREAD
    return target.around(rows, spread, generator)


def _seed_from(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))


def typical(distribution: Distribution, like: Tensor) -> Tensor:
    """A plain value of an unknown, to begin at: its median, or mean, in the precision and on the device of `like`."""
    with seeded(0, like.device):
        half = torch.full_like(distribution.sample(), 0.5)  # in the distribution's own precision and place
    try:
        middle = distribution.icdf(half)
    except NotImplementedError:
        middle = distribution.mean
    if not middle.isfinite().all():
        raise BadInput(
            f"the distribution {distribution} has neither a median nor a finite mean to begin at: use another"
        )
    return middle.to(like)


def prior_draws(target: Posterior, number: int, generator: torch.Generator) -> Tensor:
    """Rows drawn from the prior, unknown scales included: [number, d]."""
    with seeded(_seed_from(generator), target.device):
        drawn = [target.unknowns.draw() for _ in range(number)]
    stacked = {name: torch.stack([draw[name] for draw in drawn]) for name in drawn[0]}
    return target.coordinates.unconstrain({name: value.to(target.start) for name, value in stacked.items()})


def finite_prior_draws(target: Posterior, chains: int, generator: torch.Generator) -> Tensor:
    """The same, drawn again where the potential is not finite: to begin at, not to learn about the prior from."""
    rows = prior_draws(target, chains, generator)
    for _ in range(PRIOR_TRIES):
        bad = ~target.is_finite(rows)
        if not bad.any():
            return rows
        rows[bad] = prior_draws(target, int(bad.sum()), generator)
    raise BadInput(
        f"of {PRIOR_TRIES} draws of the prior for each chain, some chain had none of finite potential: use "
        'start="apart" or "map", or a narrower prior'
    )


def prior_scales(target: Posterior) -> Tensor:
    """How widely the prior spreads each tensor of the row: [d], one number per tensor; 1 where nothing is known.

    From quantiles of some draws, since a prior may have no variance.
    """
    scales = torch.ones_like(target.start)
    for name, columns in target.layout.columns.items():
        number = max(1, SCALE_DRAWS // (columns.stop - columns.start))
        try:
            with seeded(0, target.device):
                drawn = torch.stack([target.unknowns.draw_of(name) for _ in range(number)])
        except BadInput:  # an improper prior has no draws
            continue
        values = target.coordinates.transforms[name].inv(drawn).double().flatten()[:SCALE_DRAWS]
        low, high = torch.quantile(values, values.new_tensor([0.1587, 0.8413]))  # one standard deviation of a normal
        scales[columns] = (high - low).to(scales) / 2
    return scales.clamp_min(torch.finfo(scales.dtype).tiny)


def initialised(target: Posterior, chains: int, generator: torch.Generator) -> Tensor:
    """The module's own values for the first chain, and new initialisations by its layers for the others.

    What a layer does not draw anew, since it has no `reset_parameters`, is shuffled: as new as independent draws are.
    """
    rows = [target.start]
    own = dict(target.module.named_parameters())
    with seeded(_seed_from(generator), target.device):
        for _ in range(chains - 1):
            module = copy.deepcopy(target.module)
            for layer in module.modules():
                reset: Any = getattr(layer, "reset_parameters", None)
                if callable(reset):
                    reset()
            fresh = dict(module.named_parameters())
            begun = target.layout.views(target.start.clone())
            values, _ = target.coordinates.values(begun)
            weights = {name: fresh[name].detach() for name in target.priors}
            weights |= {name: _shuffled(w) for name, w in weights.items() if torch.equal(w, own[name])}
            rows.append(target.unconstrain(values | weights))
    return torch.stack(rows)


def _shuffled(values: Tensor) -> Tensor:
    order = torch.randperm(values.numel(), device="cpu").to(values.device)
    return values.flatten()[order].view_as(values)


def optimised(target: Posterior, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Rows brought down towards a mode, each its own, by a short run of Adam on minibatches."""
    field = Minibatch(min(BATCH, target.num_data), "epoch").bind(target)
    steps = max(STEPS, 2 * field.epoch)
    rows = rows.clone().requires_grad_()
    adam = torch.optim.Adam([rows], RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    tape = field.tape(steps, len(rows), generator)
    assert tape is not None
    best, lowest = rows.detach().clone(), target.potential(rows.detach())
    with progress.bar(range(steps), desc="optimised start") as numbers:
        for i in numbers:
            rows.grad = field(rows.detach(), tape[i])[0]
            adam.step()
            falling.step()
    found = rows.detach()
    better = target.potential(found) < lowest  # NaN is not: a row that diverged stays where it began
    return torch.where(better[:, None], found, best)
