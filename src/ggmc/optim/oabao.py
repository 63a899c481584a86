"""Words with one kick per step: the parameters wait at the midpoint.

    OABAO    A(h/2)  B(h)  A(h/2) O(h) A(h/2)  B(h)  …  A(h/2)       friction at every step
    O(ABA)O  A(h/2)  B(h)  A(h)                B(h)  …  A(h/2)       friction at the ends only

The gradient is taken in the middle of a step, between two half drifts. So `step` begins with the kick, and ends with
the half drift to where the next gradient will be taken; the end of a trajectory takes that last half drift back. The
letters are those of `ggmc.dynamics.letters`, with ∇U = num_data · (g + weight_decay·θ).

The kick acts for the time of the two half drifts around it: h, or where the learning rate changed in between, the mean
of both. So the word reads the same backwards if and only if the learning rates do, those at `begin_trajectory` and at
each `step`.

At T = 0 and from rest this is SGD. Write m = −N·h·v after the kick: v ← β v + g, and the drifts before and after O,
(h/2)(1 + β) m together, are θ ← θ − ℓ(1 + β)/2 · v. That is `torch.optim.SGD(lr=ℓ(1 + β)/2, momentum=β)`. Where ℓ
changes, m stays as it is, because its distribution does not depend on h; SGD would keep v.
"""

from __future__ import annotations

from torch import Tensor

from ggmc.optim.chain import Chain, kinetic_energy
from ggmc.optim.integrator import Reversible
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Trajectory
from ggmc.plain import PlainDict


class Midpoint(Reversible):
    """`OABAO` with friction at each so many-th step, or `O(ABA)O`.

    Args:
        every: In trajectories: friction acts at each so many-th step; None for `O(ABA)O`.
    """

    needs_last_gradient = False
    rate_at_start_counts = True

    def __init__(self, every: int | None):
        super().__init__(every)
        self._ends_with_friction = False  # whether the last step did

    @property
    def at_midpoint(self) -> bool:
        return self.pending is not None

    def step(self, chain: Chain, force: Tensor, now: Settings, trajectory: Trajectory | None) -> None:
        # At θ, as at the very first step, the parameters are taken for a midpoint.
        work = None if trajectory is None or self.every is None else trajectory.work
        self.kick(chain, force, now, work)
        self.steps_since_friction += 1
        self._ends_with_friction = self.friction_is_due(trajectory)
        if self._ends_with_friction:
            # Should the trajectory end here, this O stands outside the test and is undone.
            chain.drift(now.half.time, now.ratios)
            self.apply_friction(chain, now)
            chain.drift(now.half.time, now.ratios)
        else:
            chain.drift(now.step_size, now.ratios)
        self.pending = now.half

    def go_back(self, chain: Chain) -> None:
        if self.pending is not None:
            chain.drift(-self.pending.time, self.pending.ratios)
            self.pending = None

    def start(self, chain: Chain, now: Settings) -> None:
        self.pending = now.half
        chain.drift(now.half.time, now.ratios)

    def finish(self, chain: Chain, now: Settings, force: Tensor | None, trajectory: Trajectory) -> None:
        self.go_back(chain)
        if self._ends_with_friction:
            chain.undo_friction()
            self.steps_since_friction = self.every or 0
        if self.every is None:
            # Where nothing but kicks changed the momentum, their work is what it has gained. The squares are summed in
            # float64, so the small difference of two large energies is as good as their numbers, and costs less.
            trajectory.work = kinetic_energy(chain.momentum) - kinetic_energy(trajectory.momentum)
        self.owe_friction(chain, now)

    def to_dict(self) -> PlainDict:
        return super().to_dict() | {"ends_with_friction": self._ends_with_friction}

    def load(self, plain: PlainDict) -> None:
        super().load(plain)
        self._ends_with_friction = plain["ends_with_friction"]
