"""Schemes: words over the letters of `letters.py`, and the plan of moves that a trajectory makes of them.

Parentheses mark the part repeated `steps` times; without them the whole word is. A letter that stands n times in the
repeated part gets t = h/n each time, and one that stands n times outside it gets t = steps·h/n: over a trajectory each
letter acts for the time steps·h, so that γ always means the same loss per unit of time. A number after a letter gives
it another share than 1/n (`spelling.py`), and a name stands for a part with such shares (`stages.py`).

A word that reads the same backwards, shares included, can be retraced if each of its letters can, so that a Metropolis
test can correct it. No other word can.

Example:
    >>> from ggmc.dynamics.scheme import Scheme
    >>> print(Scheme("OBABO").plan(steps=2))
    outside the test O h; tested B h/2, A h, B h/2, O h, B h/2, A h, B h/2
    >>> Scheme("O(ABA)O").plan(steps=10).gradients      # one gradient per step
    10
    >>> Scheme("OBA").not_reversible
    "the word 'OBA' must read the same backwards: letter 1 is O, but letter 1 from the end is A"
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from ggmc.dynamics.letters import LETTERS, Alphabet, Letter
from ggmc.dynamics.schedule import Factors
from ggmc.dynamics.spelling import Spelt, Symbol, parts, spell
from ggmc.errors import BadInput, require_count


class Move(NamedTuple):
    """One letter and the time it acts for, in units of the step size."""

    letter: str
    time: Fraction
    warmth: float = 1.0
    """The temperature of its noise, divided by T."""

    def __str__(self) -> str:
        time = self.time
        if time.denominator > 1000:
            return f"{self.letter} {float(time):.4g}h"
        top = "h" if time.numerator == 1 else f"{time.numerator}h"
        return f"{self.letter} {top}" + (f"/{time.denominator}" if time.denominator > 1 else "")


class Plan(NamedTuple):
    """A trajectory spelt out: neighbouring equal letters are one move."""

    before: tuple[Move, ...]
    """The letters O at the two ends. Each leaves the distribution invariant by itself, so they stand outside the test,
    where a rejection does not undo them. There the last O of one trajectory meets the first O of the next: both are
    carried out before the trajectory, as one where the letter merges."""
    moves: tuple[Move, ...]
    """The part that is tested."""
    gradients: int
    """Gradients of one trajectory: kicks with no drift between them share one. Where a plan both starts and ends with a
    kick and the guide is deterministic, the next trajectory starts with the last one's gradient and needs one fewer."""
    kicks: int

    def __str__(self) -> str:
        outside = f"outside the test {', '.join(map(str, self.before))}; " if self.before else ""
        return outside + "tested " + ", ".join(map(str, self.moves))


