"""Integrator, the base of `oabao.py` and `obabo.py`: what each `step` does, and where parameters are in between."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from ggmc.errors import BadInput
from ggmc.optim.chain import Chain
from ggmc.optim.settings import Settings, Share
from ggmc.optim.trajectory import Trajectory
from ggmc.plain import PlainDict


class Integrator(ABC):
    """One way to move a chain, call by call. A subclass states these facts about itself, and carries it out."""

    no_test: ClassVar[str | None]
    """Why no trajectory can be tested; None where those that read the same backwards can."""
    needs_last_gradient: ClassVar[bool]
    """Whether a trajectory ends with a kick, for which the gradient at its end must be computed."""
    rate_at_start_counts: ClassVar[bool]
    """Whether the learning rate at `begin_trajectory` is a part of the path."""
    euler: ClassVar[bool]
    """Whether the momentum is β = 1 − γh, else e^(−γh)."""

    @abstractmethod
    def step(self, chain: Chain, force: Tensor, now: Settings, trajectory: Trajectory | None) -> None:
        """One step.

        Args:
            chain: To be moved.
            force: ∇U/num_data where the parameters are.
            now: The settings of this step.
            trajectory: The one under way, whose work is to be added up.
        """

    @property
    @abstractmethod
    def under_way(self) -> bool:
        """Whether something of the last step is yet to be done."""

    @property
    @abstractmethod
    def at_midpoint(self) -> bool:
        """Whether the parameters are half a step further than θ."""

    @abstractmethod
    def require_can_step(self, trajectory: Trajectory | None) -> None:
        """Refuse a step where it would make no sense."""

    @abstractmethod
    def go_back(self, chain: Chain) -> None:
        """Outside trajectories: put the parameters at θ."""

    @abstractmethod
    def begin(self, chain: Chain, now: Settings) -> None:
        """Before a trajectory, the parameters being at θ: account for the friction of the steps before."""

    @abstractmethod
    def start(self, chain: Chain, now: Settings) -> None:
        """Put the parameters where the first gradient of a trajectory is taken."""

    @abstractmethod
    def finish(self, chain: Chain, now: Settings, force: Tensor | None, trajectory: Trajectory) -> None:
        """Put parameters and momentum at the end of a trajectory.

        Args:
            chain: To be moved.
            now: The present settings.
            force: At the end, where `needs_last_gradient`.
            trajectory: The one that ends.
        """

    @abstractmethod
    def forget(self) -> None:
        """Other code put the parameters where the chain is to be: nothing of the last step is left to do."""

    @abstractmethod
    def not_reversible(self, steps: int) -> str | None:
        """Why a trajectory of so many steps does not read the same backwards, if it does not."""

    @abstractmethod
    def to_dict(self) -> PlainDict:
        """Its variables as plain values."""

    @abstractmethod
    def load(self, plain: PlainDict) -> None:
        """Restore what `to_dict` gave."""


class Memoryless(Integrator):
    """Steps that are complete in themselves and leave the parameters at θ, but have no test."""

    needs_last_gradient = False
    rate_at_start_counts = False

    @property
    def under_way(self) -> bool:
        return False

    @property
    def at_midpoint(self) -> bool:
        return False

    def require_can_step(self, trajectory: Trajectory | None) -> None:
        return

    def go_back(self, chain: Chain) -> None:
        return

    def begin(self, chain: Chain, now: Settings) -> None:
        return

    def start(self, chain: Chain, now: Settings) -> None:
        return

    def finish(self, chain: Chain, now: Settings, force: Tensor | None, trajectory: Trajectory) -> None:
        return

    def forget(self) -> None:
        return

    def not_reversible(self, steps: int) -> str | None:
        return self.no_test

    def to_dict(self) -> PlainDict:
        return {}

    def load(self, plain: PlainDict) -> None:
        return


class Reversible(Integrator):
    """What the words that read the same backwards share: a piece of the last step yet to be done, and the friction.

    Args:
        every: In trajectories: friction acts at each so many-th step, for the time of all of them; None for friction at
            the ends alone.
    """

    no_test = None
    euler = False

    def __init__(self, every: int | None):
        self.every = every
        self.pending: Share | None = None
        """Time by which the parameters are ahead of θ (midpoints), or of the closing half kick (OBABO)."""
        self.steps_since_friction = 0

    @property
    def under_way(self) -> bool:
        return self.pending is not None

    def require_can_step(self, trajectory: Trajectory | None) -> None:
        if trajectory is not None and trajectory.steps and self.pending is None:
            raise BadInput("the trajectory has been brought to its end already: call end_trajectory()")

    def friction_is_due(self, trajectory: Trajectory | None) -> bool:
        """Whether O acts now. Outside trajectories there are no ends, so that it acts there too."""
        return self.steps_since_friction == (self.every or (1 if trajectory is None else None))

    def apply_friction(self, chain: Chain, now: Settings) -> None:
        """O, for the time of all steps since the last one."""
        keep = now.momentum**self.steps_since_friction
        chain.friction(keep, math.sqrt((1 - keep**2) * now.temperature))
        self.steps_since_friction = 0

    def kick(self, chain: Chain, force: Tensor, now: Settings, work: Tensor | None) -> None:
        """The kicks of the last half step and of the coming one: one kick, unless the groups' shares changed."""
        last, half = self.pending, now.half
        if last is half or last is None:
            chain.kick(force, now.num_data * now.step_size, now.ratios, work)
        elif last.ratios == now.ratios:
            chain.kick(force, now.num_data * (last.time + half.time), now.ratios, work)
        else:
            chain.kick(force, now.num_data * last.time, last.ratios, work)
            chain.kick(force, now.num_data * half.time, half.ratios, work)

    def begin(self, chain: Chain, now: Settings) -> None:
        self.pending = None
        self.owe_friction(chain, now)

    def owe_friction(self, chain: Chain, now: Settings) -> None:
        """Friction at a trajectory's ends stands outside the test: it is carried out before the next one."""
        if self.steps_since_friction:
            chain.owed += self.steps_since_friction * now.decay
            self.steps_since_friction = 0

    def forget(self) -> None:
        self.pending = None

    def not_reversible(self, steps: int) -> str | None:
        if self.every is None or steps <= self.every or steps % self.every == 0:
            return None
        return (
            f"the trajectory has {steps} steps, with friction after each {self.every}, which does not read the same "
            f"backwards: take a multiple of {self.every} steps"
        )

    def to_dict(self) -> PlainDict:
        return {
            "pending": None if self.pending is None else tuple(self.pending),
            "steps_since_friction": self.steps_since_friction,
        }

    def load(self, plain: PlainDict) -> None:
        self.pending = None if plain["pending"] is None else Share.restored(plain["pending"])
        self.steps_since_friction = plain["steps_since_friction"]
