"""Callbacks: what is called after every trajectory of a run. The progress bar is one; a user may add another."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tqdm.auto import tqdm

from ggmc.dynamics.mass import Mass
from ggmc.dynamics.state import Info, State
from ggmc.targets.layout import Layout


class Moment(NamedTuple):
    """Where a run stands after a trajectory."""

    iteration: int
    """Trajectories so far, warm-up included."""
    warming: bool
    """Whether it belongs to warm-up."""
    info: Info
    state: State
    step_size: float
    mass: Mass
    layout: Layout


Callback = Callable[[Moment], None]


class Progress:
    """A tqdm bar that says what the chains are doing.

    Args:
        total: Trajectories in all, warm-up included.
        shown: Whether it is shown.
    """

    def __init__(self, total: int, shown: bool):
        self._bar = tqdm(total=total, disable=not shown, dynamic_ncols=True, desc="warm-up")
        self._accepted = 0.0
        self._diverging = 0
        self._seen = 0
        self._sampling = False

    def update(self, info: Info, warming: bool) -> None:
        """Count one trajectory."""
        if self._bar.disable:
            return
        if not warming and not self._sampling:
            self._sampling, self._accepted, self._diverging, self._seen = True, 0.0, 0, 0
            self._bar.set_description("sampling")
        acceptance = info.acceptance().mean().item()
        if acceptance == acceptance:  # NaN where it was not computed
            self._accepted += acceptance
            self._seen += 1
        self._diverging += int(info.diverging.sum())
        self._bar.set_postfix_str(
            f"acceptance {self._accepted / max(1, self._seen):.2f}, {self._diverging} divergences", refresh=False
        )
        self._bar.update()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
