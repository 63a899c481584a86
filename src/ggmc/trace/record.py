"""Record, the base of `Trace`: reads positions and statistics from a store, and computes named values from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ggmc.errors import BadInput, require_count
from ggmc.plain import Tree
from ggmc.targets.base import Target, require_target
from ggmc.trace.store import Store

NUMBERS_AT_ONCE = 2**21  # of all chains together; transforms need several times as much for themselves
COMPUTED = ("positions", "stats", "draws", "_chains_and_draws")  # what can be read or computed again


class Record:
    """The draws of a run: the chains' unconstrained positions, and named values computed from them.

    Args:
        store: The positions and statistics of the run.
        target: What was sampled, or None.
    """

    def __init__(self, store: Store, target: Target | None):
        self.store = store
        self._target = target

    @property
    def target(self) -> Target | None:
        """What was sampled: named values, predictions and likelihoods come from it."""
        return self._target

    @target.setter
    def target(self, target: Target | None) -> None:
        if target is not None:
            require_target(target)
            if self.store.keeps_rows and self.positions.shape[-1] != target.layout.size:
                raise BadInput(
                    f"the draws have {self.positions.shape[-1]} numbers each, which are not those of {target!r}"
                )
        self._target = target
        vars(self).pop("draws", None)  # computed by the target before

    # The record

    @cached_property
    def positions(self) -> Any:
        """The chains' unconstrained positions [chains, draws, d]: the store's own array, not a copy.

        Of draws on disk, only what is asked for is read: `positions[:, -1]`, say.
        """
        return self.store.rows()

    @cached_property
    def stats(self) -> Mapping[str, np.ndarray]:
        """What each trajectory did, under ArviZ's names, [chains, draws, ...]; `lp` is −U."""
        return self.store.stats()

    @property
    def num_chains(self) -> int:
        """How many chains there are."""
        return self._chains_and_draws[0]

    @property
    def num_draws(self) -> int:
        """How many draws each chain has."""
        return self._chains_and_draws[1]

    def rows(self, thin: int = 1) -> Tensor:
        """The chains' positions, bit for bit, on the target's device.

        Args:
            thin: Take every `thin`-th draw of each chain.

        Returns:
            A copy [chains, draws, d]; `rows()[:, -1]` is where the chains ended.
        """
        require_count("thin", thin)
        return self.some_rows(slice(None, None, thin))

    def some_rows(self, draws: slice) -> Tensor:
        """The positions of some draws, as a copy [chains, some draws, d] on the target's device.

        Args:
            draws: Which.
        """
        return torch.tensor(self.positions[:, draws], dtype=self._dtype, device=self._device)

    def stacked_rows(self, thin: int = 1) -> Tensor:
        """The same rows with all chains below one another, [chains · draws, d]; may share memory with the record."""
        require_count("thin", thin)
        rows = np.require(self.positions[:, ::thin], requirements="W")  # torch has no read-only tensors
        return torch.from_numpy(rows).to(self._device, self._dtype).flatten(0, 1)

    # Named values

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """The user's constrained values by name: [chains, draws, *shape]. Computed once."""
        return self.constrained()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.draws:
            raise KeyError(f"the trace has no values named {name!r}: it has {sorted(self.draws)}")
        return self.draws[name]

    def constrained(self, names: Iterable[str] | None = None) -> dict[str, np.ndarray]:
        """Constrained values, computed anew.

        Args:
            names: Which values; by default all. Of a large network, a few take much less memory than all.

        Returns:
            {name: [chains, draws, *shape]}.
        """
        found: dict[str, np.ndarray] = {}
        for draws, values in values_in_groups(self, [names] if isinstance(names, str) else names):
            for name, part in values.items():
                if name not in found:
                    found[name] = np.empty((self.num_chains, self.num_draws, *part.shape[2:]), part.dtype)
                found[name][:, draws] = part
        return found

    @cached_property
    def _chains_and_draws(self) -> tuple[int, ...]:
        known = self.positions if self.store.keeps_rows else next(iter(self.stats.values()))
        return known.shape[:2]

    @property
    def _dtype(self) -> torch.dtype | None:
        return None if self.target is None else self.target.dtype  # a store may keep fewer digits

    @property
    def _device(self) -> torch.device:
        return torch.device("cpu") if self.target is None else self.target.device

    def by_chain(self, rows: Tensor) -> np.ndarray:
        """[chains · draws, ...] as [chains, draws, ...]."""
        return rows.detach().unflatten(0, (self.num_chains, -1)).cpu().numpy()

    def needed_target(self, what: str) -> Target:
        """The target; refuses a trace that has none.

        Args:
            what: What needs it, for the message.
        """
        if self.target is None:
            raise BadInput(f"{what} need the target, which this trace does not have: set trace.target")
        return self.target

    def __getstate__(self) -> dict[str, Tree]:
        """What pickle keeps: not what can be read or computed again."""
        return {name: value for name, value in vars(self).items() if name not in COMPUTED}


def draws_at_once(record: Record) -> Iterator[slice]:
    """The draws in groups of a bounded size.

    Args:
        record: The draws.
    """
    size = record.positions.shape[-1] if record.store.keeps_rows else 1
    group = max(1, NUMBERS_AT_ONCE // max(1, record.num_chains * size))
    for begin in range(0, record.num_draws, group):
        yield slice(begin, min(record.num_draws, begin + group))


def rows_in_groups(record: Record) -> Iterator[tuple[slice, torch.Tensor]]:
    """Positions [chains, some draws, d] on the target's device, group by group.

    Args:
        record: The draws.
    """
    for draws in draws_at_once(record):
        yield draws, record.some_rows(draws)


def values_in_groups(
    record: Record, names: Iterable[str] | None = None
) -> Iterator[tuple[slice, dict[str, np.ndarray]]]:
    """Named values [chains, some draws, *shape], group by group: as the store keeps them, or else from the target.

    Args:
        record: The draws.
        names: Which values; by default all.
    """
    wanted = None if names is None else list(names)
    for draws in draws_at_once(record):
        kept = record.store.values(wanted, draws)
        yield draws, _computed(record, wanted, draws) if kept is None else kept


def _computed(record: Record, wanted: list[str] | None, draws: slice) -> dict[str, np.ndarray]:
    target = record.needed_target("named values")
    with torch.no_grad():
        values = target.constrain(record.some_rows(draws))
    unknown = sorted(set(wanted or ()) - set(values))
    if unknown:
        raise BadInput(f"the trace has no values named {unknown}: it has {sorted(values)}")
    return {name: values[name].detach().cpu().numpy() for name in (values if wanted is None else wanted)}
