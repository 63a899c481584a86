"""sample(): draws from a target.

1. Arguments are checked (request.py), and compared with those of other ranks (across_ranks.py).
2. With `out`, the folder is made and locked (lock.py); a store and a first checkpoint are written there.
3. `Chains` (chains.py) makes a `Warmup`, which binds the guide and starts the chains.
4. The trajectories of warm-up (ggmc/warmup), after which the kernel is fixed.
5. Draws: each is one step of the sampler (kernels/words.py), which draws the tape, carries out the moves
   (dynamics/trajectory.py) and applies the test (dynamics/metropolis.py). Blocks of them go to the store, and
   checkpoints to the folder (run.py).
6. The draws are diagnosed (trace/diagnostics.py).
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from torch import Tensor

from ggmc.errors import BadInput
from ggmc.kernels import GGMC, Kernel, to_dict
from ggmc.kernels.base import require_kernel
from ggmc.kernels.serialise import Tensors
from ggmc.plain import Tree
from ggmc.progress import wanted as bars_wanted
from ggmc.sampling.across_ranks import Elsewhere, RunCheckpoints, require_alike
from ggmc.sampling.callbacks import Callback, check_callback
from ggmc.sampling.chains import Chains
from ggmc.sampling.compiling import Choice
from ggmc.sampling.lock import new_folder
from ggmc.sampling.provenance import described
from ggmc.sampling.ranks import Ranks, current
from ggmc.sampling.request import Request
from ggmc.sampling.run import Run, carry_out
from ggmc.sampling.threads import threads_for
from ggmc.targets.base import Target, require_target
from ggmc.trace.merged import MergedStore
from ggmc.trace.run_folder import RunFolder, holds_a_run
from ggmc.trace.store import MemoryStore, Store
from ggmc.trace.trace import Trace
from ggmc.trace.zarr_store import ZarrStore

# Chosen by measuring, with `python -m benchmarks.effective_draws --kernels`: over real posteriors, a momentum kept in
# part from one trajectory to the next gives more effective draws per gradient than one drawn afresh (HMC, MALT).
DEFAULT = GGMC(scheme="O(BAB)O", friction=1.0)


def sample(
    target: Target,
    kernel: Kernel | None = None,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    out: str | Path | RunFolder | None = None,
    progress: bool = True,
    target_accept: float | None = None,
    *,
    start: Tensor | None = None,
    anneal: float | None = None,
    callback: Callback | None = None,
    store: Store | None = None,
    compile: Choice = "auto",
) -> Trace:
    """Draw from the target.

    Findings that should worry you are logged and kept in `trace.warnings`. Ctrl-C ends the trajectory under way and
    returns what was drawn so far; an exception from the target carries it as its `trace` attribute. The same arguments
    give the same draws (of a `ggmc.Posterior`, to the last bit only with its `vectorise` given).

    Args:
        target: What is sampled.
        kernel: How. Without one, or with one whose `step_size` is None, warm-up tunes what is open and then freezes it:
            `trace.kernel` shows what it found.
        draws: Draws kept of each chain.
        warmup: Trajectories of each chain before that, which are not kept.
        chains: Chains, vectorised.
        seed: Of all random numbers.
        out: A folder, or a `ggmc.RunFolder`, to which the run is written as it goes on: its draws, and checkpoints from
            which `ggmc.resume` continues it after a crash. By default draws are kept in memory.
        progress: Whether to show a bar.
        target_accept: The acceptance to tune for: by default 0.8; 0.6 for MALA, 0.65 for minibatches, 0.9 for control
            variates.
        start: The chains' first positions, unconstrained, [chains, d]. `trace.rows()[:, -1]` goes on from another run,
            with other random numbers than that run's.
        anneal: A temperature for the beginning of warm-up, from where it goes to the kernel's own, which it reaches
            half-way: hot starts leave shallow modes.
        callback: Called with a `ggmc.sampling.callbacks.Moment` after every trajectory, as
            `ggmc.tensorboard.Logger` is.
        store: A store of one's own for the draws.
        compile: Whether trajectories are compiled to C, which needs a C compiler on the machine. "auto" does so where
            tensors are small and the run is long enough to gain; where it cannot be done, a notice says why. Compiled
            sums round differently, so that draws differ from those of a plain run, though not their distribution.

    Returns:
        A `ggmc.Trace`.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> trace = ggmc.sample(target, progress=False)
        >>> bool(abs(trace["theta"].mean() + 0.6224) < 0.1)            # the truth is −0.6224
        True
    """
    request = Request.asked(draws, warmup, chains, seed, target_accept, anneal, start, compile=compile)
    return begin(target, kernel, request, out, progress, start=start, callback=callback, store=store)


def begin(
    target: Target,
    kernel: Kernel | None,
    request: Request,
    out: str | Path | RunFolder | None,
    progress: bool,
    *,
    start: Tensor | None = None,
    callback: Callback | None = None,
    store: Store | None = None,
) -> Trace:
    """A new run.

    Args:
        target: As in `sample`, like the others.
        kernel: Likewise.
        request: The arguments of the run.
        out: Likewise.
        progress: Likewise.
        start: Likewise.
        callback: Likewise.
        store: Likewise.
    """
    require_target(target)
    if kernel is not None:
        require_kernel(kernel)
    check_callback(callback)
    if out is not None and store is not None:
        raise BadInput("give out, a folder, or store, a store of your own, but not both")
    if store is not None:
        _require_new_store(store)
    kernel, ranks = DEFAULT if kernel is None else kernel, current()
    require_alike(ranks, target, kernel, request.to_dict() | {"out": out is not None})
    attributes: dict[str, Tree] = {
        "created_at": datetime.now(UTC).isoformat(),
        "seed": request.seed,
        "tuning_steps": request.warmup,
        "dtype": str(target.dtype).removeprefix("torch."),
    }
    folder = None if out is None else out if isinstance(out, RunFolder) else RunFolder(out)
    if folder is not None and folder.thin > request.draws:
        raise BadInput(f"thin={folder.thin} would keep none of {request.draws} draws: thin less, or draw more")
    attributes = attributes if folder is None else dict(folder.attributes) | attributes
    with nullcontext() if folder is None or not ranks.first else new_folder(Path(folder.path)):
        with bars_wanted(progress and ranks.first), ranks.sharing():
            chains = request.make_chains(target, kernel, ranks, start)
        threads = threads_for(chains.warmup.field, chains.state.position)
        if folder is None:
            store = MemoryStore(draws=request.draws) if store is None else store
            run = Run(chains, store, None, attributes, ranks=ranks)
        else:
            run = _run_on_disk(folder, chains, request.to_dict() | {"threads": threads}, attributes, ranks)
        return carry_out(run, request.draws, threads, progress, callback)


def _require_new_store(store: object) -> None:
    """Refuse what is not a store, and one whose draws belong to another trace."""
    if not isinstance(store, Store):
        what = f"the class {store.__name__}: make one" if isinstance(store, type) else repr(store)
        raise BadInput(f"store must be a ggmc.trace.Store for the draws, got {what}")
    if isinstance(store, ZarrStore | MergedStore) or (isinstance(store, MemoryStore) and store.num_draws):
        raise BadInput("the store holds the draws of another run: give each run its own store")


def _run_on_disk(
    folder: RunFolder, chains: Chains, settings: dict[str, Tree], attributes: dict[str, Tree], ranks: Ranks
) -> Run:
    path = Path(folder.path)
    settings |= {"ranks": ranks.number, "split": ranks.split, "checkpoint_every": folder.checkpoint_every}
    tensors: Tensors = {}
    facts = described(chains.target, to_dict(chains.warmup.kernel, tensors), settings, attributes)
    run = Run(chains, Elsewhere(path), RunCheckpoints(path, folder.checkpoint_every, ranks), attributes, ranks=ranks)
    run.checkpoint()  # first of all: a folder that holds a run can be resumed
    if ranks.first:
        run.store = ZarrStore.create(folder, chains.target, facts, tensors)
    ranks.wait()
    if not holds_a_run(path):
        raise BadInput(f"rank {ranks.rank} does not see the folder {path}: give one on a disk that all ranks see")
    return run
