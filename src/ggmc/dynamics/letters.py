"""The alphabet: each letter with its equation, the work it does and the noise it needs.

For a time t, with momentum m, position θ, mass M, friction γ, temperature T and guide g:

    O   m ← e^(−γt) m + √((1 − e^(−2γt)) T) · M^½ ε,   ε ~ N(0, I)       friction and noise
    B   m ← m − t · g(θ; ζ)                                              a kick
    A   θ ← θ + t · M⁻¹ m                                                a drift
    C   m ← [(1 − c) m − t · g(θ; ζ) + √(4cT) · M^½ ε] / (1 + c),   c = γt/2    kick and friction at once
    E   m ← (1 − γt) m − t · g(θ; ζ) + √(2γtT) · M^½ ε                   Euler–Maruyama's kick, which has no way back

The Metropolis test must know the work W: the change of the kinetic energy K(m) = ½ mᵀM⁻¹m by all kicks together,

    ΔK = −(t/2) · g · M⁻¹(m_before + m_after)   for each kick.

The same for C, whose Gaussian densities there and back differ by just that and the change of K. O is reversible with
respect to exp(−K/T), and A leaves K unchanged. Noise of another temperature Tₖ on the way is not reversible with
respect to exp(−K/T), but its ratio is known: the heat Q = ΔK − W of such a move adds (1 − T/Tₖ) Q to the work.

A new letter is a subclass of `Letter` that states its facts and carries out `prepare`, `apply` and `noises`. A kernel
with letters of its own extends the table, `Program(letters=LETTERS | {"N": MyLetter()})`: see `kernels/sgnht.py`. In
general a letter adds ΔK + T · log[p(there) / (p(back) · |Jacobian|)] to the work, which is 0 for O and ΔK for a kick.
The work of a letter with noise is not checked: `ggmc.retrace` and `tests/exactness` are there for that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from ggmc.dynamics.state import Parameters, State, all_zero, per_row
from ggmc.guides.base import GradientField

Numbers = TypeVar("Numbers")
Pair = tuple[Tensor, Tensor]

OnKick = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""Called at each kick with its time, θ, g and the mean velocity: to compare, not to change anything."""


class Motion:
    """A trajectory under way, as letters see it: they read and replace its tensors.

    Args:
        state: Where the chains are.
        parameters: The numbers of the motion.
        field: The gradient field.
        tape: Its entries [entries, chains, ...], or None where the field has no order.
        noise: Draws standard normal noise in the shape of the momentum.
        on_kick: Called at each kick.
    """

    def __init__(
        self,
        state: State,
        parameters: Parameters,
        field: GradientField,
        tape: Tensor | None,
        noise: Callable[[], Tensor],
        on_kick: OnKick | None = None,
    ):
        self.position, self.momentum = state.position, state.momentum
        self.potential, self.gradient = state.potential, state.gradient
        self.extra = dict(state.extra)
        self.parameters, self.noise, self.on_kick = parameters, noise, on_kick
        self.work = torch.zeros(len(state.position), dtype=torch.float64, device=state.position.device)
        self._field, self._tape = field, tape
        self.reads = 0
        """Gradients computed so far, each with an entry of the tape of its own."""

    def force(self) -> Tensor:
        """g at the present position. The tape is read only where no gradient is known."""
        if self.gradient is None:
            entry = None if self._tape is None else self._tape[self.reads]
            self.reads += 1
            self.gradient, self.potential = self._field(self.position, entry)
        return self.gradient

    def next_of_tape(self, number: int) -> Tensor | None:
        """So many entries of the tape, which are read with this; None where there are none to read."""
        entries = self.tape_ahead(number)
        self.reads += number
        return entries

    def tape_ahead(self, number: int) -> Tensor | None:
        """So many entries, which are still to be read."""
        return None if self._tape is None or not number else self._tape[self.reads : self.reads + number]

    def move_to(self, position: Tensor) -> None:
        """Another position, where nothing is known yet."""
        self.position = position
        self.potential = self.gradient = None


