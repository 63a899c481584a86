"""What the numbers of the parameter groups mean for the motion.

    h = √(ℓ/N),   β = e^(−γh)       for learning rate ℓ, momentum β and N = num_data (SGHMC: β = 1 − γh)

Groups with learning rates of their own are one chain with one step size h, that of the largest rate, and a mass for
each group, M = ℓ_largest/ℓ. Written with the momentum M^(−½) m, whose distribution N(0, T) is the same for all groups,

    A  θ ← θ + h M^(−½) m,      B  m ← m − h M^(−½) ∇U(θ),      K = |m|²/2,

so that each group has the step size h·ratio = √(ℓ/N), with ratio = M^(−½), and nothing else depends on the group. If a
group's rate changes, its momentum in these units stays as it is, which keeps its distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from torch import Tensor

from ggmc.dynamics.learning_rate import from_learning_rate
from ggmc.errors import BadInput, require_count, require_not_negative
from ggmc.plain import PlainDict

Ratios = tuple[float, ...] | None
"""Each group's step size divided by the largest; None where all are the same."""


class Share(NamedTuple):
    """A time, and each group's share of it."""

    time: float
    ratios: Ratios

    @classmethod
    def restored(cls, plain: Sequence[Any]) -> Share:
        """From a tuple or, by way of JSON, from a list."""
        time, ratios = plain
        return cls(time, _as_tuple(ratios))


COMMON = {
    "momentum": "the friction of a step is the same for the whole chain",
    "temperature": "all parameters together have one distribution",
    "num_data": "all parameters share one loss",
}


class Settings(NamedTuple):
    """The parameter groups as they are now, checked, and what follows from them."""

    rates: tuple[float, ...]
    """ℓ of each group."""
    weight_decays: tuple[float, ...]
    """Of each group."""
    momentum: float
    """β."""
    temperature: float
    """T."""
    num_data: int
    """N."""
    step_size: float
    """h of the group with the largest rate."""
    ratios: Ratios
    """Each group's step size divided by h; None where all are the same."""
    half: Share
    """Half a step."""
    weight_decay: float | None
    """That of all groups; None where they differ."""
    decay: float
    """γh, the friction of one step."""

    @classmethod
    def of(cls, groups: Iterable[PlainDict], euler: bool = False) -> Settings:
        """From the parameter groups.

        Args:
            groups: As in `torch.optim`; an "lr" may be a tensor.
            euler: Whether the momentum is β = 1 − γh.

        Example:
            >>> from ggmc.optim.settings import Settings
            >>> group = {"lr": 0.01, "momentum": 0.9, "temperature": 1.0, "weight_decay": 0.0, "num_data": 100}
            >>> now = Settings.of([group, {**group, "lr": 0.0025}])
            >>> f"{now.step_size:.3f} {now.decay:.3f} {now.ratios}"
            '0.010 0.105 (1.0, 0.5)'
        """
        return _settings(tuple([_numbers(group) for group in groups]), euler)

    def to_dict(self) -> PlainDict:
        """As plain values."""
        return self._asdict() | {"half": tuple(self.half)}

    @classmethod
    def from_dict(cls, plain: PlainDict) -> Settings:
        """What `to_dict` gave."""
        settings = cls(**{name: _as_tuple(value) for name, value in plain.items()})
        return settings._replace(half=Share.restored(settings.half))

    def changed(self, now: Settings) -> str | None:
        """What must not change along a trajectory and did, in words.

        Args:
            now: Later settings of the same groups.
        """
        for name, before, after in (
            ("momentum", self.momentum, now.momentum),
            ("temperature", self.temperature, now.temperature),
            ("weight_decay", self.weight_decays, now.weight_decays),
            ("num_data", self.num_data, now.num_data),
        ):
            if before != after:
                return f"{name} changed along the trajectory, from {_plain(before)} to {_plain(after)}"
        return None


_Numbers = tuple[float, float, float, float, int]


def _numbers(group: PlainDict) -> _Numbers:
    lr = group["lr"]
    return (
        lr if type(lr) is float or not isinstance(lr, Tensor) else _one_number(lr),  # the first is cheaper to ask
        group["weight_decay"],
        group.get("momentum", 0.0),
        group["temperature"],
        group["num_data"],
    )


def _one_number(lr: Tensor) -> float:
    if lr.numel() != 1:
        raise BadInput(f"lr must be one number, got a tensor of shape {list(lr.shape)}: give groups with their own lr")
    return lr.item()


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # JSON does not tell them apart


def _plain(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


@lru_cache(maxsize=256)
def _settings(groups: tuple[_Numbers, ...], euler: bool) -> Settings:
    _, _, momentum, temperature, num_data = first = groups[0]
    for number, group in enumerate(groups):
        require_count("num_data", group[4])
        require_not_negative("lr", group[0])
        require_not_negative("weight_decay", group[1])
        require_not_negative("temperature", group[3])
        for (name, why), here, there in zip(COMMON.items(), first[2:], group[2:], strict=True):
            if here != there:
                raise BadInput(
                    f"{name} is {here} in group 0 but {there} in group {number}: {why}, so give all groups the same. "
                    "Groups may differ in lr and weight_decay"
                )
    rates, decays = tuple(group[0] for group in groups), tuple(group[1] for group in groups)
    largest = max(rates)
    # Warm-up schedules start at a rate of 0, where nothing moves. What friction takes per step is the same at any rate.
    step_size, friction = from_learning_rate(largest or 1.0, momentum, num_data, euler=euler)
    step_size_now = step_size if largest else 0.0
    ratios = None if min(rates) == largest else tuple(math.sqrt(rate / largest) for rate in rates)
    return Settings(
        rates,
        decays,
        momentum,
        temperature,
        num_data,
        step_size_now,
        ratios,
        Share(step_size_now / 2, ratios),
        decays[0] if min(decays) == max(decays) else None,
        friction * step_size,
    )
