"""Trajectories: a plan carried out, whole or in segments.

A trajectory is a pure function of the state, the parameters, the tape and the noise. Between segments its state and the
work so far can be read, so that paths can be observed, and tested more than once along the way, by the same loop.

Example:
    >>> import torch, ggmc
    >>> from ggmc.dynamics.mass import Identity
    >>> from ggmc.dynamics.scheme import Scheme
    >>> from ggmc.dynamics.state import Parameters, State
    >>> from ggmc.dynamics.trajectory import Trajectory
    >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=torch.float64))
    >>> state = State(torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64))
    >>> parameters = Parameters.of(0.1, 0.0, 1.0, Identity())
    >>> path = Trajectory(state, parameters, ggmc.Exact().bind(target), None, noise=lambda: torch.zeros(1, 1))
    >>> step = Scheme("BAB").plan(1).moves
    >>> for _ in range(3):
    ...     path.run(step)
    ...     print(f"{path.state.position.item():.4f} {path.work.item():.4f}")
    0.9950 0.0050
    0.9800 0.0197
    0.9553 0.0436
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ggmc.dynamics.compiled_moves import CompiledMoves
from ggmc.dynamics.letters import LETTERS, Alphabet, Motion, OnKick
from ggmc.dynamics.scheme import Move, Plan
from ggmc.dynamics.state import Parameters, State, join, normals
from ggmc.guides.base import GradientField


class Trajectory(Motion):
    """One trajectory of every chain.

    Args:
        state: Where it starts.
        parameters: The numbers of the motion.
        field: The gradient field.
        tape: One entry for each gradient, [entries, chains, ...]; None for a field without an order.
        noise: Draws standard normal noise in the shape of the momentum.
        letters: The alphabet.
        on_kick: Called at each kick, to compare.
        compiled: Carries out the moves, where it can.
    """

    def __init__(
        self,
        state: State,
        parameters: Parameters,
        field: GradientField,
        tape: Tensor | None,
        noise: Callable[[], Tensor],
        letters: Alphabet = LETTERS,
        on_kick: OnKick | None = None,
        compiled: CompiledMoves | None = None,
    ):
        super().__init__(state, parameters, field, tape, noise, on_kick)
        self._start, self._letters = state, letters
        self._compiled = compiled if on_kick is None else None

    def run(self, moves: Sequence[Move], unit: Sequence[Move] | None = None, times: int = 1) -> None:
        """Carry out some more moves.

        Args:
            moves: The moves.
            unit: Moves that give the same if they are repeated, if there are any: what is compiled is the shorter.
            times: How often.
        """
        if self._compiled is not None and not self._compiled.gave_up:
            if unit is None or not self._compiled.repeat(self, unit, times):
                self._compiled.run(self, moves)
            return
        prepared, dtype = self.parameters.prepared, self.position.dtype
        for name, time, warmth in moves:
            letter = self._letters[name]
            key = (letter, time.numerator, time.denominator, warmth, dtype)  # to hash a Fraction itself is slow
            if key not in prepared:
                prepared[key] = letter.prepare(float(time), warmth, self.parameters, self.position)
            letter.apply(self, prepared[key])

    @property
    def state(self) -> State:
        """Where it is now. The potential is known only where the guide gave it for free since the last drift."""
        start = self._start
        return State(
            self.position,
            self.momentum,
            self.potential,
            self.gradient,
            start.untested_work,
            start.trajectories,
            self.extra,
        )

    def end(self) -> State:
        """The state at its end, counted as one trajectory more."""
        state = self.state._replace(trajectories=self._start.trajectories + 1)
        if not self._field.deterministic:
            state = state._replace(gradient=None)  # the next trajectory reads a tape of its own
        return state


def run_either_way(
    plans: tuple[Plan, Plan],
    state: State,
    parameters: Parameters,
    field: GradientField,
    tape: Tensor | None,
    letters: Alphabet,
    generator: torch.Generator,
) -> tuple[State, Tensor]:
    """A trajectory whose schedule each chain follows forwards or backwards, each with probability one half.

    The choice does not depend on the state, and the way back has the same probability, one half: that makes any
    schedule exact. Every chain chooses for itself; one choice for all would leave each exact but correlate them.

    Args:
        plans: The two plans.
        state: Where the chains start.
        parameters: The numbers of the motion.
        field: The gradient field.
        tape: Entries for all chains, or None.
        letters: The alphabet.
        generator: Of the choice and the noise.

    Returns:
        The end state, and the work [chains] float64.
    """
    backwards = torch.rand(len(state.position), generator=generator, device=generator.device) < 0.5
    rows: list[Tensor] = []
    ends: list[State] = []
    works: list[Tensor] = []
    for plan, chosen in zip(plans, (~backwards, backwards), strict=True):
        here = chosen.nonzero().flatten()
        if len(here):
            part = state.map(lambda tensor, here=here: tensor[here])
            own_tape = None if tape is None else tape[:, here]
            noise = normals(part.position, generator)
            path = Trajectory(part, parameters.of_chains(here), field, own_tape, noise, letters)
            path.run(plan.moves)
            rows.append(here)
            ends.append(path.end())
            works.append(path.work)
    back = torch.cat(rows).argsort()
    return join(ends, back), torch.cat(works)[back]
