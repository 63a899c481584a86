"""Those who watch a run while it goes on: the progress bar, and whoever the user appoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tqdm.auto import tqdm

from ggmc.dynamics.mass import Mass
from ggmc.dynamics.metropolis import Info
from ggmc.dynamics.scheme import State
from ggmc.targets.layout import Layout

if TYPE_CHECKING:
    from ggmc.sampling.sample import Chains


class Moment(NamedTuple):
    """Where a run stands after a trajectory, for those who watch it."""

    iteration: int  # trajectories so far, warm-up included
    warming: bool
    info: Info
    state: State
    step_size: float
    mass: Mass
    layout: Layout


class Progress:
    """A tqdm bar that says what the chains are doing."""

    def __init__(self, run: Chains, draws: int, shown: bool):
        self._run = run
        self._bar = tqdm(total=run.warmup.iterations + draws, disable=not shown, dynamic_ncols=True, desc="warm-up")
        self._accepted = 0.0
        self._diverging = 0
        self._seen = 0
        self._sampling = False

    def update(self, info: Info) -> None:
        if self._bar.disable:
            return
        if self._run.drawn and not self._sampling:
            self._sampling, self._accepted, self._diverging, self._seen = True, 0.0, 0, 0
            self._bar.set_description("sampling")
        acceptance = info.log_accept.clamp_max(0.0).exp().mean().item()
        if acceptance == acceptance:  # not known while nobody looks
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
