"""sample(): chains, warm-up, progress, and what happens when something stops them."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

import torch
from torch import Tensor

from ggmc.dynamics.state import Info
from ggmc.errors import BadInput, require_count
from ggmc.kernels import GGMC, Kernel
from ggmc.progress import wanted as bars_wanted
from ggmc.sampling.callbacks import Callback, Progress
from ggmc.sampling.chains import Chains
from ggmc.sampling.threads import threads_for, use_threads
from ggmc.targets.base import Target
from ggmc.trace import diagnostics
from ggmc.trace.store import MemoryStore, Store
from ggmc.trace.trace import Trace

log = logging.getLogger("ggmc")

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
    progress: bool = True,
    target_accept: float | None = None,
    *,
    start: Tensor | None = None,
    anneal: float | None = None,
    callback: Callback | None = None,
    store: Store | None = None,
) -> Trace:
    """Draw from the target.

    Findings that should worry you are logged and kept in `trace.warnings`. Ctrl-C returns what was drawn so far; an
    exception from the target carries it as its `trace` attribute. The same arguments give the same draws (of a
    `ggmc.Posterior`, to the last bit only with its `vectorise` given).

    Args:
        target: What is sampled.
        kernel: How. Without one, or with one whose `step_size` is None, warm-up tunes what is open and then freezes it:
            `trace.kernel` shows what it found.
        draws: Draws kept of each chain.
        warmup: Trajectories of each chain before that, which are not kept.
        chains: Chains, vectorised.
        seed: Of all random numbers.
        progress: Whether to show a bar.
        target_accept: The acceptance to tune for: by default 0.8; 0.6 for MALA, 0.65 for minibatches, 0.9 for control
            variates.
        start: The chains' first positions, unconstrained, [chains, d]. `trace.rows()[:, -1]` goes on from another run,
            with other random numbers than that run's.
        anneal: A temperature for the beginning of warm-up, from where it goes to the kernel's own, which it reaches
            half-way: hot starts leave shallow modes.
        callback: Called with a `ggmc.sampling.callbacks.Moment` after every trajectory, as
            `ggmc.tensorboard.Logger` is.
        store: Where the draws go; by default memory.

    Returns:
        A `ggmc.Trace`.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> trace = ggmc.sample(target, progress=False)
        >>> bool(abs(trace["theta"].mean() + 0.6224) < 0.1)            # the truth is −0.6224
        True
    """
    if not isinstance(target, Target):
        raise BadInput(f"target must be a target such as ggmc.Density(log_prob, start), got {target!r}")
    if kernel is not None and not isinstance(kernel, Kernel):
        raise BadInput(f"kernel must be a kernel such as ggmc.HMC(), got {kernel!r}")
    require_count("draws", draws)
    require_count("warmup", warmup, least=0)
    require_count("chains", chains)
    if target_accept is not None and not 0 < target_accept < 1:
        raise BadInput(f"target_accept must lie between 0 and 1, got {target_accept!r}")
    kernel = DEFAULT if kernel is None else kernel
    store = MemoryStore() if store is None else store
    begun = time.perf_counter()
    with bars_wanted(progress):
        own_seed = seed if start is None else _seed_from(seed, _checked(start, chains))
        run = Chains(target, kernel, chains, warmup, own_seed, target_accept, start, anneal)

    def trace_so_far() -> Trace:
        attributes = {
            "created_at": datetime.now(UTC).isoformat(),
            "sampling_time": time.perf_counter() - begun,
            "seed": seed,
            "tuning_steps": warmup,
            "dtype": str(target.dtype).removeprefix("torch."),
        } | run.warmup.learnt.notes
        return Trace(store, run.kernel, target, attributes)

    number = threads_for(run.warmup.field, run.state.position)
    with bars_wanted(False), use_threads(number), Progress(warmup + draws, progress) as bar:

        def after_each(info: Info, warming: bool) -> None:
            bar.update(info, warming)
            if callback is not None:
                callback(run.moment(info, warming))

        kept = 0
        try:
            for block in run.blocks(draws, after_each):
                store.append(block)
                kept += block.rows.shape[1]
        except KeyboardInterrupt:
            if not kept:
                raise
            log.warning("Interrupted: returning the %d draws per chain made so far, of %d.", kept, draws)
        except Exception as error:
            _tell_what_was_kept(error, run.drawn, kept, trace_so_far)
            raise
    trace = trace_so_far()
    wanted = run.warmup.wanted if run.warmup.tuning else None
    try:
        with bars_wanted(progress):
            trace.warnings = diagnostics.check(trace, wanted, run.remarks())
    except (Exception, KeyboardInterrupt) as error:  # a failed diagnosis must not lose the draws
        trace.warnings = [f"The draws could not be diagnosed: {error!r}. Look at trace.summary()."]
    for message in trace.warnings:
        log.warning("%s", message)
    return trace


def _tell_what_was_kept(error: Exception, drawn: int, kept: int, trace: Callable[[], Trace]) -> None:
    """Give an exception the draws made before it, and say so if the store did not keep them all."""
    if kept:
        setattr(error, "trace", trace())  # noqa: B010
        error.add_note(f"The {kept} draws per chain made before this are in the exception's `trace`.")
    if kept < drawn:
        error.add_note(f"The store did not keep the last {drawn - kept} of {drawn} draws per chain: they are lost.")


def _checked(start: object, chains: int) -> Tensor:
    if not isinstance(start, Tensor) or start.dim() != 2 or len(start) != chains:
        shape = list(start.shape) if isinstance(start, Tensor) else type(start).__name__
        raise BadInput(f"start must be a tensor [chains, d] with {chains} rows, one for each chain, got {shape}")
    return start


def _seed_from(seed: int, start: Tensor) -> int:
    """A run from given positions has random numbers of its own: with those of the run before it would repeat it."""
    content = start.detach().to("cpu", torch.float64).contiguous().numpy().tobytes()
    digest = hashlib.sha256(str(seed).encode() + content).digest()
    return int.from_bytes(digest[:8], "little") >> 1