@dataclass(frozen=True)
class Scheme:
    """A word whose letters are known.

    Args:
        word: Letters, with at most one pair of parentheses; numbers after letters are their shares of the time, and
            names such as BCSS3 stand for letters with shares.
        letters: The alphabet, by default O, B, A, C, E.

    Example:
        >>> from ggmc.dynamics.scheme import Scheme
        >>> Scheme("O(BAB)O").repeated.word
        'BAB'
    """

    word: str
    letters: Alphabet = field(default_factory=lambda: LETTERS, compare=False, repr=False)
    _plans: dict[tuple[int, Factors | None], Plan] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        word = self.spelt.letters
        kicks = sorted({letter for letter in word if self.letters[letter].kicks})
        if not kicks or not any(self.letters[letter].drifts for letter in word):
            raise BadInput(f"the word {self.word!r} needs both a kick B and a drift A: without them nothing moves")
        if len(kicks) > 1:
            raise BadInput(
                f"the word {self.word!r} has both kicks, {' and '.join(kicks)}, which would count their time twice: "
                "use one"
            )
        inside = {symbol.letter for symbol in self.spelt.body}
        twice = sorted(inside & {symbol.letter for symbol in self.spelt.head + self.spelt.tail})
        if twice:
            raise BadInput(
                f"the word {self.word!r} has {twice[0]} both inside and outside the parentheses, so its time would "
                "count twice: keep each letter on one side"
            )

    @cached_property
    def spelt(self) -> Spelt:
        """Its letters, with their shares of the time."""
        return spell(self.word, self.letters)

    @property
    def not_reversible(self) -> str | None:
        """Why a trajectory cannot be retraced, if it cannot."""
        symbols, letters = self.spelt.symbols, self.spelt.letters
        for place, (front, back) in enumerate(zip(symbols, reversed(symbols), strict=True), start=1):
            if front != back:
                one, other = (front, back) if front.letter == back.letter else (front.letter, back.letter)
                return (
                    f"the word {self.word!r} must read the same backwards: letter {place} is {one}, "
                    f"but letter {place} from the end is {other}"
                )
        for letter in dict.fromkeys(letters):
            reason = self.letters[letter].not_reversible
            if reason is not None:
                return f"the word {self.word!r} has the letter {letter}, which has no way back: {reason}"
        return None

    @cached_property
    def repeated(self) -> Scheme:
        """The part in parentheses as a word of its own, which keeps its plans."""
        return Scheme(parts(self.word, self.letters)[1], self.letters)

    @cached_property
    def unit(self) -> tuple[Move, ...] | None:
        """The moves of one step, if the tested part of a trajectory is nothing but these, step after step."""
        step = self.repeated.plan(1)
        return step.moves if not step.before and self._merged(3 * step.moves) == self.plan(3).moves else None

    @property
    def tempered(self) -> bool:
        """Whether a temperature along the trajectory has an effect: some letter of the repeated part draws noise."""
        return any(self.letters[symbol.letter].noisy for symbol in self.spelt.body)

    @property
    def noisy(self) -> bool:
        """Whether some letter draws noise, and so refreshes the momentum where there is friction."""
        return any(self.letters[letter].noisy for letter in self.spelt.letters)

    @property
    def own_letters(self) -> dict[str, Letter]:
        """The letters of the word that are not the library's."""
        return {x: self.letters[x] for x in self.spelt.letters if self.letters[x] is not LETTERS.get(x)}

    @cached_property
    def gradients_per_step(self) -> int:
        """Gradients that one step more costs: its stages."""
        return max(1, self.plan(2).gradients - self.plan(1).gradients)

    def plan(self, steps: int, factors: Factors | None = None) -> Plan:
        """The trajectory spelt out.

        Args:
            steps: How often the repeated part is carried out.
            factors: By which step sizes and temperatures are multiplied, step by step.
        """
        require_count("steps", steps)
        if (steps, factors) not in self._plans:
            self._plans[steps, factors] = self._plan(steps, factors)
        return self._plans[steps, factors]

    def segments(self, steps: int, factors: Factors | None = None) -> list[tuple[Move, ...]]:
        """The moves before the repeated part, those of each step, and those after it; nothing is merged.

        Args:
            steps: How often the repeated part is carried out.
            factors: By which step sizes and temperatures are multiplied, step by step.
        """
        sizes, warmths = factors or Factors((1.0,) * steps, (1.0,) * steps)
        lengths = [Fraction(size) for size in sizes]
        whole = sum(lengths, Fraction(0))

        def moves(symbols: tuple[Symbol, ...], length: Fraction, warmth: float = 1.0) -> tuple[Move, ...]:
            return tuple(Move(symbol.letter, symbol.share * length, warmth) for symbol in symbols)

        return [
            moves(self.spelt.head, whole),
            *(moves(self.spelt.body, length, warmth) for length, warmth in zip(lengths, warmths, strict=True)),
            moves(self.spelt.tail, whole),
        ]

    def _plan(self, steps: int, factors: Factors | None) -> Plan:
        moves = list(self._merged(move for segment in self.segments(steps, factors) for move in segment))
        before: tuple[Move, ...] = ()
        first, last = moves[0], moves[-1]
        letter, alike = self.letters[first.letter], first.letter == last.letter and len(moves) > 1
        # Of another temperature, it would not leave the distribution of the momentum invariant.
        if letter.outside and alike and first.warmth == last.warmth == 1.0:
            before = (first._replace(time=first.time + last.time),) if letter.merges else (last, first)
            moves = moves[1:-1]
        kicks = sum(self.letters[move.letter].kicks for move in moves)
        return Plan(before, tuple(moves), self._gradients(moves), kicks)

    def _merged(self, separate: Iterable[Move]) -> tuple[Move, ...]:
        """Neighbouring moves as one where their letter merges."""
        moves: list[Move] = []
        for move in separate:
            if moves and self._is_one(moves[-1], move):
                move = move._replace(time=moves.pop().time + move.time)
            moves.append(move)
        return tuple(moves)

    def _is_one(self, a: Move, b: Move) -> bool:
        letter = self.letters[a.letter]
        return a.letter == b.letter and letter.merges and (a.warmth == b.warmth or letter.kicks or letter.drifts)

    def _gradients(self, moves: list[Move]) -> int:
        """Stretches between drifts with a kick in them."""
        count, known = 0, False
        for move in moves:
            letter = self.letters[move.letter]
            if letter.drifts:
                known = False
            elif letter.kicks and not known:
                count, known = count + 1, True
        return count
