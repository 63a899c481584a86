"""save() and load(): traces in a folder; and the check that a stored run's target is the one given."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from ggmc.errors import BadInput
from ggmc.kernels import to_dict
from ggmc.kernels.serialise import known_or_settings
from ggmc.plain import PlainDict, Tree
from ggmc.targets.base import Target, require_target
from ggmc.targets.fingerprint import compared, differences, fingerprint
from ggmc.trace.merged import merge
from ggmc.trace.record import draws_at_once
from ggmc.trace.run_folder import FORMAT, RunFolder, checked_path, holds_a_run, make_folder
from ggmc.trace.store import Block
from ggmc.trace.trace import Trace
from ggmc.trace.zarr_store import ZarrStore


def load(path: str | Path | Sequence[str | Path], target: Target | None = None) -> Trace:
    """The trace of a run on disk, also of one that still goes on: all draws that were complete at this moment.

    Draws are read when they are needed. Nothing in the folder is executed.

    Args:
        path: The folder, from `ggmc.sample(..., out=path)` or `trace.save(path)`; or several, whose chains are merged.
        target: What was sampled, for predictions and whatever else needs it; one that differs is refused.

    Returns:
        A `ggmc.Trace`.

    Example:
        >>> import tempfile, torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=torch.float64))
        >>> trace = ggmc.sample(target, draws=20, warmup=20, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace.save(f"{folder}/run")
        ...     bool((ggmc.load(f"{folder}/run")["theta"] == trace["theta"]).all())
        True
    """
    if isinstance(path, Iterable) and not isinstance(path, str | bytes):
        return _merged([checked_path(one) for one in path], target)
    path = checked_path(path)
    store = ZarrStore.read(path)
    settings = store.settings
    if target is not None:
        check_target(settings, target, path)
    warnings = [*settings["warnings"], *store.remarks]
    kernel = known_or_settings(settings["tuned_kernel"] or settings["kernel"], store.tensors)
    return Trace(store, kernel, target, settings["attributes"], warnings, settings["remarks"])


def _merged(paths: list[Path], target: Target | None) -> Trace:
    traces = [load(path, target) for path in paths]
    prints = [ZarrStore.read(path).settings["fingerprint"] for path in paths]
    for path, other in zip(paths, prints, strict=True):
        found = compared(prints[0], other)
        if found:
            raise BadInput(f"{path} is a run of another target than {paths[0]}: {'; '.join(found)}")
    return merge(traces)


def save(trace: Trace, path: str | Path) -> None:
    """Write a trace to a folder, from which `load` reads it again.

    Args:
        trace: The trace, with its target.
        path: The folder, which must not hold a run.
    """
    folder = RunFolder(path)
    path = Path(path)
    target = trace.needed_target("stored values")
    if holds_a_run(path) or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise BadInput(f"{path} is not an empty folder: give another one, so that nothing in it is written over")
    make_folder(path)
    attributes = json.loads(json.dumps(trace.attributes, default=str))
    tensors: dict[str, Tensor] = {}
    settings: PlainDict = {
        "format": FORMAT,
        "kernel": to_dict(trace.kernel, tensors),
        "tuned_kernel": None,
        "settings": None,
        "fingerprint": fingerprint(target),
        "attributes": attributes,
        "warnings": [],
        "remarks": trace.remarks,
        "drawn": trace.num_draws,
    }
    store = ZarrStore.create(folder, target, settings, tensors)
    for draws in draws_at_once(trace):
        stats = {name: array[:, draws] for name, array in trace.stats.items()}
        store.append(Block(np.asarray(trace.positions[:, draws]), stats))
    store.commit({"warnings": list(trace.warnings)}, {})


def check_predict_at(settings: PlainDict, predict_at: Tree, path: Path) -> None:
    """Refuse to go on with a run that kept something else: predictions where draws were kept, or draws for predictions.

    Args:
        settings: Of the run.
        predict_at: The inputs at which predictions are to be kept; None to keep draws.
        path: The run's folder, for the message.
    """
    if settings["predictions_only"] and predict_at is None:
        raise BadInput(f"{path} keeps predictions only: give its inputs, predict_at, again")
    if predict_at is not None and not settings["predictions_only"]:
        raise BadInput(f"{path} keeps draws, and not predictions only: leave predict_at out")


def check_target(settings: PlainDict, target: Target, path: Path) -> None:
    """Refuse a target other than the one of a run.

    Args:
        settings: Of the run.
        target: The target.
        path: The run's folder, for the message.
    """
    require_target(target)
    found = differences(settings["fingerprint"], target)
    if found:
        raise BadInput(f"this is not the target of the run in {path}: {'; '.join(found)}")
