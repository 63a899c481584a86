"""What a report is asked to tell of: traces in memory and folders on disk, each under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ggmc.errors import BadInput
from ggmc.targets.base import Target
from ggmc.trace.merged import MergedStore
from ggmc.trace.save_load import load
from ggmc.trace.store import Store
from ggmc.trace.trace import Trace
from ggmc.trace.zarr_store import ZarrStore

Source = Trace | str | Path
Sources = Source | Mapping[str, Source] | Sequence[Source]


def opened(traces: Sources, target: Target | None) -> dict[str, Trace]:
    """Traces by name. Those on disk are opened, not read.

    Args:
        traces: As in `ggmc.report.write`.
        target: Given to traces that have none.
    """
    if isinstance(traces, Source):
        return {_name(traces, 0): _opened(traces, target)}
    if not isinstance(traces, Mapping | Sequence) or not traces:
        raise BadInput(f"a report needs a trace, a run's folder, or several of them, got {traces!r}")
    wrong = [one for one in (traces.values() if isinstance(traces, Mapping) else traces) if not isinstance(one, Source)]
    if wrong:
        raise BadInput(f"a report is of traces and of runs' folders, got {wrong[0]!r}")
    if isinstance(traces, Mapping):
        return {str(name): _opened(one, target) for name, one in traces.items()}
    found: dict[str, Trace] = {}
    for number, one in enumerate(traces):
        name = _name(one, number)
        found[name if name not in found else f"{name} ({number + 1})"] = _opened(one, target)
    return found


def folder_of(trace: Trace) -> ZarrStore | None:
    """The store on disk that a trace reads from, if there is one.

    Args:
        trace: The trace.
    """
    return trace.store if isinstance(trace.store, ZarrStore) else None


def folders_of(store: Store) -> list[ZarrStore]:
    """The stores on disk that a trace's store reads from: several where runs were merged.

    Args:
        store: The trace's.
    """
    if isinstance(store, MergedStore):
        return [folder for one in store.stores for folder in folders_of(one)]
    return [store] if isinstance(store, ZarrStore) else []


def _name(source: Source, number: int) -> str:
    if isinstance(source, Trace):
        store = folder_of(source)
        return f"Run {number + 1}" if store is None else store.path.name
    return Path(source).name


def _opened(source: Source, target: Target | None) -> Trace:
    if not isinstance(source, Trace):
        return load(source, target)
    if source.target is not None or target is None:
        return source
    return Trace(source.store, source.kernel, target, source.attributes, list(source.warnings), source.remarks)
