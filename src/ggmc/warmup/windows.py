"""The windows of a warm-up, each 1.5 times as long as the one before, and what is gathered in one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import torch
from torch import Tensor

from ggmc.dynamics.state import Info, State
from ggmc.errors import BadInput
from ggmc.plain import PlainDict
from ggmc.warmup.length import Paths
from ggmc.warmup.mass import Kind, Moments, PastStates
from ggmc.warmup.stuck_chains import ChainMoments

GROWTH = 1.5  # of each window over the one before
ENOUGH = 20  # trajectories that tell, if none of any chain is accepted, that none ever will be


def windows(iterations: int) -> list[int]:
    """Where each window ends; what follows the last end is the closing phase.

    Args:
        iterations: Trajectories of warm-up.

    Example:
        >>> from ggmc.warmup.windows import windows
        >>> windows(1000)
        [30, 75, 143, 245, 398, 628, 900]
    """
    closing = max(round(0.1 * iterations), min(50, iterations // 2))
    length = max(20, round(0.03 * iterations))
    ends = [min(length, iterations - closing)]
    while ends[-1] + 2 * GROWTH * length <= iterations - closing:
        length = round(GROWTH * length)
        ends.append(ends[-1] + length)
    if iterations - closing - ends[-1] >= 20:
        ends.append(iterations - closing)
    return ends


@dataclass
class Window:
    """What is gathered in one window.

    Args:
        temperature: T at its beginning; where warm-up is annealed, the highest of the window.
        moments: Of all positions, for the mass; None where the mass is not learnt.
        by_chain: Of each chain, to find those that are stuck; None where that is not looked for.
        settled: Which chains count for the mass, [chains] bool; None for all.
        paths: For the trajectory's length.
        accepted: Trajectories that were accepted, of all chains.
        states: Some of the positions, for a mass of low rank; None where it is not learnt.
    """

    temperature: float
    moments: Moments | None = None
    by_chain: ChainMoments | None = None
    settled: Tensor | None = None
    paths: Paths = field(default_factory=Paths)
    accepted: int = 0
    states: PastStates | None = None

    @classmethod
    def opened(
        cls,
        state: State,
        temperature: float,
        mass: Kind | None,
        chains: bool,
        settled: Tensor | None = None,
        states: bool = False,
    ) -> Window:
        """A window in which nothing has been seen yet.

        Args:
            state: Where the chains are.
            temperature: T.
            mass: The kind of mass to be learnt, or None.
            chains: Whether stuck chains are looked for.
            settled: Which chains count for the mass; None for all.
            states: Whether some positions are kept.
        """
        moments = None if mass is None else Moments.none(state.position, mass)
        by_chain = ChainMoments.none(state.position) if chains and len(state.position) > 1 else None
        return cls(
            temperature,
            moments,
            by_chain,
            settled,
            states=PastStates(state.position[:0]) if states and chains else None,
        )

    def add(self, state: State, previous: Tensor, info: Info) -> None:
        """One draw of every chain, the positions [chains, d] it came from, and what its trajectory did."""
        self.accepted += int(info.accepted.sum())
        counted = slice(None) if self.settled is None else self.settled
        if self.moments is not None:
            self.moments.add(state.position[counted], previous[counted])
        if self.states is not None:
            self.states.add(state.position[counted])
        if self.by_chain is not None and state.potential is not None:
            self.by_chain.add(state.position, state.potential)

    def state_dict(self) -> PlainDict:
        """All of it as plain tensors and numbers."""
        return {
            "temperature": self.temperature,
            "moments": None if self.moments is None else asdict(self.moments),
            "by_chain": None if self.by_chain is None else asdict(self.by_chain),
            "settled": self.settled,
            "paths": list(self.paths.kept),
            "accepted": self.accepted,
            "states": None if self.states is None else asdict(self.states),
        }

    @classmethod
    def restored(cls, stored: PlainDict, device: torch.device) -> Window:
        """A window from its `state_dict`, in memory of its own."""
        moments, by_chain, settled = stored["moments"], stored["by_chain"], stored["settled"]
        states = stored.get("states")
        return cls(
            stored["temperature"],
            None if moments is None else Moments(**moments).copy(device),
            None if by_chain is None else ChainMoments(**by_chain).copy(device),
            None if settled is None else settled.to(device),
            Paths((positions.to(device), acceptances.to(device)) for positions, acceptances in stored["paths"]),
            stored["accepted"],
            None
            if states is None
            else PastStates(states["rows"].to(device, copy=True), states["every"], states["seen"]),
        )


def refuse_if_nothing_moves(window: Window, ends: list[int], iteration: int, step_size: float) -> None:
    """End a warm-up in which a whole window went by without one accepted trajectory.

    Args:
        window: The window, closed.
        ends: Where each window ends.
        iteration: Trajectories of warm-up so far.
        step_size: The one that was tried last.
    """
    number = iteration - max((end for end in ends if end < iteration), default=0)
    if window.accepted or number < ENOUGH:
        return
    raise BadInput(
        f"not one of the last {number} trajectories of warm-up was accepted, in any chain, down to a step size of "
        f"{step_size:.1g}: next to where the chains are the density is NaN or zero, or its gradient is wrong. Check "
        "the log density there, or start elsewhere"
    )
