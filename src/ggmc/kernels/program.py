"""Program: all that a splitting kernel states, its word, friction, letters, own variables and own statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from ggmc.dynamics.length import Steps
from ggmc.dynamics.letters import LETTERS, Alphabet
from ggmc.dynamics.schedule import Along, Over
from ggmc.dynamics.state import State


@dataclass(frozen=True)
class Program:
    """What a kernel that is a word states about itself.

    Args:
        word: The scheme.
        friction: γ.
        steps: The length of a trajectory; None leaves it to warm-up or to the guide.
        fresh_momentum: Whether the momentum is drawn anew before every trajectory.
        letters: The alphabet.
        monitor_every: Without a test, log α is reported for so many trajectories together.
        along: The schedule along a trajectory.
        over: The schedule over the run.
        explain: The share of kicks at which the guide is compared with the exact gradient.
        not_testable: Why no Metropolis test applies, beyond what the word tells; None if one does.
        variables: The kernel's own variables: name and first value, as a function of the positions [chains, d].
        statistics: The kernel's own statistics of a state by name, [chains, ...] each, stored in the trace.

    Example:
        >>> from ggmc.kernels import Program
        >>> Program("O(BAB)O", friction=1.0, steps=10).word
        'O(BAB)O'
    """

    word: str
    friction: float
    steps: Steps | None = None
    fresh_momentum: bool = False
    letters: Alphabet = field(default_factory=lambda: LETTERS, repr=False)
    monitor_every: int = 1
    along: Along | None = None
    over: Over | None = None
    explain: float = 0.0
    not_testable: str | None = None
    variables: Mapping[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)
    statistics: Callable[[State], Mapping[str, Tensor]] | None = None
