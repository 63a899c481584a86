"""Draws on disk: a folder of zarr arrays laid out as ArviZ's groups.

    posterior/<name>                 the user's values, [chain, draw, *shape]
    unconstrained_posterior/<name>   the rows of those names whose values are transformed
    sample_stats/<name>              what each trajectory did
    predictions/prediction           in place of the first two, where only predictions are kept
    zarr.json                        settings, and the shapes of all arrays
    ggmc-tensors.safetensors         tensors of the settings that are too large for text, such as a mass

Draws are first written to the arrays; then the root's `zarr.json` is replaced in one step. Its copy of the arrays'
shapes (zarr's consolidated metadata) is what readers go by, so that they see whole draws only, also while a run goes on
and after a crash. Every chunk carries a checksum.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save

from ggmc.errors import BadInput
from ggmc.plain import PlainDict, PlainMapping, Tree
from ggmc.targets.base import PredictiveTarget, Target
from ggmc.targets.layout import Layout
from ggmc.trace.atomic_files import remove_partial_files, sync_since, write_atomically
from ggmc.trace.lazy_arrays import StoredRows, StoredStats, read_draws
from ggmc.trace.run_folder import TENSORS, RunFolder, read_root, read_tensors
from ggmc.trace.store import ALL, Block, Store, check_same_kind
from ggmc.trace.stored_settings import check_name
from ggmc.trace.zarr_arrays import array_as_in_root, new_array, remove_chunks_beyond, root_metadata

if TYPE_CHECKING:
    import zarr

BUFFER = 8 * 2**20  # bytes of draws that wait in memory to be written together

MARGIN = 10**9  # nanoseconds: the clock that stamps files is a coarse one

NOTHING_NEW: PlainMapping = MappingProxyType({})
VALUES, ROWS, STATS, PREDICTIONS = "posterior", "unconstrained_posterior", "sample_stats", "predictions"


class ZarrStore(Store):
    """The draws of a run in a folder.

    Made by `create` or `reopen`, it is written to; made by `read`, it is only read.

    Args:
        path: The folder.
        settings: What is known of the run, as plain values for JSON.
        layout: The names and shapes of one row.
    """

    def __init__(self, path: Path, settings: PlainDict, layout: Layout):
        self.path, self.settings, self._layout = path, settings, layout
        self.seen = 0
        """Draws per chain that were given to the store, kept or thinned out."""
        self.remarks: list[str] = []
        """What a reader of the draws should know: that some of them are damaged."""
        self.num_draws = 0
        """Draws per chain that are on disk, whole."""
        self._waiting: list[Block] = []
        self._first: Block | None = None
        self._arrays: dict[str, zarr.Array[Any]] = {}
        self._nodes: dict[str, PlainDict] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        self.keeps_rows = not settings["predictions_only"]
        self._target: Target | None = None
        self._predict_at: Tree = None
        self._synced = time.time_ns()

    # Made by

    @classmethod
    def create(
        cls, folder: RunFolder, target: Target, settings: PlainDict, tensors: Mapping[str, torch.Tensor]
    ) -> ZarrStore:
        """A new store, ready to be written to.

        Args:
            folder: Where and how.
            target: Gives names, and the user's values of a row.
            settings: What is known of the run.
            tensors: Large tensors that the settings name by their checksum.
        """
        names, transformed = dict(target.layout.shapes), sorted(set(target.layout.shapes) - target.untransformed)
        for name in names:
            check_name(name)
        if folder.predict_at is not None:
            if not isinstance(target, PredictiveTarget):
                raise BadInput(f"predict_at needs a target such as ggmc.Posterior, got {target!r}")
            target.prediction_features(target.start[None], folder.predict_at)  # refused now, not after the first draws
        store = cls(
            Path(folder.path),
            settings
            | {
                "layout": {name: list(shape) for name, shape in names.items()},
                "transformed": transformed,
                "precision": folder.precision,
                "thin": folder.thin,
                "predictions_only": folder.predict_at is not None,
            },
            target.layout,
        )
        store._target, store._predict_at = target, folder.predict_at
        store.path.mkdir(parents=True, exist_ok=True)
        store.commit({}, tensors)
        return store

    @classmethod
    def reopen(cls, path: Path, target: Target, seen: int, predict_at: Tree = None) -> ZarrStore:
        """An existing store, to be written to after so many draws; what was written beyond them is dropped.

        Args:
            path: The folder.
            target: The run's target.
            seen: Draws per chain to keep, before thinning.
            predict_at: The inputs at which predictions are kept, where only those are.
        """
        store = cls.read(path)
        shapes = {name: list(shape) for name, shape in target.layout.shapes.items()}
        if store.settings["layout"] != shapes:
            raise BadInput(f"{path} holds draws of {store.settings['layout']}, but the target has {shapes}")
        number = seen // store.settings["thin"]
        if store.num_draws < number:
            raise BadInput(
                f"{path} holds {store.num_draws} whole draws, but its checkpoint was written after {number}: some of "
                "its files are missing or damaged. ggmc.load reads what is left"
            )
        remove_partial_files(path)
        store._target, store._predict_at = target, predict_at
        store.seen, store.num_draws = seen, number
        for name, node in store._nodes.items():
            array = store._arrays[name] = array_as_in_root(path, name, node, number)
            read_draws(array, slice(max(0, number - 1), number))  # the chunk that goes on must be whole
        store._write()  # before anything is removed, so that readers never see draws that are gone
        for name, array in store._arrays.items():
            remove_chunks_beyond(path, name, array)
        return store

    @classmethod
    def read(cls, path: str | Path) -> ZarrStore:
        """An existing store, to be read: the draws that were complete when it was opened.

        Args:
            path: The folder.
        """
        path = Path(path)
        root = read_root(path)
        settings = root.settings
        store = cls(path, settings, Layout({name: tuple(shape) for name, shape in settings["layout"].items()}))
        store._arrays, store._nodes, store.num_draws, store.remarks = root.arrays, root.nodes, root.draws, root.remarks
        store._tensors = read_tensors(path, settings)
        store.seen = store.num_draws * settings["thin"]
        return store

    # Written

    def append(self, block: Block) -> None:
        thin: int = self.settings["thin"]
        if self._first is not None:
            check_same_kind(self._first, block)
        self._first = Block(block.rows[:, :0], {name: array[:, :0] for name, array in block.stats.items()})
        kept = slice(thin - 1 - self.seen % thin, None, thin)
        self.seen += block.rows.shape[1]
        self._waiting.append(Block(block.rows[:, kept], {name: array[:, kept] for name, array in block.stats.items()}))
        if sum(waiting.rows.nbytes for waiting in self._waiting) > BUFFER:
            self._write()

    def commit(self, settings: PlainMapping, tensors: Mapping[str, torch.Tensor]) -> None:
        if not set(tensors) <= set(self._tensors):
            self._tensors |= tensors
            write_atomically(self.path / TENSORS, save(self._tensors))
        self._write(settings)
        moment = time.time_ns()
        sync_since(self.path, self._synced)
        self._synced = moment - MARGIN

    def _write(self, settings: PlainMapping = NOTHING_NEW) -> None:
        """Write what waits in memory, and let readers see it. One that failed half-way can be tried again."""
        self.settings |= settings
        number = self.num_draws
        waiting = [block for block in self._waiting if block.rows.shape[1]]
        if waiting:
            rows = np.concatenate([block.rows for block in waiting], 1)
            stats = {name: np.concatenate([block.stats[name] for block in waiting], 1) for name in waiting[0].stats}
            for group, arrays in ((STATS, stats), *self._named(rows)):
                for name, array in arrays.items():
                    self._extend(group, name, array)
            number += rows.shape[1]
        write_atomically(self.path / "zarr.json", root_metadata(self.path, self._arrays, self.settings))
        self.num_draws, self._waiting = number, []

    def _named(self, rows: np.ndarray) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        """What is kept of some rows, by group and name."""
        target = self._target
        assert target is not None
        tensor = torch.from_numpy(rows).to(target.device)
        chains = len(rows)
        with torch.no_grad():
            if self._predict_at is not None:
                assert isinstance(target, PredictiveTarget)
                found = target.prediction_features(tensor.flatten(0, 1), self._predict_at)
                yield PREDICTIONS, {"prediction": found.unflatten(0, (chains, -1)).cpu().numpy()}
                return
            values = {name: value.cpu().numpy() for name, value in target.constrain(tensor).items()}
        yield VALUES, {name: self._rounded(value) for name, value in values.items()}
        free = {name: view.cpu().numpy() for name, view in target.layout.views(tensor).items()}
        yield ROWS, {name: self._rounded(free[name]) for name in self.settings["transformed"]}

    def _rounded(self, values: np.ndarray) -> np.ndarray:
        precision: str | None = self.settings["precision"]
        if precision is None or not np.issubdtype(values.dtype, np.floating):
            return values
        if precision == "bfloat16":
            return torch.from_numpy(np.ascontiguousarray(values)).bfloat16().float().numpy()
        return values.astype(precision)

    def _extend(self, group: str, name: str, new: np.ndarray) -> None:
        path = f"{group}/{name}"
        if path not in self._arrays:
            self._arrays[path] = new_array(self.path, path, new)
        array = self._arrays[path]
        before = self.num_draws  # not the array's length: a write that failed may have extended it already
        array.resize((array.shape[0], before + new.shape[1], *array.shape[2:]))
        array[:, before:] = new

    # Read

    def rows(self) -> StoredRows:
        if self.settings["predictions_only"]:
            raise BadInput(f"{self.path} keeps predictions only (predict_at), not the draws that made them")
        self._need_draws()
        transformed = self.settings["transformed"]
        parts = [self._arrays[f"{ROWS if name in transformed else VALUES}/{name}"] for name in self._layout.shapes]
        return StoredRows(parts, self.num_draws)

    def stats(self) -> StoredStats:
        self._need_draws()
        return StoredStats(self._group(STATS), self.num_draws)

    def values(self, names: Iterable[str] | None = None, draws: slice = ALL) -> dict[str, np.ndarray] | None:
        self._need_draws()
        group = PREDICTIONS if self.settings["predictions_only"] else VALUES
        stored = self._group(group)
        wanted = list(stored) if names is None else list(names)
        unknown = sorted(set(wanted) - set(stored))
        if unknown:
            raise BadInput(f"the trace has no values named {unknown}: it has {sorted(stored)}")
        some = slice(*draws.indices(self.num_draws))
        return {name: read_draws(stored[name], some) for name in wanted}

    @property
    def tensors(self) -> Mapping[str, torch.Tensor]:
        """The large tensors that settings name by their checksum."""
        return self._tensors

    def _group(self, group: str) -> PlainDict:
        return {path.split("/")[1]: a for path, a in self._arrays.items() if path.split("/")[0] == group}

    def _need_draws(self) -> None:
        if self._waiting:
            self._write()
        if not self.num_draws:
            raise BadInput(f"the store {self.path} is empty: no draws were made")
