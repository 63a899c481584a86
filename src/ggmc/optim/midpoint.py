"""Words with one kick per step, for an ordinary training loop: the parameters wait at the midpoint.

    OABAO    A(h/2)  B(h)  A(h/2) O(h) A(h/2)  B(h)  …  A(h/2)       friction at every step
    O(ABA)O  A(h/2)  B(h)  A(h)                B(h)  …  A(h/2)       friction at the ends only

The gradient is taken in the middle of a step, between two half drifts. So `step` begins with the kick, and ends with
the half drift to where the next gradient will be taken; the end of a trajectory takes that last half drift back.

    B  m ← m − t·N·(g + weight_decay·θ)
    A  θ ← θ + (h/2) m
    O  m ← β m + √((1 − β²) T) ε
    A  θ ← θ + (h/2) m

with h = √(ℓ/N), for learning rate ℓ, momentum β = e^(−γh) and N = num_data. The kick acts for the time t of the two
half drifts around it: h, or where the learning rate changed in between, the mean of both. So the whole word reads the
same backwards just if the learning rates do, those at `begin_trajectory` and at each `step`.

At T = 0 and from rest this is SGD. Write m = −N·h·v after the kick: v ← β v + g, and the drifts before and after O,
(h/2)(1 + β) m together, are θ ← θ − ℓ(1 + β)/2 · v. That is `torch.optim.SGD(lr=ℓ(1 + β)/2, momentum=β)`. Where ℓ
changes, m stays as it is, because its law knows nothing of h; SGD would keep v.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.optim.sampler import Sampler
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Trajectory, kinetic_energy, product


class Midpoint(Sampler):
    """The reversible step and its trajectories."""

    _everywhere: bool  # friction at every step, or only at the ends of trajectories?

    def _move(self, force: Tensor, now: Settings) -> None:
        half, trajectory = now.step_size / 2, self._trajectory
        # At rest, as at the very first step, the parameters are taken for a midpoint.
        kick = now.num_data * (half + (half if self._pending is None else self._pending))
        self._pending = half
        momentum, spare = self._momentum, self._spare
        if trajectory is not None and not self._everywhere:
            momentum.add_(force, alpha=-kick)
            self._position.add_(momentum, alpha=2 * half)
            return
        if trajectory is not None:
            # Halfway through the kick the momentum is the mean of before and after: ΔK = −t ∇U·(m_before + m_after)/2.
            kick /= 2
            momentum.add_(force, alpha=-kick)
            trajectory.work.add_(product(momentum, force), alpha=-2 * kick)
        # The momentum before the friction stays at hand in the spare: should the trajectory end here, this O stands
        # outside the test.
        torch.add(momentum, force, alpha=-kick, out=spare)
        self._position.add_(spare, alpha=half)
        self._rub(spare, now.momentum, math.sqrt((1 - now.momentum**2) * now.temperature), into=momentum)
        self._position.add_(momentum, alpha=half)

    def _require_on_the_way(self) -> None:
        if self._trajectory is not None and self._pending is None:
            raise BadInput("the parameters were put at the end of the trajectory already: call end_trajectory()")

    def _come_to_rest(self) -> None:
        if self._pending is None:
            return
        self._position.add_(self._momentum, alpha=-self._pending)
        self._pending = None
        trajectory = self._trajectory
        if trajectory is None:
            return
        if self._everywhere:
            self._momentum, self._spare = self._spare, self._momentum
        else:
            # Where nothing but kicks changed the momentum, their work is what it has gained. The squares are added up
            # in float64, so the small difference of two large energies is as good as their numbers.
            trajectory.work = kinetic_energy(self._momentum) - kinetic_energy(trajectory.momentum)

    def _set_off(self, now: Settings) -> None:
        self._pending = now.step_size / 2
        self._position.add_(self._momentum, alpha=self._pending)

    def _friction_of(self, trajectory: Trajectory, now: Settings) -> float:
        return now.decay if self._everywhere else trajectory.steps * now.decay