FACTS = ("kicks", "drifts", "merges", "outside", "noisy", "not_reversible")


class Letter(ABC, Generic[Numbers]):
    """One kind of move. A subclass states these facts about itself, all of them, and carries out its equation."""

    kicks: ClassVar[bool]
    """Whether it reads the gradient."""
    drifts: ClassVar[bool]
    """Whether it moves the position."""
    merges: ClassVar[bool]
    """Whether two in a row are one, for the sum of their times."""
    outside: ClassVar[bool]
    """Whether it leaves exp(−K/T) invariant by itself, so that at a trajectory's ends it stands outside the test."""
    noisy: ClassVar[bool]
    """Whether it draws noise where there is friction, and so refreshes the momentum."""
    not_reversible: ClassVar[str | None]
    """Why it has no way back, so that no word with it can be tested; None if, from where it ended and with the momentum
    flipped, it leads back to where it began, with the work that it books."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        missing = [fact for fact in FACTS if not any(fact in vars(parent) for parent in cls.__mro__)]
        if missing:
            raise TypeError(f"the letter {cls.__name__} must state {', '.join(missing)}")

    @abstractmethod
    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Numbers:
        """The numbers that the equation needs, computed once for all moves alike.

        Args:
            time: In units of the step size.
            warmth: The temperature of this move's noise, divided by T.
            parameters: The numbers of the motion.
            like: A tensor in the precision and on the device of the chains.
        """

    @abstractmethod
    def apply(self, motion: Motion, numbers: Numbers) -> None:
        """Carry out the equation, and add its work to the motion's."""

    @abstractmethod
    def noises(self, time: float, parameters: Parameters) -> int:
        """How many noises of the momentum's shape it draws."""


def dot(a: Tensor, b: Tensor) -> Tensor:
    """a·b of each row, summed in float64."""
    return (a * b).sum(-1, dtype=torch.float64)


def fresh_momentum(parameters: Parameters, noise: Tensor) -> Tensor:
    """A momentum drawn from its distribution N(0, T·M): O for an infinite time."""
    return per_row(parameters.temperature.sqrt(), noise) * parameters.mass.colour(noise)


def _time(time: float, parameters: Parameters) -> Tensor:
    return time * parameters.step_size


class Drift(Letter[Tensor]):
    """A."""

    kicks, drifts, merges, outside = False, True, True, False
    noisy, not_reversible = False, None

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Tensor:
        return per_row(_time(time, parameters), like)

    def apply(self, motion: Motion, numbers: Tensor) -> None:
        motion.move_to(motion.position + numbers * motion.parameters.mass.velocity(motion.momentum))

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0


class Kick(Letter[Pair]):
    """B."""

    kicks, drifts, merges, outside = True, False, True, False
    noisy, not_reversible = False, None

    def prepare(self, time: float, warmth: float, parameters: Parameters, like: Tensor) -> Pair:
        t = _time(time, parameters)
        return t, per_row(t, like)

    def apply(self, motion: Motion, numbers: Pair) -> None:
        t, by_row = numbers
        gradient, before = motion.force(), motion.momentum
        motion.momentum = before - by_row * gradient
        motion.work = motion.work + _work(motion, t, gradient, before)

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0


class Friction(Letter[tuple[Tensor, Tensor, float] | None]):
    """O. No friction draws no noise."""

    kicks, drifts, merges, outside = False, False, True, True
    noisy, not_reversible = True, None

    def prepare(
        self, time: float, warmth: float, parameters: Parameters, like: Tensor
    ) -> tuple[Tensor, Tensor, float] | None:
        if self.noises(time, parameters) == 0:
            return None
        decay = parameters.friction * _time(time, parameters)
        spread = (-torch.expm1(-2 * decay) * parameters.temperature * warmth).sqrt()
        return per_row(torch.exp(-decay), like), per_row(spread, like), warmth

    def apply(self, motion: Motion, numbers: tuple[Tensor, Tensor, float] | None) -> None:
        if numbers is None:
            return
        keep, spread, warmth = numbers
        before, mass = motion.momentum, motion.parameters.mass
        motion.momentum = keep * before + spread * mass.colour(motion.noise())
        if warmth != 1.0:
            motion.work = motion.work + (1 - 1 / warmth) * _gain(motion, before)

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0 if time == 0 or all_zero(parameters.friction) else 1


