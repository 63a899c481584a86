"""A run under way: the chains, the store that keeps their draws, and checkpoints to go on from.

Draws reach the store in blocks. A checkpoint is written between trajectories, when all draws are in the store, so that
the two agree: a run that is resumed drops what was written after its checkpoint and makes it again, bit for bit.

Where several ranks carry out a run, all of them go through the same lines (`across_ranks.py`).
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from ggmc.dynamics.state import Info
from ggmc.kernels import to_dict
from ggmc.kernels.serialise import Tensors
from ggmc.plain import PlainDict, Tree
from ggmc.progress import wanted as bars_wanted
from ggmc.sampling.across_ranks import Elsewhere, RunCheckpoints, joined
from ggmc.sampling.callbacks import Callback, Progress
from ggmc.sampling.chains import Chains, as_block, info_of
from ggmc.sampling.compiled_draws import Draws
from ggmc.sampling.interrupts import Interrupts
from ggmc.sampling.ranks import ALONE, Ranks
from ggmc.sampling.threads import use_threads
from ggmc.trace import diagnostics
from ggmc.trace.store import Store
from ggmc.trace.trace import Trace

BLOCK = 50  # draws handed to the store at a time ...
SHORT = 0.02  # seconds that the draws of one call may take
LARGEST_BLOCK = 4 * 2**20  # ... or fewer, if they have so many bytes

log = logging.getLogger("ggmc")

AfterEach = Callable[[Info, bool, int], None]
"""Called after some trajectories with their info, whether they belonged to warm-up, and how many they are. The info of
draws has a first dimension of as many."""


class AtOnce:
    """How many draws are made by one call: as many as take so little time that a signal need not wait.

    Args:
        most: At the most.
    """

    def __init__(self, most: int):
        self.number, self._most = 1, most

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Around the call."""
        begun = time.perf_counter()
        yield
        quick = time.perf_counter() - begun < SHORT
        self.number = min(2 * self.number, self._most) if quick else max(1, self.number // 2)


class Run:
    """Carries the chains on, and keeps what they make.

    Args:
        chains: The chains.
        store: Where the draws go.
        checkpoints: Where to go on from after a crash; None where nothing is kept on disk.
        attributes: What is stored with the draws.
        seconds: What the run took before it was resumed.
        ranks: The processes that carry it out together.
    """

    def __init__(
        self,
        chains: Chains,
        store: Store,
        checkpoints: RunCheckpoints | None = None,
        attributes: dict[str, Tree] | None = None,
        seconds: float = 0.0,
        ranks: Ranks = ALONE,
    ):
        self.chains, self.store, self.checkpoints, self.ranks = chains, store, checkpoints, ranks
        self._attributes = attributes or {"created_at": datetime.now(UTC).isoformat()}
        self._begun, self._seconds = time.perf_counter(), seconds
        self._waiting: list[Draws] = []
        self.kept = chains.drawn
        """Draws per chain that the store has."""
        self.stopped_by: signal.Signals | None = None
        """The signal that ended it."""

    def go(self, draws: int, after_each: AfterEach, interrupts: Interrupts, one_by_one: bool = False) -> bool:
        """Go on until there are `draws` draws, or until a signal asks to stop.

        Whatever ends it, the draws made so far are in the store.

        Args:
            draws: In all.
            after_each: Called after every trajectory, or after several.
            interrupts: Notes signals.
            one_by_one: Whether it is called after each of them.

        Returns:
            Whether all draws were made.
        """
        chains, at_once = self.chains, AtOnce(1 if one_by_one else BLOCK)
        try:
            while chains.drawn < draws and self.stopped_by is None:
                warming = chains.warming
                with self.ranks.sharing(), at_once.timed():
                    info, number = self._go_on(min(at_once.number, draws - chains.drawn))
                after_each(info, warming, number)
                with interrupts.held():
                    checkpoint_is_due = self._agreed(interrupts)
                    if self._block_is_full():
                        self._keep()
                    if checkpoint_is_due:
                        self.checkpoint()
                if not self.ranks.several:  # else what has come since is agreed on after the next trajectory
                    self.stopped_by = interrupts.asked
        except BaseException as error:
            with interrupts.held():
                self._keep_what_there_is(error)
            raise
        with interrupts.held():
            self._keep()
            if self.checkpoints is not None:
                self.checkpoint()
        return chains.drawn >= draws

    def _go_on(self, most: int) -> tuple[Info, int]:
        """One trajectory, or several draws where they are compiled: what they did, and how many they are."""
        chains, warming = self.chains, self.chains.warming
        if chains.several_at_once:
            self._waiting.append(chains.several(most))
            return info_of(self._waiting[-1], slice(None)), most
        info = chains.advance()
        if not warming:
            self._waiting.append(chains.draw(info))
        return info, 1

    def checkpoint(self) -> None:
        """Write all draws, then a checkpoint that agrees with them."""
        assert self.checkpoints is not None
        self._keep()
        self.store.commit(*self._settings())
        self.checkpoints.write(
            {"chains": self.chains.state_dict(), "drawn": self.chains.drawn, "seconds": self.seconds}
        )

    def _agreed(self, interrupts: Interrupts) -> bool:
        """Whether a checkpoint is due. Ranks stop together, and write one when the first one's clock says so."""
        due = self.checkpoints is not None and self.checkpoints.due()
        asked, due = self.ranks.agree(self.chains.state.position, interrupts.asked or 0, due)
        self.stopped_by = signal.Signals(asked) if asked else None
        return bool(due)

    @property
    def seconds(self) -> float:
        """What the run has taken so far."""
        return self._seconds + time.perf_counter() - self._begun

    def trace(self) -> Trace:
        """The draws so far."""
        if isinstance(self.store, Elsewhere):
            settings = self.store.settings()
            attributes, warnings, remarks = (settings[name] for name in ("attributes", "warnings", "remarks"))
            return Trace(self.store, self.chains.kernel, self.chains.target, attributes, warnings, remarks)
        return Trace(self.store, self.chains.kernel, self.chains.target, self._all_attributes())

    def finish(self, trace: Trace) -> None:
        """Store what a reader should know with the draws.

        Args:
            trace: With its warnings.
        """
        settings, tensors = self._settings()
        self.store.commit(settings | {"warnings": list(trace.warnings), "remarks": trace.remarks}, tensors)

    def _settings(self) -> tuple[PlainDict, Tensors]:
        tensors: Tensors = {}
        own, tuned = (to_dict(kernel, tensors) for kernel in (self.chains.warmup.kernel, self.chains.kernel))
        settings = {"kernel": own, "tuned_kernel": tuned, "drawn": self.chains.drawn}
        return settings | {"attributes": self._all_attributes()}, tensors

    def note(self, **attributes: Tree) -> None:
        """Store something more with the draws."""
        self._attributes = self._attributes | attributes

    def _all_attributes(self) -> dict[str, Tree]:
        return self._attributes | {"sampling_time": self.seconds} | self.chains.warmup.learnt.notes

    def _block_is_full(self) -> bool:
        number = sum(len(draws.position) for draws in self._waiting)
        return number >= BLOCK or sum(draws.position.nbytes for draws in self._waiting) >= LARGEST_BLOCK

    def _keep_what_there_is(self, error: BaseException) -> None:
        """After a failure, which may be the store's own: the rest is kept if it can be."""
        try:
            if not self.ranks.by_chains:  # else the others may be gone, and blocks need the chains of all
                self._keep()
                self.store.commit({}, {})
        except Exception as other:
            error.add_note(f"Nor could the draws that were waiting be stored: {other!r}.")

    def _keep(self) -> None:
        if self._waiting:
            self.store.append(joined(as_block(self._waiting), self.ranks, everywhere=self.checkpoints is None))
            self.kept += sum(len(draws.position) for draws in self._waiting)
            self._waiting = []


def carry_out(
    run: Run, draws: int, threads: int, progress: bool, callback: Callback | None, remarks: Sequence[str] = ()
) -> Trace:
    """A run to its end, with a progress bar and a diagnosis, or to where it is stopped.

    Args:
        run: The run.
        draws: In all.
        threads: How many threads torch uses.
        progress: Whether to show a bar.
        callback: Called with a `Moment` after every trajectory; None for nothing.
        remarks: Sentences on how the draws were made, beside those of the sampler.

    Returns:
        The trace, its warnings filled in.
    """
    chains, ranks = run.chains, run.ranks
    progress = progress and ranks.first
    total, done = chains.warmup.iterations + draws, chains.warmup.iteration + chains.drawn
    with Interrupts(run.checkpoints is not None, patient=ranks.several) as interrupts:
        with bars_wanted(False), use_threads(threads), Progress(total, progress, done) as bar:

            def after_each(info: Info, warming: bool, number: int) -> None:
                bar.update(info, warming, number)
                if callback is not None and ranks.first:
                    callback(chains.moment(info if info.work.dim() == 1 else info.of_one(0), warming))

            try:
                complete = run.go(draws, after_each, interrupts, one_by_one=callback is not None)
            except KeyboardInterrupt:
                if not run.kept:
                    raise
                complete = False
            except (Exception, SystemExit) as error:
                _tell_what_was_kept(error, run)
                raise
        with interrupts.held():
            if run.stopped_by == signal.SIGTERM:
                log.warning("Terminated after %d draws per chain of %d: ggmc.resume goes on.", run.kept, draws)
                raise SystemExit(128 + signal.SIGTERM)
            if not complete and not run.kept:
                raise KeyboardInterrupt
            if not complete:
                log.warning("Interrupted: returning the %d draws per chain made so far, of %d.", run.kept, draws)
            all_remarks = dict.fromkeys([*remarks, *ranks.remarks(chains.remarks())])  # each once
            with bars_wanted(progress):
                trace = _diagnosed(run, list(all_remarks), interrupts)
            if interrupts.asked == signal.SIGTERM:  # it came too late to stop a trajectory
                log.warning("Terminated after all is written: ggmc.load reads it.")
                raise SystemExit(128 + signal.SIGTERM)
    for message in trace.warnings:
        log.warning("%s", message)
    return trace


def _diagnosed(run: Run, remarks: list[str], interrupts: Interrupts) -> Trace:
    """The trace with its warnings, which are stored with the draws."""
    if run.ranks.by_chains:
        run.note(kernels=run.ranks.exchange(to_dict(run.chains.kernel)))  # each rank has tuned its own
    if isinstance(run.store, Elsewhere):
        run.ranks.wait()  # until the first rank has written them
        return run.trace()
    trace, warmup = run.trace(), run.chains.warmup
    trace.remarks = remarks
    try:
        with interrupts.at_once():
            trace.warnings = diagnostics.check(trace, warmup.wanted if warmup.tuning else None)
    except (Exception, KeyboardInterrupt) as error:  # a failed diagnosis must not lose the draws
        trace.warnings = [f"The draws could not be diagnosed: {error!r}. Look at trace.summary()."]
    run.finish(trace)
    run.ranks.wait()
    return trace


def _tell_what_was_kept(error: BaseException, run: Run) -> None:
    """Give an exception the draws made before it, and say so if the store did not keep them all."""
    kept, drawn = run.kept, run.chains.drawn
    if kept and not isinstance(run.store, Elsewhere):
        setattr(error, "trace", run.trace())  # noqa: B010
        error.add_note(f"The {kept} draws per chain made before this are in the exception's `trace`.")
    if run.checkpoints is not None:
        error.add_note("ggmc.resume goes on from the run's last checkpoint.")
    elif kept < drawn:
        error.add_note(f"The store did not keep the last {drawn - kept} of {drawn} draws per chain: they are lost.")
