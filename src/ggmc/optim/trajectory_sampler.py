"""TrajectorySampler: begin_trajectory and end_trajectory, with a test or without."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from ggmc.dynamics.metropolis import log_uniforms
from ggmc.dynamics.state import Info
from ggmc.errors import BadInput, Condition, NotExact, require_switch
from ggmc.optim.sampler import Sampler
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Potential, Trajectory, as_number, layers_to_check

log = logging.getLogger("ggmc")


class TrajectorySampler(Sampler):
    """A sampler with trajectories; its arguments are those of `Sampler`."""

    _not_testable: str | None = None
    tested: bool = False
    """Whether the last trajectory was tested: ended with `reject=True`."""

    @property
    def not_testable(self) -> str | None:
        """Why the trajectory under way, else the last one, has no valid test; None if it has one."""
        return self._not_testable if self._trajectory is None else self._trajectory.reason

    @property
    def in_trajectory(self) -> bool:
        """Whether a trajectory is under way."""
        return self._trajectory is not None

    @torch.no_grad()
    def begin_trajectory(self, potential: Potential | None = None) -> None:
        """Begin a stretch of steps that `end_trajectory` will monitor or test.

        Args:
            potential: The loss summed over all data at the start, in float64: a number, or a function that computes it.
                It is known already if the last `end_trajectory` had one and no step was taken since. None: it is
                computed at the end, if needed.
        """
        if self._trajectory is not None:
            raise BadInput("a trajectory is under way: end_trajectory() first")
        now, chain, integrator = self._settings(), self._chain, self._integrator
        self._check_for_outside_changes(now)
        self._require_not_at_midpoint(potential)
        integrator.go_back(chain)
        if potential is not None:
            self._total_loss = self._evaluate(potential)
        start = None if self._total_loss is None else self._total_loss + chain.prior(now)
        if start is not None and not start.isfinite():
            raise BadInput(f"the trajectory would begin at a potential of {start.item():g}: begin inside the support")
        integrator.begin(chain, now)
        chain.pay_friction(now.temperature)
        self._trajectory = Trajectory(
            chain.position.clone(),
            chain.momentum.clone(),
            start,
            now,
            torch.zeros((), dtype=torch.float64, device=chain.position.device),
            [now.rates] if integrator.rate_at_start_counts else [],
            layers=layers_to_check(self._module),
        )
        integrator.start(chain, now)

    @torch.no_grad()
    def end_trajectory(self, potential: Potential | None = None, reject: bool = False) -> Info:
        """End the trajectory: the parameters are at its end, an exact draw if tested.

        For the chain to be exact the batches must be drawn afresh for each trajectory, from a distribution that does
        not depend on the direction: independent batches, whole shuffled epochs, or the same out and back.

        Args:
            potential: The loss summed over all data, in float64; the weight decay's part is added to it. A function,
                which is called with the parameters at the end and, where it is not known, at the start; or a number,
                computed where the parameters are, with midpoint schemes after `rest()`. None: log α is NaN.
            reject: Whether to accept the end with probability min(1, α) only, and else to return to the start with the
                momentum flipped.

        Returns:
            What happened, every entry one number. Where the trajectory has no valid test, log α is −∞ and
            `not_testable` says why.
        """
        trajectory, integrator, chain = self._trajectory, self._integrator, self._chain
        require_switch("reject", reject)
        if reject and integrator.no_test is not None:
            raise NotExact(integrator.no_test, Condition.WORD)
        if trajectory is None:
            raise BadInput("no trajectory is under way: begin_trajectory() first")
        now = self._settings()
        self._check_for_outside_changes(now)
        trajectory.require_steps()
        self._require_not_at_midpoint(potential)
        word = integrator.not_reversible(trajectory.steps)
        reason = trajectory.reason or word or trajectory.not_palindromic()
        if reject:
            broken = trajectory.broken or (Condition.STEPS if word is None else Condition.WORD)
            self._require_testable(trajectory, reason, broken, potential)
        self._finish(trajectory, now)
        end = None if potential is None else self._evaluate(potential) + chain.prior(now)
        if trajectory.potential is None and callable(potential):
            trajectory.potential = self._potential_at(trajectory.position, potential, now)
        log_uniform = log_uniforms(1, chain.generator) if reject else None
        after, info = trajectory.judge(chain.position, chain.momentum, end, log_uniform, testable=reason is None)
        if not info.accepted:
            chain.position.copy_(after.position[0])
            chain.momentum.copy_(after.momentum[0])
        self._total_loss = None if after.potential is None else after.potential[0] - chain.prior(now)
        if reason is not None and self._not_testable is None:
            log.warning("the trajectory has no valid test, so log α is −∞: %s", reason)
        self._not_testable, self.tested = reason, reject
        self._trajectory = None
        return info

    @torch.no_grad()
    def rest(self) -> None:
        """Put the parameters at θ itself: with midpoint schemes half a step back, else they are there already.

        Of a trajectory under way with a midpoint scheme that is the end: call `end_trajectory` next.
        """
        now = self._settings()
        self._check_for_outside_changes(now)
        if self._trajectory is None:
            self._integrator.go_back(self._chain)
            return
        self._trajectory.require_steps()
        if self._integrator.at_midpoint:
            self._finish(self._trajectory, now)

    def _finish(self, trajectory: Trajectory, now: Settings) -> None:
        integrator, chain, force = self._integrator, self._chain, None
        if not integrator.under_way:
            return
        if integrator.needs_last_gradient:
            if not self._flat.has_new_gradients():
                raise BadInput(
                    "the trajectory ends with half a kick, but no gradient was computed since the last step: call "
                    "zero_grad() and backward() once more where the parameters are now, then end_trajectory()"
                )
            force = chain.force(self._flat.gather(), now)
        integrator.finish(chain, now, force, trajectory)

    def _require_not_at_midpoint(self, potential: Potential | None) -> None:
        if self._integrator.at_midpoint and potential is not None and not callable(potential):
            raise BadInput(
                f"the parameters are at a midpoint, half a step further, so {potential} is not the potential that is "
                "needed: give a function that computes it, or call rest() and compute it then"
            )

    def _require_testable(
        self, trajectory: Trajectory, reason: str | None, broken: Condition, potential: Potential | None
    ) -> None:
        if trajectory.settings.temperature == 0:
            raise BadInput("temperature 0 is optimisation, which has no distribution to test against: use reject=False")
        if reason is not None:
            raise NotExact(f"{reason}; or use reject=False", broken)
        if potential is None:
            raise BadInput("reject=True needs the potential at the end: give the loss summed over all data")
        if trajectory.potential is None and not callable(potential):
            raise BadInput(
                f"reject=True needs the potential at the start too, got only {potential} for the end: give "
                "begin_trajectory() a potential, or give end_trajectory() a function that computes it"
            )

    def _evaluate(self, potential: Potential) -> Tensor:
        return as_number(potential() if callable(potential) else potential, self._chain.position.device)

    def _potential_at(self, position: Tensor, potential: Potential, now: Settings) -> Tensor:
        chain = self._chain
        here = chain.position.clone()
        chain.position.copy_(position)
        try:
            found = self._evaluate(potential) + chain.prior(now)
        finally:
            chain.position.copy_(here)
        if not found.isfinite():
            raise BadInput(f"the trajectory began at a potential of {found.item():g}: begin inside the support")
        return found