class ImplicitKick(Letter[tuple[Pair, Tensor, Tensor | None, float]]):
    """C."""

    kicks, drifts, merges, outside = True, False, False, False
    noisy, not_reversible = True, None

    def prepare(
        self, time: float, warmth: float, parameters: Parameters, like: Tensor
    ) -> tuple[Pair, Tensor, Tensor | None, float]:
        t = _time(time, parameters)
        c = parameters.friction * t / 2
        spread = None if all_zero(parameters.friction) else (4 * c * parameters.temperature * warmth).sqrt()
        return (t, per_row(t, like)), per_row(c, like), None if spread is None else per_row(spread, like), warmth

    def apply(self, motion: Motion, numbers: tuple[Pair, Tensor, Tensor | None, float]) -> None:
        (t, by_row), c, spread, warmth = numbers
        gradient, before = motion.force(), motion.momentum
        pushed = (1 - c) * before - by_row * gradient
        if spread is not None:
            pushed = pushed + spread * motion.parameters.mass.colour(motion.noise())
        motion.momentum = pushed / (1 + c)
        by_kick = _work(motion, t, gradient, before)
        motion.work = motion.work + by_kick
        if warmth != 1.0:
            motion.work = motion.work + (1 - 1 / warmth) * (_gain(motion, before) - by_kick)

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0 if all_zero(parameters.friction) else 1


class EulerKick(Letter[tuple[Tensor, Tensor, Tensor | None]]):
    """E. Its work is not defined: no word with it can be retraced."""

    kicks, drifts, merges, outside = True, False, False, False
    noisy, not_reversible = True, "its work is not defined: use B or C"

    def prepare(
        self, time: float, warmth: float, parameters: Parameters, like: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        t = _time(time, parameters)
        spread = (2 * parameters.friction * t * parameters.temperature * warmth).sqrt()
        drawn = None if all_zero(spread) else per_row(spread, like)
        return per_row(t, like), per_row(1 - parameters.friction * t, like), drawn

    def apply(self, motion: Motion, numbers: tuple[Tensor, Tensor, Tensor | None]) -> None:
        t, keep, spread = numbers
        momentum = keep * motion.momentum - t * motion.force()
        if spread is not None:
            momentum = momentum + spread * motion.parameters.mass.colour(motion.noise())
        motion.momentum = momentum

    def noises(self, time: float, parameters: Parameters) -> int:
        return 0 if time == 0 or all_zero(parameters.friction * parameters.temperature) else 1


def _work(motion: Motion, time: Tensor, gradient: Tensor, before: Tensor) -> Tensor:
    """The change of K by a kick. Two large kinetic energies are never subtracted."""
    mean_velocity = motion.parameters.mass.velocity(before + motion.momentum) / 2
    if motion.on_kick is not None:
        motion.on_kick(time, motion.position, gradient, mean_velocity)
    return -time * dot(gradient, mean_velocity)


def _gain(motion: Motion, before: Tensor) -> Tensor:
    """The change of K by any move of the momentum."""
    return dot(motion.momentum - before, motion.parameters.mass.velocity(motion.momentum + before)) / 2


Alphabet = Mapping[str, Letter]

LETTERS: dict[str, Letter] = {
    "O": Friction(),
    "B": Kick(),
    "A": Drift(),
    "C": ImplicitKick(),
    "E": EulerKick(),
}
