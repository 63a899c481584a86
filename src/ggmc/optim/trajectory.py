"""A trajectory under way: where it began, the work of its kicks, and whether it can still be tested."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ggmc.dynamics import metropolis
from ggmc.dynamics.state import Info
from ggmc.dynamics.state import State
from ggmc.errors import BadInput, NotExact
from ggmc.optim.flat import Flat
from ggmc.optim.settings import Settings


@dataclass
class Trajectory:
    """What must be remembered from `begin_trajectory` to `end_trajectory`."""

    position: Tensor  # θ at the start, as a vector
    momentum: Tensor  # m at the start
    potential: Tensor | None  # U at the start, float64, if known
    settings: Settings  # at the start
    work: Tensor  # W so far, float64; with friction at the ends alone, known once at rest
    rates: list[float] = field(default_factory=list)  # learning rates: at the start, and at each step
    reason: str | None = None  # why it can no longer be tested
    restless: list[tuple[str, nn.Module]] = field(
        default_factory=list
    )  # layers whose training mode would void the test

    @property
    def steps(self) -> int:
        return len(self.rates) - 1

    def watch(self, now: Settings, written: bool) -> None:
        """Note what voids the test. The first reason stays."""
        if self.reason is not None:
            return
        changed = self.settings.changed(now)
        if changed is not None:
            self.reason = (
                f"{changed} changed along the trajectory, from {getattr(self.settings, changed)} to "
                f"{getattr(now, changed)}: change it between trajectories"
            )
        elif written:
            self.reason = "somebody else wrote to the parameters along the trajectory: do so between trajectories"
        else:
            for name, layer in self.restless:
                if layer.training:
                    self.reason = (
                        f"{type(layer).__name__} {name!r} was in training mode, where the loss depends on more than "
                        "the parameters and the batch: put it in eval mode, or use a layer without memory or chance"
                    )
                    return

    def require_steps(self) -> None:
        """Refuse an end that is the beginning."""
        if self.steps == 0:
            raise BadInput("the trajectory has no steps yet, so there is nothing to look at: step() first")

    def require_exact(self) -> None:
        """Refuse to test what cannot be retraced."""
        if self.settings.temperature == 0:
            raise BadInput("temperature 0 is optimisation, which has no law to test against: use reject=False")
        if self.reason is not None:
            raise NotExact(f"{self.reason}; or use reject=False")
        for place, (there, back) in enumerate(zip(self.rates, reversed(self.rates), strict=True)):
            if not math.isclose(there, back, rel_tol=1e-9):
                raise NotExact(
                    "learning rates along a trajectory, at begin_trajectory() and at each step(), must read the same "
                    f"backwards: number {place + 1} of {len(self.rates)} is {there:g}, but number {place + 1} from the "
                    f"end is {back:g}. Change the rate between trajectories, go there and back, or use reject=False"
                )

    def judge(
        self,
        position: Tensor,
        momentum: Tensor,
        potential: Tensor | None,
        temperature: float,
        log_uniform: Tensor | None,
    ) -> tuple[State, Info]:
        """Where the chain goes from here, by the one accept/reject. Without a uniform every finite end is kept."""
        start = State(self.position[None], self.momentum[None], _row(self.potential), None)
        end = State(position[None], momentum[None], _row(potential), None)
        work = self.work[None]
        if log_uniform is not None:
            after, info = metropolis.decide(start, end, work, self.steps, temperature, log_uniform)
        elif start.potential is None or end.potential is None:
            after, info = metropolis.watch(start, end, work, self.steps, temperature, None)
            after = after._replace(potential=end.potential if info.accepted else start.potential)
        else:
            known = start.potential  # asked for only where the chain is put back to its start
            after, info = metropolis.watch(start, end, work, self.steps, temperature, lambda _: known)
        single = (info.log_accept[0], info.accepted[0], info.diverging[0], info.energy_error[0], info.work[0])
        return after, Info(*single, info.steps)

    def to_dict(self, flat: Flat) -> dict[str, Any]:
        """As plain values and tensors of the parameters' shapes."""
        return {
            "position": [view.clone() for view in flat.views(self.position)],
            "momentum": [view.clone() for view in flat.views(self.momentum)],
            "potential": None if self.potential is None else self.potential.clone(),
            "settings": list(self.settings),
            "work": self.work.clone(),
            "rates": list(self.rates),
            "reason": self.reason,
        }

    @classmethod
    def from_dict(cls, plain: dict[str, Any], flat: Flat, restless: list[tuple[str, nn.Module]]) -> Trajectory:
        device = flat.values.device
        potential = plain["potential"]
        return cls(
            flat.join(plain["position"]),
            flat.join(plain["momentum"]),
            None if potential is None else potential.to(device, copy=True),
            Settings(*plain["settings"]),
            plain["work"].to(device, copy=True),
            list(plain["rates"]),
            plain["reason"],
            restless,
        )


def _row(potential: Tensor | None) -> Tensor | None:
    return None if potential is None else potential[None]


PART = 65_536


def product(a: Tensor, b: Tensor) -> Tensor:
    """a·b, one number. Long vectors go in parts, whose sum is float64: as exact as their numbers, and nothing written.

    Example:
        >>> import torch
        >>> from ggmc.optim.trajectory import product
        >>> ones = torch.ones(2**24 + 2**16)          # one float32 cannot count that far by ones
        >>> product(ones, ones).item() - len(ones)
        0.0
    """
    part = max(PART, len(a) // 64)
    if len(a) <= part:
        return torch.dot(a, b)
    return torch.stack(list(map(torch.dot, a.split(part), b.split(part)))).sum(dtype=torch.float64)


def kinetic_energy(momentum: Tensor) -> Tensor:
    """|m|²/2, added up in float64."""
    precise = momentum.double()
    return torch.dot(precise, precise) / 2


def as_number(potential: Any, device: torch.device) -> Tensor:
    """One number in float64."""
    tensor = torch.as_tensor(potential, dtype=torch.float64, device=device).detach()
    if tensor.numel() != 1:
        raise BadInput(
            f"potential must be one number, the loss summed over all data, got shape {tuple(tensor.shape)}: sum it"
        )
    return tensor.reshape(())
