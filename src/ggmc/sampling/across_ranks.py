"""The one store and the one series of checkpoints of a run: the first rank, or the only one, writes; all read."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map

from ggmc.errors import BadInput
from ggmc.kernels import Kernel, to_dict
from ggmc.plain import PlainDict
from ggmc.sampling.checkpoint import Checkpoint, Checkpoints
from ggmc.sampling.ranks import Ranks
from ggmc.targets.base import DataTarget, Target
from ggmc.targets.fingerprint import fingerprint
from ggmc.trace.store import Block, Rows, Store
from ggmc.trace.zarr_store import ZarrStore

log = logging.getLogger("ggmc")


class Elsewhere(Store):
    """The store of a rank that leaves it to the first one to keep the draws, in a folder that both see.

    Args:
        path: The run's folder.
    """

    def __init__(self, path: Path):
        self._path = path

    def append(self, block: Block) -> None:
        return

    def rows(self) -> Rows:
        return self._stored().rows()

    def stats(self) -> Mapping[str, np.ndarray]:
        return self._stored().stats()

    def values(self, *arguments: Any, **named: Any) -> dict[str, np.ndarray] | None:
        return self._stored().values(*arguments, **named)

    @property
    def keeps_rows(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._stored().keeps_rows

    def settings(self) -> PlainDict:
        """What the first rank has stored with the draws."""
        return self._stored().settings

    def _stored(self) -> ZarrStore:
        return ZarrStore.read(self._path)


class RunCheckpoints:
    """The checkpoints of a run, of which each rank reads its own part.

    Args:
        path: The run's folder.
        every: Seconds between two of them; 0 for one after every trajectory.
        ranks: The processes that carry out the run.
    """

    def __init__(self, path: Path, every: float, ranks: Ranks):
        self._path, self._files, self._ranks = path, Checkpoints(path, every), ranks

    def due(self) -> bool:
        """Whether it is time for the next one: the first rank's clock says."""
        return self._ranks.first and self._files.due()

    def write(self, state: PlainDict) -> None:
        """Write one; all ranks must call this.

        Args:
            state: This rank's. Ranks that have the same chains have the same state, and it is kept once.
        """
        states = self._ranks.exchange(state, everywhere=False) if self._ranks.by_chains else [state]
        if self._ranks.first:
            self._files.write({"states": states})

    def newest(self) -> list[Checkpoint]:
        """Those that can be read, the newest first, with this rank's state."""
        found = self._files.newest()
        for number, checkpoint in enumerate(found):
            states, wanted = checkpoint.state.get("states"), self._ranks.number if self._ranks.by_chains else 1
            if not isinstance(states, list) or len(states) != wanted or not all(isinstance(s, dict) for s in states):
                raise BadInput(f"a checkpoint of {self._path} does not hold the states of {wanted} ranks")
            found[number] = checkpoint._replace(state=states[self._ranks.rank if self._ranks.by_chains else 0])
        return found


def joined(block: Block, ranks: Ranks, everywhere: bool) -> Block:
    """A block of the chains of all ranks; where all ranks have the same chains, as it is.

    Args:
        block: This rank's.
        ranks: The ranks.
        everywhere: False joins them on the first rank alone, which writes them to the disk.
    """
    if not ranks.by_chains:
        return block
    own = tree_map(torch.from_numpy, {"rows": block.rows, "stats": block.stats})
    parts = ranks.exchange(own, everywhere)
    if not parts:
        return block
    together = tree_map(lambda *parts: torch.cat(parts).numpy(), *parts)
    return Block(together["rows"], together["stats"])


def require_alike(ranks: Ranks, target: Target, kernel: Kernel, arguments: PlainDict) -> None:
    """Refuse to begin where ranks were given different things, and warn where there is nothing to share out.

    Args:
        ranks: The ranks.
        target: Every rank's own copy of the target.
        kernel: The kernel.
        arguments: Other arguments by name, as plain values.
    """
    if not ranks.several:
        return
    ranks.require_same({"target or data": fingerprint(target), "kernel": to_dict(kernel)} | arguments)
    if not ranks.by_chains and not isinstance(target, DataTarget):
        log.warning(
            '%s has no data to share out, so every rank does the whole work: use ggmc.distributed.init(split="chains")',
            target,
        )
