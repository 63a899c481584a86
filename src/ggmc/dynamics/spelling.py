"""Spelling: how a word is read, letter by letter, with each letter's share of the time.

A number after a letter is its share of the time that all letters of its kind have together on its side of the
parentheses: `B0.2ABAB0.2`. Letters without one share equally what is left, so that the shares sum to exactly 1: here
the B in the middle has 0.6, each A ½. A name from `stages.py` stands for its letters.

Example:
    >>> from ggmc.dynamics.letters import LETTERS
    >>> from ggmc.dynamics.spelling import spell
    >>> [f"{symbol.letter} {symbol.share}" for symbol in spell("O(B0.2ABAB0.2)O", LETTERS).body]
    ['B 1/5', 'A 1/2', 'B 3/5', 'A 1/2', 'B 1/5']
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from ggmc.dynamics.letters import Alphabet
from ggmc.dynamics.stages import STAGES
from ggmc.errors import BadInput

_NAMES = "|".join(sorted(STAGES, key=len, reverse=True))
_SYMBOL = re.compile(rf"(?P<name>{_NAMES})|(?P<letter>.)(?P<share>\d*\.\d+)?", re.DOTALL)


class Symbol(NamedTuple):
    """A letter and its share of the time of all of its kind."""

    letter: str
    share: Fraction

    def __str__(self) -> str:
        return f"{self.letter} with the share {float(self.share):.6g}"


class Spelt(NamedTuple):
    """A word before, inside and after its parentheses."""

    head: tuple[Symbol, ...]
    body: tuple[Symbol, ...]
    tail: tuple[Symbol, ...]

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """All of them in turn."""
        return self.head + self.body + self.tail

    @property
    def letters(self) -> str:
        """All letters in turn."""
        return "".join(symbol.letter for symbol in self.symbols)


def spell(word: str, letters: Alphabet) -> Spelt:
    """A word letter by letter. What is no word is refused.

    Args:
        word: Letters, numbers after some of them, names of stages, and at most one pair of parentheses.
        letters: The alphabet.
    """
    head, body, tail = (_read(part, letters, word) for part in parts(word, letters))
    outside = _shared(head + tail, word)
    return Spelt(outside[: len(head)], _shared(body, word), outside[len(head) :])


def parts(word: str, letters: Alphabet) -> tuple[str, str, str]:
    """The word before, inside and after the parentheses, as it is written.

    Args:
        word: The word.
        letters: The alphabet, for the message where it is not one.
    """
    if not isinstance(word, str):
        raise BadInput(f"a scheme must be a word such as 'OBABO', got {word!r}")
    for found in _SYMBOL.finditer(word):
        letter = found["letter"]
        if letter is not None and letter not in letters and letter not in "()":
            raise BadInput(
                f"unknown letter {letter!r} at place {found.start() + 1} of the word {word!r}: words are made of "
                f"{', '.join(letters)}, one pair of parentheses, shares such as B0.2, and the names {', '.join(STAGES)}"
            )
    head, opened, rest = word.partition("(")
    if not opened and head and ")" not in head:
        return "", head, ""
    body, closed, tail = rest.partition(")")
    if not body or not closed or ")" in head or "(" in body or "(" in tail or ")" in tail:
        raise BadInput(f"the word {word!r} must be letters with at most one pair of parentheses around some of them")
    return head, body, tail


def _read(text: str, letters: Alphabet, word: str) -> list[tuple[str, Fraction | None]]:
    found: list[tuple[str, Fraction | None]] = []
    for symbol in _SYMBOL.finditer(text):
        if symbol["name"] is not None:
            found += _read(STAGES[symbol["name"]], letters, word)
            continue
        if symbol["letter"] not in letters:  # a parenthesis or a name's letter that this alphabet does not have
            raise BadInput(f"the letter {symbol['letter']!r} of the word {word!r} must be one of {', '.join(letters)}")
        found.append((symbol["letter"], None if symbol["share"] is None else Fraction(symbol["share"])))
    return found


def _shared(read: Iterable[tuple[str, Fraction | None]], word: str) -> tuple[Symbol, ...]:
    """Every letter with its share: what the numbers leave goes to those without one."""
    read = list(read)
    rests: dict[str, Fraction] = {}
    for letter in dict.fromkeys(letter for letter, _ in read):
        given = [share for other, share in read if other == letter]
        numbers = [share for share in given if share is not None]
        left, without = 1 - sum(numbers, Fraction(0)), len(given) - len(numbers)
        if any(share <= 0 for share in numbers) or (left <= 0 if without else left != 0):
            raise BadInput(
                f"the shares of {letter} in the word {word!r} must be above 0 and sum to 1, got "
                f"{', '.join(f'{float(share):g}' for share in numbers)}: leave the number off one or more of the "
                "letters, which then share what is left"
            )
        rests[letter] = left / without if without else left
    return tuple(Symbol(letter, rests[letter] if share is None else share) for letter, share in read)
