"""A trajectory of an optimiser under way: where it began, the work of its kicks, and its test by `metropolis.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ggmc.bayes.module_checks import random_layers
from ggmc.dynamics import metropolis
from ggmc.dynamics.state import Info, State
from ggmc.errors import BadInput, Condition
from ggmc.optim.flat import Flat
from ggmc.optim.settings import Settings
from ggmc.plain import PlainDict

Potential = float | Tensor | Callable[[], float | Tensor]
"""The loss summed over all data, or a function that computes it where the parameters are."""

Layers = list[tuple[str, nn.Module]]


def layers_to_check(module: nn.Module | None) -> Layers:
    """Layers whose output in training mode is not a function of the parameters and one example.

    Args:
        module: What is sampled; None where only its parameters are known.
    """
    return [] if module is None else list(random_layers(module))


@dataclass
class Trajectory:
    """What must be remembered from `begin_trajectory` to `end_trajectory`.

    Args:
        position: θ at the start, [d].
        momentum: m at the start, [d].
        potential: U at the start, float64; None while it is not known.
        settings: At the start.
        work: W so far, float64; with friction at the ends alone, known at the end.
        rates: Learning rates that are part of the path, of all groups, in their order.
        steps: How many were taken.
        reason: Why it can no longer be tested, if it cannot.
        layers: Those whose training mode would make the test invalid.
        broken: The condition of exactness that `reason` is about.
    """

    position: Tensor
    momentum: Tensor
    potential: Tensor | None
    settings: Settings
    work: Tensor
    rates: list[tuple[float, ...]] = field(default_factory=list)
    steps: int = 0
    reason: str | None = None
    layers: Layers = field(default_factory=list)
    broken: Condition | None = None

    def count_step(self, now: Settings) -> None:
        """Note a step and its learning rates."""
        self.steps += 1
        self.rates.append(now.rates)

    def check(self, now: Settings, written: bool) -> None:
        """Note what makes the test invalid. The first reason stays.

        Args:
            now: The present settings.
            written: Whether other code wrote to the parameters.
        """
        if self.reason is not None:
            return
        changed = None if now is self.settings else self.settings.changed(now)
        if changed is not None:
            self.reason, self.broken = f"{changed}: change it between trajectories", Condition.STEPS
        elif written:
            self.reason = "other code wrote to the parameters along the trajectory: do so between trajectories"
            self.broken = Condition.WORD
        else:
            for name, layer in self.layers:
                if layer.training:
                    self.reason = (
                        f"{type(layer).__name__} {name!r} was in training mode, where the loss depends on more than "
                        "the parameters and the batch: put it in eval mode, or replace it by a layer that is "
                        "deterministic and keeps no statistics"
                    )
                    self.broken = Condition.GRADIENT
                    return

    def require_steps(self) -> None:
        """Refuse an end that is the beginning."""
        if self.steps == 0:
            raise BadInput("the trajectory has no steps yet, so there is nothing to test: call step() first")

    def not_palindromic(self) -> str | None:
        """Why the learning rates do not read the same backwards, if they do not."""
        for place, (there, back) in enumerate(zip(self.rates, reversed(self.rates), strict=True), start=1):
            for group, (one, other) in enumerate(zip(there, back, strict=True)):
                if not math.isclose(one, other, rel_tol=1e-9):
                    where = f" of group {group}" if len(there) > 1 else ""
                    return (
                        "learning rates along a trajectory must read the same backwards: "
                        f"number {place} of {len(self.rates)}{where} is {one:g}, but number {place} from the end is "
                        f"{other:g}. Change the rate between trajectories, or let it return the way it came"
                    )
        return None

    def judge(
        self, position: Tensor, momentum: Tensor, potential: Tensor | None, log_uniform: Tensor | None, testable: bool
    ) -> tuple[State, Info]:
        """Where the chain goes from here, by the one accept/reject. Without a uniform every finite end is kept.

        Args:
            position: θ at the end.
            momentum: m at the end.
            potential: U at the end, if known.
            log_uniform: For the decision; None for no decision.
            testable: Whether the trajectory can be retraced; else α is 0.

        Returns:
            The state of this one chain, and what happened, every entry one number.
        """
        start = State(self.position[None], self.momentum[None], _row(self.potential))
        end = State(position[None], momentum[None], _row(potential))
        work = self.work[None]
        temperature = torch.full_like(self.work, self.settings.temperature)
        if log_uniform is not None:
            after, info = metropolis.decide(start, end, work, self.steps, temperature, log_uniform)
        elif start.potential is None or end.potential is None:
            after, info = metropolis.monitor(start, end, work, self.steps, temperature, None)
            after = after._replace(potential=end.potential if info.accepted else start.potential)
            if not testable:
                never = torch.full_like(work, torch.inf)
                info = info._replace(log_accept=-never, energy_error=never)
        else:
            known = start.potential  # used only where the chain is put back to its start
            after, info = metropolis.monitor(
                start, end, work, self.steps, temperature, lambda _: known, testable=testable
            )
        single = (info.log_accept[0], info.accepted[0], info.diverging[0], info.energy_error[0], info.work[0])
        return after, Info(*single, info.steps)

    def to_dict(self, flat: Flat) -> PlainDict:
        """As plain values and tensors of the parameters' shapes.

        Args:
            flat: Knows these shapes.
        """
        return {
            "position": [view.clone() for view in flat.views(self.position)],
            "momentum": [view.clone() for view in flat.views(self.momentum)],
            "potential": None if self.potential is None else self.potential.clone(),
            "settings": self.settings.to_dict(),
            "work": self.work.clone(),
            "rates": list(self.rates),
            "steps": self.steps,
            "reason": self.reason,
            "broken": None if self.broken is None else self.broken.name,
        }

    @classmethod
    def from_dict(cls, plain: PlainDict, flat: Flat, layers: Layers) -> Trajectory:
        """What `to_dict` gave.

        Args:
            plain: The result of `to_dict`.
            flat: Knows the parameters' shapes.
            layers: Those whose training mode would make the test invalid.
        """
        device = flat.values.device
        potential = plain["potential"]
        return cls(
            flat.join(plain["position"]),
            flat.join(plain["momentum"]),
            None if potential is None else potential.to(device, copy=True),
            Settings.from_dict(plain["settings"]),
            plain["work"].to(device, copy=True),
            list(plain["rates"]),
            plain["steps"],
            plain["reason"],
            layers,
            None if plain["broken"] is None else Condition[plain["broken"]],
        )


def _row(potential: Tensor | None) -> Tensor | None:
    return None if potential is None else potential[None]


def as_number(potential: Any, device: torch.device) -> Tensor:
    """One number in float64.

    Args:
        potential: A number or a tensor of one number.
        device: Where it is needed.
    """
    try:
        if isinstance(potential, bool):
            raise TypeError
        tensor = torch.as_tensor(potential, dtype=torch.float64, device=device).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInput(f"potential must be one number, the loss summed over all data, got {potential!r}") from error
    if tensor.numel() != 1:
        raise BadInput(
            f"potential must be one number, the loss summed over all data, got shape {tuple(tensor.shape)}: sum it"
        )
    return tensor.reshape(())
