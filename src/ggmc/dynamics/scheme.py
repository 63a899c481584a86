"""Schemes: words over the letters O, B, A (and C), and the trajectory each one spells.

For a time t, with momentum m, position θ, mass M, friction γ, temperature T and guide g:

    O   m ← e^(−γt) m + √((1 − e^(−2γt)) T) · M^½ ε,   ε ~ N(0, I)       friction and noise
    B   m ← m − t · g(θ; ζ)                                              a kick
    A   θ ← θ + t · M⁻¹ m                                                a drift
    C   m ← [(1 − c) m − t · g(θ; ζ) + √(4cT) · M^½ ε] / (1 + c),   c = γt/2    kick and friction at once

Parentheses mark the part repeated `steps` times; without them the whole word is. A letter that stands n times in the
repeated part gets t = h/n each time, and one that stands n times outside it gets t = steps·h/n: over a trajectory each
letter acts for the time steps·h, so that γ always means the same loss per unit of time.

The Metropolis test must know the work W: the change of the kinetic energy K(m) = ½ mᵀM⁻¹m by all kicks together,

    W = Σ ΔK,   ΔK = −(t/2) · g · M⁻¹(m_before + m_after)   for each kick.

The same for C, whose Gaussian densities there and back differ by just that and the change of K. O is reversible with
respect to exp(−K/T), and A leaves K alone. A word that reads the same backwards can retrace its steps; no other word is
accepted. Noise of another temperature Tₖ on the way is no longer reversible with respect to exp(−K/T), but knows its
own ratio: the heat Q = ΔK − W of such a move adds (1 − T/Tₖ) Q to the work.

Example:
    >>> from ggmc.dynamics.scheme import Scheme
    >>> print(Scheme("OBABO").plan(steps=2))
    outside the test O h; tested B h/2, A h, B h/2, O h, B h/2, A h, B h/2
    >>> Scheme("O(ABA)O").plan(steps=10).gradients      # one gradient per step
    10
    >>> Scheme("OBA")
    Traceback (most recent call last):
    ...
    ggmc.errors.NotExact: the word 'OBA' must read the same backwards: letter 1 is O, but letter 1 from the end is A
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ggmc.dynamics.mass import Mass
from ggmc.dynamics.schedule import Factors
from ggmc.errors import BadInput, NotExact, require_count
from ggmc.guides import Field


class Move(NamedTuple):
    """One letter and the time it acts for, in units of the step size."""

    letter: str
    time: Fraction
    warmth: float = 1.0  # of its noise: Tₖ/T

    def __str__(self) -> str:
        time = self.time.limit_denominator(10_000)
        top = "h" if time.numerator == 1 else f"{time.numerator}h"
        return f"{self.letter} {top}" + (f"/{time.denominator}" if time.denominator > 1 else "")


class Plan(NamedTuple):
    """A trajectory spelt out: neighbouring equal letters are one move."""

    outer: Fraction
    """Time of the O's at the two ends. Each leaves the law invariant by itself, so they stand outside the test, where
    a rejection does not undo them. There the last O of one trajectory meets the first O of the next: they are carried
    out as one, before the trajectory."""
    moves: tuple[Move, ...]
    gradients: int
    """Gradients of one trajectory: kicks with no drift between them share one. Where a plan both starts and ends with a
    kick and the guide is deterministic, the next trajectory starts with the last one's gradient and needs one fewer."""

    @property
    def kicks(self) -> int:
        return sum(move.letter in "BC" for move in self.moves)

    def __str__(self) -> str:
        outside = f"outside the test {Move('O', self.outer)}; " if self.outer else ""
        return outside + "tested " + ", ".join(map(str, self.moves))


@dataclass(frozen=True)
class Scheme:
    """A checked word."""

    word: str

    def __post_init__(self) -> None:
        head, body, tail = _split(self.word)
        letters = head + body + tail
        for place, (front, back) in enumerate(zip(letters, reversed(letters), strict=True), start=1):
            if front != back:
                raise NotExact(
                    f"the word {self.word!r} must read the same backwards: letter {place} is {front}, "
                    f"but letter {place} from the end is {back}"
                )
        if "A" not in letters or not {"B", "C"} & set(letters):
            raise BadInput(f"the word {self.word!r} needs both a kick B and a drift A: without them nothing moves")
        if {"B", "C"} <= set(letters):
            raise BadInput(
                f"the word {self.word!r} has both kicks, B and C, which would count their time twice: use one"
            )
        twice = sorted(set(head + tail) & set(body))
        if twice:
            raise BadInput(
                f"the word {self.word!r} has {twice[0]} both inside and outside the parentheses, so its time would "
                "count twice: keep each letter on one side"
            )

    @property
    def repeated(self) -> Scheme:
        """The part in parentheses as a word of its own."""
        return Scheme(_split(self.word)[1])

    def plan(self, steps: int, factors: Factors | None = None) -> Plan:
        """The trajectory of `steps` steps, of step sizes and temperatures multiplied by `factors`."""
        require_count("steps", steps)
        return _plan(self.word, steps, factors)


def _split(word: str) -> tuple[str, str, str]:
    """A word's parts before, inside and after the parentheses."""
    for place, letter in enumerate(word, start=1):
        if letter not in "OBAC()":
            raise BadInput(
                f"unknown letter {letter!r} at place {place} of the word {word!r}: words are made of O, B or C, A and "
                "one pair of parentheses"
            )
    parts = re.fullmatch(r"([OBAC]*)\(([OBAC]+)\)([OBAC]*)", word)
    if parts:
        return parts[1], parts[2], parts[3]
    if not re.fullmatch(r"[OBAC]+", word):
        raise BadInput(f"the word {word!r} must be letters with at most one pair of parentheses around some of them")
    return "", word, ""


