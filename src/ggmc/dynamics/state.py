"""What moves (State), what the motion is made with (Parameters), and what a trajectory reports (Info).

All chains are rows of the same tensors. Operations on a `State` map over all of its fields and over a kernel's own
variables in `extra`, so that a new variable is never forgotten.

Example:
    >>> import torch
    >>> from ggmc.dynamics.state import State, choose
    >>> here = State(torch.zeros(2, 3), torch.ones(2, 3), extra={"thermostat": torch.zeros(2)})
    >>> there = here._replace(position=torch.ones(2, 3), extra={"thermostat": torch.ones(2)})
    >>> chosen = choose(torch.tensor([True, False]), there, here)
    >>> chosen.position[:, 0], chosen.extra["thermostat"]
    (tensor([1., 0.]), tensor([1., 0.]))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass

NOTHING: Mapping[str, Tensor] = MappingProxyType({})


class State(NamedTuple):
    """All chains at one moment, one row each."""

    position: Tensor
    """θ, [chains, d]."""
    momentum: Tensor
    """m, [chains, d]."""
    potential: Tensor | None = None
    """U at the last test, [chains] float64; None while it is not known."""
    gradient: Tensor | None = None
    """g(θ) for the next kick, [chains, d]; None while it is not known."""
    untested_work: Tensor | None = None
    """Work since the last test, [chains] float64, where some trajectories are not tested."""
    trajectories: int = 0
    """Trajectories carried out so far."""
    extra: Mapping[str, Tensor] = NOTHING
    """A kernel's own variables by name, [chains, ...] each."""

    def map(self, function: Callable[[Tensor], Tensor]) -> State:
        """A function applied to every tensor of the state.

        Args:
            function: Takes and returns a tensor with one row per chain.
        """

        def of(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else function(tensor)

        return State(
            function(self.position),
            function(self.momentum),
            of(self.potential),
            of(self.gradient),
            of(self.untested_work),
            self.trajectories,
            {name: function(tensor) for name, tensor in self.extra.items()},
        )

    def flip(self) -> State:
        """F: the same position with the momentum negated."""
        return self._replace(momentum=-self.momentum)

    def is_finite(self) -> Tensor:
        """Which chains have a finite position, momentum and finite variables of their own: [chains]."""
        finite = self.position.isfinite().all(-1) & self.momentum.isfinite().all(-1)
        for tensor in self.extra.values():
            finite = finite & tensor.isfinite().reshape(len(finite), -1).all(-1)
        return finite


def choose(chosen: Tensor, one: State, other: State) -> State:
    """Each chain's row from one state or the other; what is unknown in either is unknown.

    Args:
        chosen: [chains] bool: where to take `one`.
        one: A state, which also gives the number of trajectories.
        other: A state of the same chains.
    """

    def pick(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(chosen.view(-1, *(1,) * (a.dim() - 1)), a, b)

    def pick_if_known(a: Tensor | None, b: Tensor | None) -> Tensor | None:
        return None if a is None or b is None else pick(a, b)

    return State(
        pick(one.position, other.position),
        pick(one.momentum, other.momentum),
        pick_if_known(one.potential, other.potential),
        pick_if_known(one.gradient, other.gradient),
        one.untested_work,
        one.trajectories,
        {name: pick(tensor, other.extra[name]) for name, tensor in one.extra.items()},
    )


def join(parts: Sequence[State], order: Tensor) -> State:
    """States of different chains as one state.

    Args:
        parts: States whose chains follow one another.
        order: [chains]: which row of the joined states each chain is.
    """
    first = parts[0]

    def put(tensors: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(tensors))[order]

    def put_if_known(tensors: Sequence[Tensor | None]) -> Tensor | None:
        known = [tensor for tensor in tensors if tensor is not None]
        return put(known) if len(known) == len(tensors) else None

    return State(
        put([part.position for part in parts]),
        put([part.momentum for part in parts]),
        put_if_known([part.potential for part in parts]),
        put_if_known([part.gradient for part in parts]),
        put_if_known([part.untested_work for part in parts]),
        first.trajectories,
        {name: put([part.extra[name] for part in parts]) for name in first.extra},
    )


@dataclass(frozen=True)
class Parameters:
    """The numbers of the motion. Warm-up changes these; settings stay as they are.

    Args:
        step_size: h, a float64 tensor of shape () or [chains].
        friction: γ, likewise; it may be infinite.
        temperature: T, likewise.
        mass: M, in the precision and on the device of the chains.
        steps: The least and the largest number of steps of a trajectory; each trajectory draws its own.
    """

    step_size: Tensor
    friction: Tensor
    temperature: Tensor
    mass: Mass
    steps: tuple[int, int] = (1, 1)
    prepared: dict[object, object] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What letters computed from these numbers, kept for the next trajectory."""

    @classmethod
    def of(
        cls,
        step_size: float | Tensor,
        friction: float | Tensor,
        temperature: float | Tensor,
        mass: Mass,
        steps: tuple[int, int] = (1, 1),
        device: torch.device | None = None,
    ) -> Parameters:
        """From plain numbers or tensors; the arguments are those of the class, on one device."""
        where = device or torch.device("cpu")

        def put(number: float | Tensor) -> Tensor:
            return torch.as_tensor(number, dtype=torch.float64, device=where)

        return cls(put(step_size), put(friction), put(temperature), mass, steps)

    def change(
        self,
        *,
        step_size: float | Tensor | None = None,
        friction: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
        mass: Mass | None = None,
        steps: tuple[int, int] | None = None,
    ) -> Parameters:
        """The same with other numbers; the arguments are those of the class, None where nothing changes."""

        def put(new: float | Tensor | None, old: Tensor) -> Tensor:
            return old if new is None else torch.as_tensor(new, dtype=torch.float64, device=old.device)

        return Parameters(
            put(step_size, self.step_size),
            put(friction, self.friction),
            put(temperature, self.temperature),
            self.mass if mass is None else mass,
            self.steps if steps is None else steps,
        )

    def of_chains(self, chains: Tensor) -> Parameters:
        """The numbers of some of the chains, by their indices."""

        def of(number: Tensor) -> Tensor:
            return number if number.dim() == 0 else number[chains]

        return Parameters(of(self.step_size), of(self.friction), of(self.temperature), self.mass, self.steps)


class Info(NamedTuple):
    """What one trajectory of each chain did; every tensor has shape [chains]."""

    log_accept: Tensor
    """log α, float64; −∞ where α is 0, NaN where it was not computed."""
    accepted: Tensor
    """bool."""
    diverging: Tensor
    """bool."""
    energy_error: Tensor
    """U(θ') − U(θ) + W, float64."""
    work: Tensor
    """W, float64."""
    steps: int
    """Steps of the trajectory."""
    statistics: Mapping[str, Tensor] = NOTHING
    """A kernel's own numbers by name, [chains, ...] each; they are stored in the trace."""

    def of_one(self, number: int) -> Info:
        """Of several trajectories, whose numbers have a first dimension, the info of one.

        Args:
            number: Which.
        """
        return Info(
            self.log_accept[number],
            self.accepted[number],
            self.diverging[number],
            self.energy_error[number],
            self.work[number],
            self.steps,
            {name: statistic[number] for name, statistic in self.statistics.items()},
        )

    def acceptance(self) -> Tensor:
        """min(1, α), [chains]."""
        return self.log_accept.clamp_max(0.0).exp()


def per_row(number: Tensor, like: Tensor) -> Tensor:
    """A number per chain, or one for all, in a shape and precision that multiplies rows [chains, d].

    Example:
        >>> import torch
        >>> from ggmc.dynamics.state import per_row
        >>> per_row(torch.tensor([1.0, 2.0], dtype=torch.float64), torch.zeros(2, 3)).shape
        torch.Size([2, 1])
    """
    return number.to(like.dtype)[:, None] if number.dim() else number.to(like.dtype)


def normals(like: Tensor, generator: torch.Generator) -> Callable[[], Tensor]:
    """A function that draws standard normal noise in the shape of `like`."""

    def draw() -> Tensor:
        return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)

    return draw


def all_zero(numbers: Tensor) -> bool:
    """Whether a number is 0 for all chains, so that what it scales can be left out."""
    return not bool(numbers.any())
