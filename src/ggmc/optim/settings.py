"""What the numbers of a parameter group mean for the motion."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from torch import Tensor

from ggmc.dynamics.learning_rate import from_learning_rate
from ggmc.errors import require_not_negative


class Settings(NamedTuple):
    """A parameter group as it is now, checked, and what follows from it."""

    lr: float  # ℓ
    momentum: float  # β
    temperature: float  # T
    weight_decay: float
    num_data: int  # N
    step_size: float  # h
    decay: float  # γh

    @classmethod
    def of(cls, group: dict[str, Any], euler: bool = False) -> Settings:
        """Of a parameter group, whose `lr` may be a tensor.

        Example:
            >>> from ggmc.optim.settings import Settings
            >>> group = {"lr": 0.01, "momentum": 0.9, "temperature": 1.0, "weight_decay": 0.0, "num_data": 100}
            >>> now = Settings.of(group)
            >>> f"{now.step_size:.3f} {now.decay:.3f}"
            '0.010 0.105'
        """
        lr, momentum = group["lr"], group.get("momentum", 0.0)
        lr = lr.item() if isinstance(lr, Tensor) else lr
        return _settings(lr, momentum, group["temperature"], group["weight_decay"], group["num_data"], euler)

    def changed(self, now: Settings) -> str | None:
        """The first of those that must not change along a trajectory which did."""
        names = ("momentum", "temperature", "weight_decay", "num_data")
        return next((name for name in names if getattr(self, name) != getattr(now, name)), None)


@lru_cache(maxsize=256)
def _settings(
    lr: float, momentum: float, temperature: float, weight_decay: float, num_data: int, euler: bool
) -> Settings:
    require_not_negative("lr", lr)
    require_not_negative("temperature", temperature)
    require_not_negative("weight_decay", weight_decay)
    # Warm-up schedules start at a rate of 0, where nothing moves. What friction takes per step is the same at any rate.
    step_size, friction = from_learning_rate(lr or 1.0, momentum, num_data, euler=euler)
    return Settings(lr, momentum, temperature, weight_decay, num_data, step_size if lr else 0.0, friction * step_size)
