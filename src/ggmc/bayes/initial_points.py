"""Where the chains of a module's posterior begin."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ggmc import progress
from ggmc.errors import BadInput
from ggmc.guides import Minibatch

if TYPE_CHECKING:
    from ggmc.bayes.posterior import Posterior

NAMES = ("module", "prior", "map")

SCALE_DRAWS = 2000  # numbers from which a tensor's scale is told

# The short optimisation
BATCH = 128
STEPS = 500  # or two passes over the data, whichever is longer
RATE = 0.01  # of Adam, falling to zero on a cosine


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Within this block torch's global generators start from a seed; after it they are as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed(seed)
        yield


def _seed_from(generator: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=generator, device=generator.device))


def typical(law: Distribution) -> Tensor:
    """A plain value of an unknown, to begin at: its median, or mean."""
    try:
        half = torch.full(law.batch_shape, 0.5)
        middle = law.icdf(half)
    except NotImplementedError:
        middle = law.mean
    if not middle.isfinite().all():
        raise BadInput(f"the law {law} has neither a median nor a finite mean to begin at: use another")
    return middle


def prior_draws(target: Posterior, number: int, generator: torch.Generator) -> Tensor:
    """Rows drawn from the prior, unknown scales included: [number, d]."""
    with seeded(_seed_from(generator), target.device):
        drawn = [target.draw_of_prior() for _ in range(number)]
    stacked = {name: torch.stack([draw[name] for draw in drawn]) for name in drawn[0]}
    return target.coordinates.unconstrain({name: value.to(target.coordinates.start) for name, value in stacked.items()})


def finite_prior_draws(target: Posterior, chains: int, generator: torch.Generator) -> Tensor:
    """The same, drawn again where the potential is not finite: to begin at, not to look at the prior by."""
    rows = prior_draws(target, chains, generator)
    for _ in range(30):
        potential, gradient = target.potential_and_gradient(rows)
        bad = ~(potential.isfinite() & gradient.isfinite().all(-1))
        if not bad.any():
            break
        rows[bad] = prior_draws(target, int(bad.sum()), generator)
    return rows


def prior_scales(target: Posterior) -> Tensor:
    """How widely the prior spreads each tensor of the row: [d], one number per tensor; 1 where nothing is known.

    From quantiles of some draws, since a prior may have no variance.
    """
    scales = torch.ones_like(target.coordinates.start)
    for name, columns in target.layout.columns.items():
        number = max(1, SCALE_DRAWS // (columns.stop - columns.start))
        try:
            with seeded(0, target.device):
                values = torch.cat([target.draw_of(name).flatten() for _ in range(number)]).double()[:SCALE_DRAWS]
        except BadInput:  # an improper prior has no draws
            continue
        low, high = torch.quantile(values, values.new_tensor([0.1587, 0.8413]))  # one standard deviation of a normal
        scales[columns] = (high - low).to(scales) / 2
    return scales.clamp_min(torch.finfo(scales.dtype).tiny)


def initialised(target: Posterior, chains: int, generator: torch.Generator) -> Tensor:
    """The module's own values for the first chain, and new initialisations by its layers for the others.

    What a layer does not draw anew, since it has no `reset_parameters`, is shuffled: as new as independent draws are.
    """
    rows = [target.coordinates.start]
    own = dict(target.module.named_parameters())
    with seeded(_seed_from(generator), target.device):
        for _ in range(chains - 1):
            module = copy.deepcopy(target.module)
            for layer in module.modules():
                reset: Any = getattr(layer, "reset_parameters", None)
                if callable(reset):
                    reset()
            fresh = dict(module.named_parameters())
            begun = target.layout.views(target.coordinates.start.clone())
            values, _ = target.coordinates.values(begun)
            weights = {name: fresh[name].detach() for name in target.priors}
            weights |= {name: _shuffled(w) for name, w in weights.items() if torch.equal(w, own[name])}
            rows.append(target.unconstrain(values | weights))
    return torch.stack(rows)


def _shuffled(values: Tensor) -> Tensor:
    order = torch.randperm(values.numel()).to(values.device)
    return values.flatten()[order].view_as(values)


def optimised(target: Posterior, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Rows brought down towards a mode, each its own, by a short run of Adam on minibatches."""
    field = Minibatch(min(BATCH, target.num_data), "epoch").bind(target)
    steps = max(STEPS, 2 * field.epoch)
    rows = rows.clone().requires_grad_()
    adam = torch.optim.Adam([rows], RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    tape = field.tape(steps, len(rows), generator)
    best, lowest = rows.detach().clone(), target.potential(rows.detach())
    with progress.bar(range(steps), desc="optimised start") as numbers:
        for i in numbers:
            rows.grad = field(rows.detach(), tape[i])[0]
            adam.step()
            falling.step()
    found = rows.detach()
    better = target.potential(found) < lowest  # NaN is not: a row that diverged stays where it began
    return torch.where(better[:, None], found, best)
