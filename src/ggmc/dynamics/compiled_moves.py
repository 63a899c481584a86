"""Moves compiled: whole stretches of a trajectory, letters, gradient and work together, as one function in C.

A trajectory is cut before each drift. Stretches of the same letters share a program, whose times, masses, batches and
noise are arguments: another step size compiles nothing, and a trajectory of many steps is one or two calls. A program
is compared with the letters themselves before it is relied on, and now and then after that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils._pytree import tree_flatten

from ggmc.dynamics.compiled_stretch import Kind, Observed, Stretch, StretchProgram, form_of_path, shapes_of
from ggmc.dynamics.letters import Alphabet, Motion
from ggmc.dynamics.scheme import Move
from ggmc.guides.base import GradientField

log = logging.getLogger("ggmc")


class CompiledMoves:
    """Carries out the moves of trajectories by programs, each made at the first stretch of its kind.

    Args:
        gradient_field: The gradient field.
        letters: The alphabet.
    """

    def __init__(self, gradient_field: GradientField, letters: Alphabet):
        self.field = gradient_field
        self._letters = letters
        self._programs: dict[object, StretchProgram] = {}
        self.gave_up = False
        """Whether something cannot be compiled, as a notice has said."""

    def run(self, path: Motion, moves: Sequence[Move]) -> None:
        """Carry out moves of a trajectory: by the letters themselves, where there is no program for them.

        Args:
            path: The trajectory under way.
            moves: Its next moves.
        """
        for stretch in self._stretches(path, moves):
            program = self._program(path, stretch)
            if program is None or program.carry_out(path, stretch) is None:
                for number in range(stretch.times):
                    own = stretch.kind.numbers([tensor[number] for tensor in stretch.tensors])
                    for letter, numbers in zip(stretch.kind.letters, own, strict=True):
                        self._letters[letter].apply(path, numbers)

    def repeat(self, path: Motion, moves: Sequence[Move], times: int) -> bool:
        """Carry out the same moves several times; whether that could be done.

        Args:
            path: The trajectory under way.
            moves: The moves.
            times: How often.
        """
        found = self.program_of(path, moves, times)
        return found is not None and found[0].carry_out(path, found[1]) is not None

    def observe(self, path: Motion, moves: Sequence[Move], times: int) -> Observed | None:
        """As `repeat`, and what the path was after each time; None if that could not be done.

        Args:
            path: The trajectory under way.
            moves: The moves.
            times: How often.
        """
        found = self.program_of(path, moves, times)
        return None if found is None else found[0].carry_out(path, found[1], observed=True)

    def program_of(self, path: Motion, moves: Sequence[Move], times: int = 1) -> tuple[StretchProgram, Stretch] | None:
        """The program for some moves, and their numbers; None if there is none.

        Args:
            path: Where they begin.
            moves: With one gradient at most.
            times: How often they are carried out.
        """
        stretch = self._repeated(path, moves, times)
        program = None if stretch is None else self._program(path, stretch)
        return None if program is None or stretch is None else (program, stretch)

    def _repeated(self, path: Motion, moves: Sequence[Move], times: int) -> Stretch | None:
        """The moves as one stretch; None where they take more than one gradient each time."""
        if self._gradients(path, moves) > 1:
            return None
        prepared, key = path.parameters.prepared, ("repeated", id(moves), times, path.position.dtype)
        if key not in prepared:
            kind, tensors = self._prepared(moves, path)
            prepared[key] = moves, Stretch(kind, times, [torch.stack([tensor] * times) for tensor in tensors])
        return prepared[key][1]  # pyright: ignore[reportIndexIssue]

    def _gradients(self, path: Motion, moves: Sequence[Move]) -> int:
        """How many gradients the moves take."""
        number, known = 0, path.gradient is not None
        for move in moves:
            letter = self._letters[move.letter]
            number += letter.kicks and not known
            known = (known or letter.kicks) and not letter.drifts
        return number

    def _program(self, path: Motion, stretch: Stretch) -> StretchProgram | None:
        """The program for a stretch; None, with a notice, where there can be none."""
        known = self._known(path, stretch)
        found = stretch.programs.get((self, known, path.position.shape))  # quick: the rest is that of the parameters
        if found is not None or self.gave_up:
            return found
        key = stretch.kind, known, *form_of_path(path)
        if key not in self._programs:
            try:
                self._programs[key] = StretchProgram(self.field, self._letters, path, stretch, known)
            except LinAlgError:  # the position's fault: at the next one it may do
                return None
            except Exception as reason:  # whatever cannot be compiled is carried out as it is
                log.warning("trajectories are not compiled, which is slower: %s", reason)
                self.gave_up = True
                return None
        return stretch.programs.setdefault((self, known, path.position.shape), self._programs[key])

    def _known(self, path: Motion, stretch: Stretch) -> tuple[bool, bool]:
        """Whether the stretch uses a gradient, and keeps a potential, from before it."""
        drifts = self._letters[stretch.kind.letters[0]].drifts
        return not drifts and path.gradient is not None, not drifts and path.potential is not None

    def _stretches(self, path: Motion, moves: Sequence[Move]) -> list[Stretch]:
        """The moves cut before each drift; those of one kind that follow one another are one stretch."""
        prepared, key = path.parameters.prepared, ("stretches", id(moves), path.position.dtype)
        if key not in prepared:
            cuts: list[list[Move]] = [[]]
            for move in moves:
                if self._letters[move.letter].drifts and cuts[-1]:
                    cuts.append([])
                cuts[-1].append(move)
            pieces = [self._prepared(cut, path) for cut in cuts if cut]
            together = [Stretch.of(kind, list(same)) for kind, same in groupby(pieces, lambda piece: piece[0])]
            prepared[key] = moves, together  # the moves are kept, so that their id stays theirs
        return prepared[key][1]  # pyright: ignore[reportIndexIssue]

    def _prepared(self, moves: Sequence[Move], path: Motion) -> tuple[Kind, list[Tensor]]:
        numbers = [
            self._letters[move.letter].prepare(float(move.time), move.warmth, path.parameters, path.position)
            for move in moves
        ]
        leaves, nested = tree_flatten(numbers)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        others = tuple(None if isinstance(leaf, Tensor) else (leaf,) for leaf in leaves)
        return Kind(tuple(move.letter for move in moves), nested, others, shapes_of(tensors)), tensors
