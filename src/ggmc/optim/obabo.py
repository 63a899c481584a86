"""`OBABO`: between calls of `step` the parameters are at θ itself.

    B(h/2) A(h)  B(h/2) O(h) B(h/2) A(h)  …  B(h/2) O(h) B(h/2) A(h)  B(h/2)

The two half kicks that meet at θ share one gradient. So `step` begins with the second half kick of the step before,
goes on with O and the first half kick, and ends with the drift: one gradient per step. A trajectory of K steps reads
K + 1 gradients: at its beginning the first `step` makes a half kick only, and at its end `end_trajectory` makes the
last one, with the gradient that the loop has computed there. The batches of these K + 1 gradients must be drawn from a
distribution that does not change under reversal.

    optimiser.begin_trajectory()
    for x, y in batches:                                # K of them
        optimiser.zero_grad()
        loss_fn(module(x), y).backward()
        optimiser.step()
    optimiser.zero_grad()
    loss_fn(module(x_last), y_last).backward()          # at the end: one more, and no step
    info = optimiser.end_trajectory(total_loss, reject=True)

The word reads the same backwards if and only if the learning rates at each `step` do; that at `begin_trajectory` has no
effect. Outside trajectories, the half kick that a trajectory's beginning finds still open is left out.

At T = 0 and from rest this is SGD. Write m = −N·h·v(1 + β)/2 after the kicks: v ← β v + g and θ ← θ − ℓ(1 + β)/2 · v,
which is `torch.optim.SGD(lr=ℓ(1 + β)/2, momentum=β)`, but that the first gradient, which makes a half kick, counts
1/(1 + β).
"""

from __future__ import annotations

from torch import Tensor

from ggmc.optim.chain import Chain
from ggmc.optim.integrator import Reversible
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Trajectory


class Endpoint(Reversible):
    """`OBABO` with friction at each so many-th step.

    Args:
        every: Friction acts at each so many-th step.
    """

    needs_last_gradient = True
    rate_at_start_counts = False

    def __init__(self, every: int):
        super().__init__(every)

    @property
    def at_midpoint(self) -> bool:
        return False

    def step(self, chain: Chain, force: Tensor, now: Settings, trajectory: Trajectory | None) -> None:
        number = now.num_data
        work = None if trajectory is None else trajectory.work
        if self.pending is not None and not self.friction_is_due(trajectory):
            self.kick(chain, force, now, work)
        else:
            if self.pending is not None:
                chain.kick(force, number * self.pending.time, self.pending.ratios, work)
                self.apply_friction(chain, now)
            chain.kick(force, number * now.half.time, now.ratios, work)
        chain.drift(now.step_size, now.ratios)
        self.pending = now.half
        self.steps_since_friction += 1

    def go_back(self, chain: Chain) -> None:
        return  # the parameters are at θ

    def start(self, chain: Chain, now: Settings) -> None:
        return  # the first gradient is taken at θ

    def finish(self, chain: Chain, now: Settings, force: Tensor | None, trajectory: Trajectory) -> None:
        if self.pending is not None and force is not None:
            chain.kick(force, now.num_data * self.pending.time, self.pending.ratios, trajectory.work)
            self.pending = None
            self.owe_friction(chain, now)
