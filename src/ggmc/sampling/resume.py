"""resume(): a run on disk goes on as if nothing had happened.

1. The store is read, and the target compared with the fingerprint stored there (trace/save_load.py).
2. The folder is locked (lock.py), so that one process writes at a time.
3. The newest checkpoint whose draws are all there is chosen (checkpoint.py), and chains are made from it (request.py).
4. The store is opened for writing, and drops what was drawn after that checkpoint (trace/zarr_store.py).
5. The run is carried out like a new one (run.py).
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from ggmc.errors import BadInput, require_count, require_not_negative
from ggmc.kernels import Kernel, from_dict, to_dict
from ggmc.kernels.base import require_kernel
from ggmc.plain import PlainDict, Tree
from ggmc.sampling.across_ranks import Elsewhere, RunCheckpoints
from ggmc.sampling.callbacks import Callback, check_callback
from ggmc.sampling.chains import Chains
from ggmc.sampling.checkpoint import usable
from ggmc.sampling.lock import locked
from ggmc.sampling.ranks import Ranks, current
from ggmc.sampling.request import Request
from ggmc.sampling.run import Run, carry_out
from ggmc.targets.base import Target, require_target
from ggmc.trace.run_folder import RunFolder, checked_path
from ggmc.trace.save_load import check_predict_at, check_target
from ggmc.trace.trace import Trace
from ggmc.trace.zarr_store import ZarrStore

MOST_THREADS = 4096  # more would end the process


def resume(
    path: str | Path,
    target: Target,
    draws: int | None = None,
    *,
    kernel: Kernel | None = None,
    predict_at: Tree = None,
    progress: bool = True,
    callback: Callback | None = None,
) -> Trace:
    """Continue a run made with `ggmc.sample(..., out=path)`, bit for bit as it would have gone on.

    It goes on from the run's last checkpoint; what was drawn after that is drawn again, with the same numbers. A run
    that is finished is extended. Bit for bit holds on the same machine, with the same versions; the number of threads
    is stored and used again.

    Args:
        path: The run's folder.
        target: What was sampled; a target or data that differ are refused, with what differs.
        draws: Draws of each chain in all; by default as many as the run was to make.
        kernel: The kernel, where it, or a part of it, is of one's own: such a class is known by its name only.
        predict_at: The inputs given to `ggmc.RunFolder`, where the run keeps predictions only.
        progress: Whether to show a bar.
        callback: As in `ggmc.sample`.

    Returns:
        The whole trace, from its first draw.

    Example:
        >>> import tempfile, torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=torch.float64))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace = ggmc.sample(target, draws=50, warmup=50, out=f"{folder}/run", progress=False)
        ...     longer = ggmc.resume(f"{folder}/run", target, draws=80, progress=False)
        ...     longer.num_draws, bool((longer["theta"][:, :50] == trace["theta"][:, :50]).all())
        (80, True)
    """
    path = checked_path(path)
    if draws is not None:
        require_count("draws", draws)
    require_target(target)
    if kernel is not None:
        require_kernel(kernel)
    check_callback(callback)
    stored = ZarrStore.read(path)
    check_target(stored.settings, target, path)
    request = stored.settings["settings"]
    if request is None:
        raise BadInput(f"{path} holds a saved trace, not a run that could go on: ggmc.load reads it")
    if "training_loop" in request:
        raise BadInput(f"{path} is a training loop of {request['training_loop']}: run its own program again")
    _check_request(path, request)
    own = _kernel(stored, kernel)
    check_predict_at(stored.settings, predict_at, path)
    ranks = current()
    with locked(path) if ranks.first else nullcontext():
        stored = ZarrStore.read(path)  # once more: until now another process may have written to it
        remarks = [*stored.settings["remarks"], *_other_ranks(request, ranks)]
        checkpoints = RunCheckpoints(path, request["checkpoint_every"], ranks)
        chosen = usable(checkpoints.newest(), stored)
        chains = _chains(Request.stored(request), target, own, ranks, chosen.state, path)
        ranks.wait()  # all have read what the first is about to change
        store = ZarrStore.reopen(path, target, chains.drawn, predict_at) if ranks.first else Elsewhere(path)
        run = Run(chains, store, checkpoints, stored.settings["attributes"], chosen.state["seconds"], ranks)
        wanted = request["draws"] if draws is None else draws
        return carry_out(run, wanted, request["threads"], progress, callback, [*remarks, *chosen.remarks])


def _check_request(path: Path, request: PlainDict) -> None:
    """Refuse arguments of a run that none could have had: they may come from anywhere."""
    try:
        Request.stored(request)
        RunFolder(path, checkpoint_every=request["checkpoint_every"])
        for name, most in (("threads", MOST_THREADS), ("ranks", None)):
            require_count(name, request[name])
            if most is not None and request[name] > most:
                raise BadInput(f"{name} must be at most {most}, got {request[name]}")
        Ranks(split=request["split"])
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{path} does not say how its run was made: {error}") from error


def _chains(request: Request, target: Target, kernel: Kernel, ranks: Ranks, state: PlainDict, path: Path) -> Chains:
    try:
        require_not_negative("seconds", state["seconds"])
        chains = request.make_chains(target, kernel, ranks, stored=state["chains"])
        if chains.drawn != state["drawn"]:
            raise BadInput(f"its chains have {chains.drawn} draws, and it was written after {state['drawn']}")
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        what = error if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise BadInput(f"the checkpoint of {path} is not one of this run: {what}") from error
    return chains


def _other_ranks(request: dict[str, Tree], ranks: Ranks) -> list[str]:
    """What a reader should know where another number of ranks goes on; refuses what cannot be shared out anew."""
    began, goes_on = Ranks.described(request["ranks"], request["split"]), Ranks.described(ranks.number, ranks.split)
    if began == goes_on:
        return []
    if ranks.by_chains or Ranks.has_own_chains(request["ranks"], request["split"]):
        raise BadInput(f"the run was begun with {began}, and must go on with the same, got {goes_on}")
    return [
        f"The run was begun with {began} and continued with {goes_on}: sums over the data are rounded differently, so "
        "the draws are not bit for bit those of a run that was not interrupted."
    ]


def _kernel(stored: ZarrStore, given: Kernel | None) -> Kernel:
    plain = stored.settings["kernel"]
    if given is None:
        try:
            return from_dict(plain, stored.tensors)
        except BadInput as error:
            raise BadInput(f"{error}. Give a kernel of your own to ggmc.resume as kernel=...") from error
    own = to_dict(given)
    for name in sorted({*plain, *own}):
        if plain.get(name) != own.get(name):
            raise BadInput(
                f"the kernel differs from that of the run: its {name} was {plain.get(name)!r}, is {own.get(name)!r}"
            )
    return given