@lru_cache(maxsize=256)
def _plan(word: str, steps: int, factors: Factors | None) -> Plan:
    head, body, tail = _split(word)
    sizes, warmths = factors or Factors((1.0,) * steps, (1.0,) * steps)
    lengths = [Fraction(size) for size in sizes]
    inside = [
        Move(letter, length / body.count(letter), warmth)
        for length, warmth in zip(lengths, warmths, strict=True)
        for letter in body
    ]
    front, back = ([Move(x, sum(lengths) / Fraction((head + tail).count(x))) for x in part] for part in (head, tail))
    moves: list[Move] = []
    for move in [*front, *inside, *back]:
        if moves and moves[-1].letter == move.letter != "C" and (move.letter != "O" or moves[-1].warmth == move.warmth):
            move = move._replace(time=moves.pop().time + move.time)
        moves.append(move)
    outer = Fraction(0)
    if moves[0].letter == "O":
        outer = moves[0].time + moves[-1].time
        moves = moves[1:-1]
    between_drifts = "".join(move.letter for move in moves).split("A")
    return Plan(outer, tuple(moves), gradients=sum("B" in part or "C" in part for part in between_drifts))


class State(NamedTuple):
    """All chains at one moment, one row each."""

    position: Tensor  # θ [chains, d]
    momentum: Tensor  # m [chains, d]
    potential: Tensor | None  # U [chains] float64 at the last test, None while not known
    gradient: Tensor | None  # g(θ) [chains, d] for the next kick, None while not known
    owed: Tensor | None = None  # work since the last test, [chains] float64, where some trajectories are not tested
    trajectories: int = 0  # carried out so far


class Dynamics(NamedTuple):
    """The constants of the motion."""

    step_size: float  # h
    friction: float  # γ
    temperature: float  # T
    mass: Mass  # M

    def scaled(self, step: float, warmth: float) -> Dynamics:
        """The same with another step size and temperature, by these factors."""
        return self._replace(step_size=self.step_size * step, temperature=self.temperature * warmth)

    def decay(self, time: Fraction) -> float:
        """γt for a time in units of the step size."""
        return self.friction * float(time) * self.step_size if time else 0.0  # friction may be infinite


Look = Callable[[float, Tensor, Tensor, Tensor], None]
"""Called at each kick with its time, θ, g and the mean velocity: to compare, not to change anything."""


def run(
    plan: Plan,
    state: State,
    dynamics: Dynamics,
    field: Field,
    tape: Sequence[Any],
    noise: Iterator[Tensor],
    look: Look | None = None,
) -> tuple[State, Tensor]:
    """Carry out a plan's tested part: the end state and the work W of its kicks, [chains] float64.

    A pure function of the state, the tape and the noise. The tape is read only where no gradient is at hand: a state
    that brings one, as a deterministic guide leaves it, saves the first entry. The end has its potential only where
    the guide is exact and the last move was a kick.
    """
    position, momentum, potential, gradient = state[:4]
    mass, temperature = dynamics.mass, dynamics.temperature
    entries = iter(tape)
    work = torch.zeros(len(position), dtype=torch.float64, device=position.device)
    for letter, time, warmth in plan.moves:
        t = float(time) * dynamics.step_size
        before, by_kick = momentum, 0.0
        if letter == "A":
            position = position + t * mass.velocity(momentum)
            potential, gradient = None, None
            continue
        if letter == "O":
            warmer = dynamics._replace(temperature=temperature * warmth)
            momentum = refresh(momentum, dynamics.decay(time), warmer, noise)
        else:
            if gradient is None:
                gradient, potential = field(position, next(entries))
            if letter == "B":
                momentum = momentum - t * gradient
            else:
                c = dynamics.decay(time) / 2
                heat = math.sqrt(4 * c * temperature * warmth) * mass.colour(next(noise)) if c else 0.0
                momentum = ((1 - c) * momentum - t * gradient + heat) / (1 + c)
            mean_velocity = mass.velocity(before + momentum) / 2
            by_kick = -t * _dot(gradient, mean_velocity)
            work = work + by_kick
            if look is not None:
                look(t, position, gradient, mean_velocity)
        if warmth != 1.0 and letter != "B":
            change = _dot(momentum - before, mass.velocity(momentum + before)) / 2
            work = work + (1 - 1 / warmth) * (change - by_kick)
    if not field.deterministic:
        gradient = None  # the next trajectory reads a tape of its own
    return State(position, momentum, potential, gradient, state.owed, state.trajectories + 1), work


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, dtype=torch.float64)


def refresh(momentum: Tensor, decay: float, dynamics: Dynamics, noise: Iterator[Tensor]) -> Tensor:
    """The letter O, with `decay` = γt. No friction draws no noise; γt = ∞ is a momentum drawn afresh."""
    if decay == 0:
        return momentum
    scale = math.sqrt(-math.expm1(-2 * decay) * dynamics.temperature)
    return math.exp(-decay) * momentum + scale * dynamics.mass.colour(next(noise))


def normals(like: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Standard normal noise in the shape of `like`, for as long as it is asked for."""
    while True:
        yield torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
