"""Callbacks: what is called after every trajectory of a run. The progress bar is one; a user may add another."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tqdm.auto import tqdm

from ggmc.dynamics.mass import Mass
from ggmc.dynamics.state import Info, State
from ggmc.errors import BadInput
from ggmc.targets.layout import Layout


class Moment(NamedTuple):
    """Where a run stands after a trajectory, as a callback sees it.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3, dtype=torch.float64))
        >>> seen = []
        >>> def callback(moment):
        ...     seen.append((moment.iteration, moment.warming))
        >>> _ = ggmc.sample(target, ggmc.HMC(0.5, 3), draws=2, warmup=1, progress=False, callback=callback)
        >>> seen
        [(1, True), (2, False), (3, False)]
    """

    iteration: int
    """Trajectories so far, warm-up included."""
    warming: bool
    """Whether this trajectory belonged to warm-up."""
    info: Info
    """What it did."""
    state: State
    """Where the chains are now."""
    step_size: float
    """The one it was made with; while that is tuned, the one of the next trajectory."""
    mass: Mass
    """The one now in use."""
    layout: Layout
    """The names and shapes of the tensors in one row."""

    @property
    def acceptance(self) -> float:
        """The trajectory's acceptance rate, in the mean over chains; NaN where it was not computed."""
        return mean_acceptance(self.info)


Callback = Callable[[Moment], None]


def check_callback(callback: object) -> None:
    """Refuse what cannot be called after a trajectory; None is no callback."""
    if isinstance(callback, type) or not (callback is None or callable(callback)):
        what = f"the class {callback.__name__}: make one" if isinstance(callback, type) else repr(callback)
        raise BadInput(f"callback must be a function of one ggmc.sampling.callbacks.Moment, got {what}")


def mean_acceptance(info: Info) -> float:
    """The acceptance rate of one trajectory, in the mean over chains, as the trace reports it.

    Args:
        info: What the trajectory did.

    Returns:
        NaN where it was not computed.
    """
    return info.statistics.get("acceptance_rate", info.acceptance()).mean().item()


class Progress:
    """A tqdm bar that says what the chains are doing.

    Args:
        total: Trajectories in all, warm-up included.
        shown: Whether it is shown.
        done: Trajectories that were carried out before.
    """

    def __init__(self, total: int, shown: bool, done: int = 0):
        self._bar = tqdm(total=total, initial=done, disable=not shown, dynamic_ncols=True, desc="warm-up")
        self._accepted = 0.0
        self._diverging = 0
        self._seen = 0
        self._sampling = False

    def update(self, info: Info, warming: bool, number: int = 1) -> None:
        """Count some trajectories.

        Args:
            info: What they did.
            warming: Whether they belonged to warm-up.
            number: How many they are.
        """
        if self._bar.disable:
            return
        if not warming and not self._sampling:
            self._sampling, self._accepted, self._diverging, self._seen = True, 0.0, 0, 0
            self._bar.set_description("sampling")
        acceptance = mean_acceptance(info)
        if acceptance == acceptance:  # NaN where it was not computed
            self._accepted += number * acceptance
            self._seen += number
        self._diverging += int(info.diverging.sum())
        self._bar.set_postfix_str(
            f"acceptance {self._accepted / max(1, self._seen):.2f}, {self._diverging} divergences", refresh=False
        )
        self._bar.update(number)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
