"""The trajectory's length: read off the chains' own paths.

While warm-up runs, the positions along each path are kept. From them, for every number of steps n, comes the lag-one
autocorrelation ρ(n) a chain would have had with trajectories of that length, rejections included: for each coordinate
and, a little less important, for its square (a path that ends opposite to where it began decorrelates the one and not
the other). A chain with lag-one autocorrelation ρ needs about (1+ρ)/(1−ρ) draws for one effective draw, each of n
steps; the length to take is the one whose worst coordinate is cheapest. Lengths are drawn from a range around it, and
ρ is averaged over that.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor

from ggmc.dynamics import length, metropolis
from ggmc.dynamics.compiled_moves import CompiledMoves, Observed
from ggmc.dynamics.letters import fresh_momentum
from ggmc.dynamics.scheme import Plan, Scheme
from ggmc.dynamics.state import Info, Parameters, State, normals
from ggmc.dynamics.trajectory import Trajectory
from ggmc.guides import GradientField
from ggmc.targets.base import Target

OBSERVED = 128  # coordinates kept; more cost memory and teach little
MEMORY = 64 * 2**20  # bytes of paths kept, the latest
SPREAD = 0.25  # lengths are drawn from n ± n/4
LONGEST = 1024  # steps
BEYOND, AT_THE_EDGE = 2.5, 8.0  # times the best length that the next paths go; where that was the longest seen
SQUARES = 0.7  # what a draw of a square counts against one of a mean


class Paths:
    """The paths of one window."""

    def __init__(self, kept: Iterable[tuple[Tensor, Tensor]] = ()) -> None:
        self.kept = deque(kept)
        self._bytes = sum(positions.nbytes + acceptances.nbytes for positions, acceptances in self.kept)
        self.longest = 1
        """The largest number of steps that `best_steps` could compare."""

    @staticmethod
    def observed(position: Tensor) -> Tensor:
        """The coordinates that are kept, as a copy."""
        return position[..., :: math.ceil(position.shape[-1] / OBSERVED)].clone()

    def add(self, positions: Tensor, acceptances: Tensor) -> None:
        """One path of every chain: [n + 1, chains, observed] positions, [n + 1, chains] acceptance probabilities."""
        self.kept.append((positions, acceptances))
        self._bytes += positions.nbytes + acceptances.nbytes
        while self._bytes > MEMORY and len(self.kept) > 1:
            old = self.kept.popleft()
            self._bytes -= old[0].nbytes + old[1].nbytes

    def best_steps(self, per_test: float = 0.0) -> int | None:
        """The cheapest number of steps per trajectory, or None where there is too little to tell.

        A trajectory costs its steps, and its test as much as `per_test` of them.
        """
        if len(self.kept) < 10:
            return None
        starts = torch.stack([positions[0] for positions, _ in self.kept]).flatten(0, 1)
        centre, scale = starts.mean(0), starts.std(0)
        scale = torch.where(scale > 0, scale, torch.inf)  # what never moves has nothing to say
        longest = max(len(positions) for positions, _ in self.kept) - 1
        jump = starts.new_zeros(longest + 1, 2 * starts.shape[-1])
        count = starts.new_zeros(longest + 1, 1)
        for positions, acceptances in self.kept:
            features = (positions - centre) / scale
            features = torch.cat([features, (features**2 - 1) / math.sqrt(2)], -1)
            square_jump = acceptances.unsqueeze(-1) * (features - features[0]) ** 2
            jump[: len(positions)] += square_jump.nan_to_num(0.0, 0.0, 0.0).sum(1)
            count[: len(positions)] += positions.shape[1]
        # 1 − ρ for each number of steps, as half the mean squared jump of a feature of unit variance
        change = (jump / (2 * count))[:, scale.isfinite().repeat(2)]
        if change.shape[1] == 0:
            return None
        self.longest = max(1, int(self._seen(count) / (1 + SPREAD)))
        return min(range(1, self.longest + 1), key=lambda n: _cost(change, n, per_test))

    @staticmethod
    def _seen(count: Tensor) -> int:
        """The longest path that enough others are as long as."""
        return int((count[:, 0] >= 0.1 * count[0, 0]).sum()) - 1


def steps_around(length: float) -> tuple[int, int]:
    """The range trajectories of about this many steps are drawn from."""
    length = min(max(length, 1.0), float(LONGEST))
    return max(1, round(length * (1 - SPREAD))), max(1, round(length * (1 + SPREAD)))


def steps_of_time(
    time: float | None, step_size: float, unit: int, first: int, shortest: float = 0.0
) -> tuple[int, int]:
    """The range of steps of trajectories that last a given time.

    Args:
        time: How long; None while it is not known.
        step_size: h.
        unit: Steps come in multiples of this.
        first: Steps while the time is not known.
        shortest: Steps shorter than this do not make more of them.
    """
    if unit > 1:
        steps = unit * max(1, round((time or 0.0) / step_size / unit))
        return steps, steps
    return steps_around(first if not time else time / max(step_size, shortest))


def _cost(change: Tensor, steps: int, per_test: float) -> float:
    low, high = steps_around(steps)
    average = change[low : high + 1].mean(0).clamp(1e-12, 1.5)
    draws = (2 - average) / average
    means, squares = draws.chunk(2)
    return max(means.max().item(), SQUARES * squares.max().item()) * ((low + high) / 2 + per_test)


def next_reach(best: int, longest: int, reach: int, least: int, most: int, settled: bool) -> int:
    """How far the paths of the next window go: beyond the best length, and shorter only by halves, so that a hasty
    choice is seen again; much further where the longest that was seen was the best.

    Args:
        best: The best length, in units.
        longest: The longest that could be compared.
        reach: How far paths went.
        least: As far as they go at the least.
        most: As far as they go at the most.
        settled: Whether the mass is known, so that long paths are no sign of a mass still to be found.
    """
    beyond = AT_THE_EDGE if settled and best >= 0.8 * longest else BEYOND
    return min(max(least, most), max(least, round(beyond * best), reach // 2))


def explore(
    word: Scheme,
    unit: int,
    reach: int,
    state: State,
    parameters: Parameters,
    target: Target,
    field: GradientField,
    paths: Paths,
    generator: torch.Generator,
    compiled: CompiledMoves | None = None,
) -> tuple[State, Info]:
    """A trajectory that is observed all along its way, so that the best length can be told, and tested at its end.

    Args:
        word: The repeated part of the kernel's word.
        unit: Steps between two observations.
        reach: The largest number of units; each trajectory draws its own.
        state: Where the chains are; they start with a fresh momentum.
        parameters: The numbers of the motion.
        target: Gives the potentials.
        field: The gradient field.
        paths: Keeps where each unit ends.
        generator: Of length, tape, noise and decision.
        compiled: Carries out the moves, where it can.
    """
    chains = len(state.position)
    plan = word.plan(unit)
    noise = normals(state.position, generator)
    log_uniform = metropolis.log_uniforms(chains, generator)
    units = length.draw((1, reach), generator)
    # One tape for the whole trajectory; where a unit's last kick meets the next one's first, they share an entry.
    tape = field.tape(word.plan(unit * units).gradients, chains, generator)
    start = state._replace(momentum=fresh_momentum(parameters, noise()))
    assert start.potential is not None
    path = Trajectory(start, parameters, field, tape, noise, word.letters, compiled=compiled)
    seen = _in_units(path, plan, units, compiled)
    works, potentials = seen.works, seen.potentials
    if potentials is None and field.deterministic:
        potentials = torch.stack([target.potential(position) for position in seen.positions])
    if potentials is not None:
        path.potential = potentials[-1]
        energy_errors = potentials - start.potential + works
    else:  # not tested on the way: taken to have grown in proportion
        path.potential = target.potential(path.position)
        share = torch.arange(1, units + 1, dtype=torch.float64, device=works.device) / units
        energy_errors = share[:, None] * (path.potential - start.potential + works[-1])
    energy_errors = torch.cat([torch.zeros_like(energy_errors[:1]), energy_errors])
    acceptances = metropolis.log_ratio(energy_errors, parameters.temperature).clamp_max(0.0).exp()
    paths.add(paths.observed(torch.cat([start.position[None], seen.positions])), acceptances)
    return metropolis.decide(start, path.end(), path.work, units * unit, parameters.temperature, log_uniform)


def _in_units(path: Trajectory, plan: Plan, units: int, compiled: CompiledMoves | None) -> Observed:
    """What the path is after each unit; the last of its potentials may be missing, as all the others."""
    observed = compiled.observe(path, (*plan.before, *plan.moves), units) if compiled is not None else None
    if observed is not None:
        return observed
    positions: list[Tensor] = []
    works: list[Tensor] = []
    potentials: list[Tensor] = []
    for _ in range(units):
        path.run(plan.before)
        path.run(plan.moves)
        positions.append(path.position)
        works.append(path.work)
        if path.potential is not None:
            potentials.append(path.potential)
    known = torch.stack(potentials) if len(potentials) == units else None
    return Observed(torch.stack(positions), torch.stack(works), known)
