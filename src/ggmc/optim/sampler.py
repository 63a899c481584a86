"""What the samplers here have in common: a `torch.optim.Optimizer` whose parameters, momentum and noise are one vector
each.

    U(θ) = num_data · (mean loss) + num_data · weight_decay/2 · |θ|²,      π(θ) ∝ exp(−U(θ)/T)

`weight_decay` is `torch.optim.SGD`'s: a Gaussian prior of variance 1/(num_data · weight_decay), at temperature 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ggmc.bayes.module_checks import random_layers as restless_layers
from ggmc.dynamics.metropolis import log_uniforms
from ggmc.dynamics.state import Info
from ggmc.errors import BadInput
from ggmc.optim.flat import Flat, trainable
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Trajectory, as_number

Parameters = nn.Module | Iterable[Tensor]
Potential = float | Tensor | Callable[[], float | Tensor]


class Sampler(torch.optim.Optimizer, ABC):
    """Steps, trajectories and their state; a sampler of its own adds `_move`, and where its parameters sit."""

    _euler = False  # is the momentum β = 1 − γh, or e^(−γh)?

    def __init__(self, parameters: Parameters, seed: int | None, **settings: Any):
        chosen = trainable(parameters)
        self._module = parameters if isinstance(parameters, nn.Module) else None
        Settings.of(settings, self._euler)
        super().__init__(chosen, settings)
        self._flat = Flat(chosen)
        self._position = self._flat.values
        self._momentum = torch.zeros_like(self._position)
        self._spare = torch.zeros_like(self._position)
        self._force = torch.zeros_like(self._position) if settings["weight_decay"] else None
        self._generator = torch.Generator(self._position.device)
        # Like a DataLoader's, the seed comes from torch's own generator, so that torch.manual_seed is enough.
        self._generator.manual_seed(int(torch.randint(2**62, ())) if seed is None else seed)
        # Time of the half drift already made towards the next gradient; None where the parameters sit at θ.
        self._pending: float | None = None
        self._owed = math.inf  # γt of the friction still to be carried out; at first the momentum is yet to be drawn
        self._loss: Tensor | None = None  # summed over all data, float64, where the chain is; None while not known
        self._trajectory: Trajectory | None = None

    @property
    def momenta(self) -> Tensor:
        """The momentum m as one vector. Writing to it changes the chain: do so between trajectories."""
        return self._momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step, with the gradient of the *mean* loss over a batch where the parameters sit."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        now = self._now()
        self._require_on_the_way()
        self._look_around(now)
        gradient = self._flat.gather()
        if self._trajectory is None:
            self._loss = None
        else:
            self._trajectory.rates.append(now.lr)
        self._pay_friction(now)
        self._move(self._with_prior(gradient, now), now)
        return loss

    @abstractmethod
    def _move(self, force: Tensor, now: Settings) -> None:
        """The step itself, with `force` = ∇U/num_data."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients. A parameter that then gets none counts as one of gradient zero."""
        if set_to_none:
            for parameter in self._flat.parameters:
                parameter.grad = None
        else:
            super().zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused: all parameters together are one chain, with one step size and one test."""
        if self.param_groups:
            raise BadInput(
                "a group cannot be added: all parameters together are one chain, with one learning rate and one test. "
                "Make a new optimiser with all of them"
            )
        super().add_param_group(param_group)

    @torch.no_grad()
    def begin_trajectory(self, potential: Potential | None = None) -> None:
        """Begin a stretch of steps that `end_trajectory` will look at, or test.

        `potential` is the loss summed over all data, in float64, at the start: a number, or a function that computes
        it. It is known already if the last `end_trajectory` had one and no step was taken since.
        """
        if self._trajectory is not None:
            raise BadInput("a trajectory is under way: end_trajectory() first")
        now = self._now()
        self._look_around(now)
        self._require_at_rest(potential)
        self._come_to_rest()
        if potential is not None:
            self._loss = self._evaluate(potential)
        start = None if self._loss is None else self._loss + self._prior(now)
        if start is not None and not start.isfinite():
            raise BadInput(f"the trajectory would begin at a potential of {start.item():g}: begin inside the support")
        self._pay_friction(now)
        self._trajectory = Trajectory(
            self._position.clone(),
            self._momentum.clone(),
            start,
            now,
            torch.zeros((), dtype=torch.float64, device=self._position.device),
            [now.lr],
            restless=list(restless_layers(self._module)),
        )
        self._set_off(now)

    @torch.no_grad()
    def end_trajectory(self, potential: Potential | None = None, reject: bool = False) -> Info:
        """End it: the parameters sit at its end, an exact draw if tested. Every entry of the result is one number.

        `potential` is the loss summed over all data, in float64; the weight decay's part is added to it. It is a
        function, which is called with the parameters at the end and, where it is not known, at the start; or a number,
        computed after `rest()` at the end. Without it log α is NaN.

        With `reject=True` the end is accepted with probability min(1, α), else the parameters return to the start and
        the momentum is flipped. For the chain to be exact the batches must be drawn afresh for each trajectory, by a
        law that does not depend on the direction: independent batches, whole shuffled epochs, or the same out and back.
        """
        trajectory = self._trajectory
        if trajectory is None:
            raise BadInput("no trajectory is under way: begin_trajectory() first")
        now = self._now()
        self._look_around(now)
        trajectory.require_steps()
        self._require_at_rest(potential)
        if reject:
            self._require_testable(trajectory, potential)
        self._come_to_rest()
        end = None if potential is None else self._evaluate(potential) + self._prior(now)
        if trajectory.potential is None and callable(potential):
            trajectory.potential = self._potential_at(trajectory.position, potential, now)
        log_uniform = log_uniforms(1, self._generator) if reject else None
        after, info = trajectory.judge(self._position, self._momentum, end, now.temperature, log_uniform)
        if not info.accepted:
            self._position.copy_(after.position[0])
            self._momentum.copy_(after.momentum[0])
        self._loss = None if after.potential is None else after.potential[0] - self._prior(now)
        self._owed = self._friction_of(trajectory, now)
        self._trajectory = None
        return info

    @torch.no_grad()
    def rest(self) -> None:
        """Put the parameters at θ itself, half a step back. Of a trajectory under way that is the end: end it next."""
        self._look_around(self._now())
        if self._trajectory is not None:
            self._trajectory.require_steps()
        self._come_to_rest()

    def _require_at_rest(self, potential: Potential | None) -> None:
        if self._pending is not None and potential is not None and not callable(potential):
            raise BadInput(
                f"the parameters sit at a midpoint, half a step further, so {potential} is not the potential that is "
                "needed: give a function that computes it, or call rest() and compute it then"
            )

    def _require_testable(self, trajectory: Trajectory, potential: Potential | None) -> None:
        trajectory.require_exact()
        if potential is None:
            raise BadInput("reject=True needs the potential at the end: give the loss summed over all data")
        if trajectory.potential is None and not callable(potential):
            raise BadInput(
                f"reject=True needs the potential at the start too, got only {potential} for the end: give "
                "begin_trajectory() a potential, or give end_trajectory() a function that computes it"
            )

    def _require_on_the_way(self) -> None:
        """Refuse a step where it would make no sense."""

    def _come_to_rest(self) -> None:
        """Put the parameters, and the momentum, where the chain is."""

    def _set_off(self, now: Settings) -> None:
        """Put the parameters where the first gradient is taken."""

    def _friction_of(self, trajectory: Trajectory, now: Settings) -> float:
        """γt of the friction at a trajectory's ends: outside the test, so carried out before the next one."""
        return 0.0

    def _now(self) -> Settings:
        return Settings.of(self.param_groups[0], self._euler)

    def _look_around(self, now: Settings) -> None:
        """Notice what others did since the last call."""
        written = self._flat.reclaim()
        if self._trajectory is not None:
            self._trajectory.watch(now, written)
        elif written:  # they put the parameters where the chain shall be
            self._loss = self._pending = None

    def _rub(self, momentum: Tensor, keep: float, spread: float, into: Tensor) -> None:
        """The letter O: keep · m + spread · ε."""
        if spread:
            into.normal_(0.0, spread, generator=self._generator).add_(momentum, alpha=keep)
        else:
            torch.mul(momentum, keep, out=into)

    def _pay_friction(self, now: Settings) -> None:
        """Carry out what is owed."""
        if self._owed:
            spread = math.sqrt(-math.expm1(-2 * self._owed) * now.temperature)
            self._rub(self._momentum, math.exp(-self._owed), spread, into=self._spare)
            self._momentum, self._spare = self._spare, self._momentum
            self._owed = 0.0

    def _with_prior(self, gradient: Tensor, now: Settings) -> Tensor:
        if not now.weight_decay:
            return gradient
        if self._force is None:
            self._force = torch.zeros_like(self._position)
        return torch.add(gradient, self._position, alpha=now.weight_decay, out=self._force)

    def _prior(self, now: Settings) -> Tensor | float:
        if not now.weight_decay:
            return 0.0
        squares = self._position.double().square().sum()
        return now.num_data * now.weight_decay / 2 * squares

    def _evaluate(self, potential: Potential) -> Tensor:
        return as_number(potential() if callable(potential) else potential, self._position.device)

    def _potential_at(self, position: Tensor, potential: Potential, now: Settings) -> Tensor:
        here = self._position.clone()
        self._position.copy_(position)
        try:
            found = self._evaluate(potential) + self._prior(now)
        finally:
            self._position.copy_(here)
        if not found.isfinite():
            raise BadInput(f"the trajectory began at a potential of {found.item():g}: begin inside the support")
        return found

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit for bit, generator and open trajectory included; not the parameters."""
        flat = self._flat
        packed: dict[str, Any] = super().state_dict()
        packed["sampler"] = {
            "kind": self._kind(),
            "momentum": [view.clone() for view in flat.views(self._momentum)],
            "spare": [view.clone() for view in flat.views(self._spare)] if self._trajectory else None,
            "generator": self._generator.get_state(),
            "owed": self._owed,
            "pending": self._pending,
            "loss": None if self._loss is None else self._loss.clone(),
            "trajectory": self._trajectory.to_dict(flat) if self._trajectory else None,
        }
        return packed

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was called, the parameters having been loaded into the module."""
        packed = state_dict.get("sampler")
        if packed is None or packed["kind"] != self._kind():
            kind = "another optimiser" if packed is None else packed["kind"]
            raise BadInput(f"this is the state of {kind}, not of {self._kind()}: load it into one of its own kind")
        super().load_state_dict(state_dict)
        flat, trajectory, loss = self._flat, packed["trajectory"], packed["loss"]
        self._momentum.copy_(flat.join(packed["momentum"]))
        if packed["spare"] is not None:
            self._spare.copy_(flat.join(packed["spare"]))
        self._generator.set_state(packed["generator"].cpu())
        self._owed, self._pending = packed["owed"], packed["pending"]
        self._loss = None if loss is None else loss.to(self._position.device, copy=True)
        restless = list(restless_layers(self._module))
        self._trajectory = None if trajectory is None else Trajectory.from_dict(trajectory, flat, restless)
        flat.trust()  # the parameters may be loaded before this or after

    def _kind(self) -> str:
        return type(self).__name__

    def __getstate__(self) -> dict[str, Any]:
        raise BadInput("a sampler cannot be copied or pickled: save its state_dict() and the module's")
