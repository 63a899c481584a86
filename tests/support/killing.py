"""Runs that are killed again and again and resumed each time: a program of its own, since it forks.

The parent imports everything and does nothing else: its children make the run, one after another, and each kills itself
with SIGKILL at a random one of its function calls, whatever that is: Python's, torch's, or the system's for a file. The
moments are spread evenly over the calls of each phase of the work, the phases taking turns, so that all are met however
fast the machine is. Forking is safe with one thread, before zarr or torch have started any of their own.

After each kill, what can be read must be the first draws of the run that was not killed, and a run that ends must be
that run. Then it is removed and begun anew.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import arviz  # noqa: F401  # imported before the fork, as what is imported at need would be most of the calls
import numpy as np
import torch
import torch._dynamo
import zarr.codecs  # noqa: F401

import ggmc
from ggmc.optim import Collector
from ggmc.sampling.chains import Chains
from ggmc.sampling.checkpoint import Checkpoints
from ggmc.sampling.run import Run
from ggmc.trace import diagnostics
from ggmc.trace.atomic_files import sync_since, write_atomically
from ggmc.trace.run_folder import holds_a_run
from ggmc.trace.zarr_store import ZarrStore
from ggmc.warmup import Warmup
from tests.support.collecting import Loop
from tests.support.logistic import logistic

KERNELS: dict[str, Any] = {
    "exact": None,
    "minibatches": ggmc.GGMC(guide=ggmc.Minibatch(50)),
    "recut": ggmc.GGMC(guide=ggmc.Minibatch(50, recut=True)),
    "control variates": ggmc.GGMC(guide=ggmc.ControlVariate("auto", curvature="dense")),
}
LOOP = "optim"
WARMUP, DRAWS = 40, 60
EVERY = (0.0, 0.5)  # seconds between checkpoints: most calls write them, or hardly any

PHASES: dict[CodeType, str] = {  # of the functions under way, the innermost of these says where in the work one is
    function.__code__: phase
    for phase, functions in {
        "reading": (ZarrStore.read.__func__, ZarrStore.reopen.__func__, Checkpoints.newest),  # pyright: ignore
        "writing": (write_atomically, sync_since, ZarrStore._extend),
        "checkpoint": (Run.checkpoint, Checkpoints.write, Collector.checkpoint),
        "warm-up": (Warmup.step,),
        "trajectory": (Chains.advance, Loop.advance),
        "diagnosis": (diagnostics.check,),
    }.items()
    for function in functions
}


def attempt(case: str, folder: Path, every: float) -> None:
    """Begin the run, or go on with it; `every` counts for this attempt alone."""
    os.fsync = lambda _: None  # a killed process loses nothing that the system has: only slow disks are left out
    out = ggmc.RunFolder(folder, checkpoint_every=every)
    usual = Checkpoints.__init__
    Checkpoints.__init__ = lambda self, run, _: usual(self, run, every)  # pyright: ignore
    if case == LOOP:
        Loop(out=out, seed=0 if not holds_a_run(folder) else DRAWS).run(DRAWS)
    elif holds_a_run(folder):
        ggmc.resume(folder, logistic(200), progress=False)
    else:
        ggmc.sample(logistic(200), KERNELS[case], DRAWS, WARMUP, chains=2, seed=5, out=out, progress=False)


class Countdown:
    """Counts the calls of a process by phase, and kills it at one of them.

    Args:
        phase: In which to die.
        at: The call of this phase to die at; None to count only.
    """

    def __init__(self, phase: str = "", at: int | None = None):
        self.calls = Counter[str]()
        self._phase, self._at = phase, at
        self._under_way = ["other"]

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "return") and threading.current_thread() is threading.main_thread():
            entered = PHASES.get(frame.f_code)
            if entered is not None and event == "call":
                self._under_way.append(entered)
            elif entered is not None:
                self._under_way.pop()
        if event in ("call", "c_call"):  # also in a thread of zarr's, which works for the main one
            now = self._under_way[-1]
            self.calls[now] += 1
            if now == self._phase and self.calls[now] == self._at:
                os.kill(os.getpid(), signal.SIGKILL)

    def start(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)


def in_a_child(work: Callable[[], object], countdown: Countdown | None = None) -> bool:
    """Whether the work was finished; what fails in it ends the program."""
    child = os.fork()
    if child == 0:
        try:
            logging.disable(logging.WARNING)
            if countdown is not None:
                countdown.start()
            work()
        except BaseException:
            sys.setprofile(None)
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"a child failed with {code}")
    return code == 0


def count_calls(case: str, folder: Path, every: float) -> None:
    """Make the run, and write down the calls of each phase."""
    countdown = Countdown()
    countdown.start()
    attempt(case, folder, every)
    sys.setprofile(None)
    folder.with_suffix(".json").write_text(json.dumps(countdown.calls))


def is_beginning(one: Path, whole: Path) -> int:
    """Refuse draws on disk that differ in one bit from the first ones of the whole run, and say how many there are."""
    a, b = ZarrStore.read(one), ZarrStore.read(whole)
    number = a.num_draws
    assert not a.remarks, a.remarks
    if number:
        assert np.array_equal(np.asarray(a.rows()), np.asarray(b.rows())[:, :number])
        assert set(a.stats()) == set(b.stats())
        for name, values in a.stats().items():
            assert np.array_equal(values, b.stats()[name][:, :number], equal_nan=True), name
    return number


def is_same(one: Path, whole: Path) -> None:
    """Refuse two runs that differ in one bit."""
    assert is_beginning(one, whole) == DRAWS
    a, b = ggmc.load(one), ggmc.load(whole)
    assert a.kernel == b.kernel
    assert a.warnings == b.warnings, (a.warnings, b.warnings)
    assert not list(one.rglob("*.partial"))


def main(case: str, where: Path, kills: int, seed: int = 0) -> None:
    """Kill the run so often, and compare what is left, and what it ends with, with one that was not killed."""
    torch.set_num_threads(1)
    run, whole = where / "killed", where / "whole"
    in_a_child(lambda: attempt(case, whole, 60.0))
    calls: dict[float, dict[str, int]] = {}
    for every in EVERY:
        folder = where / f"every {int(10 * every)}"
        in_a_child(lambda f=folder, e=every: count_calls(case, f, e))
        in_a_child(lambda f=folder: is_same(f, whole))
        calls[every] = json.loads(folder.with_suffix(".json").read_text())
    moments = random.Random(f"{case} {seed}")
    killed, ended, turns = Counter[str](), 0, cycle([*dict.fromkeys(PHASES.values()), "other"])
    while killed.total() < kills:
        every, phase = moments.choice(EVERY), next(turns)
        most = calls[every].get(phase, 0) if phase != "reading" else 2000  # which begins with the first resumption
        if not most or (phase == "reading" and not holds_a_run(run)):
            continue
        at = moments.randrange(-(-most // 2)) + 1  # the second half is met where a run goes on from the first
        finished = in_a_child(lambda e=every: attempt(case, run, e), Countdown(phase, at))
        killed[phase] += not finished
        ended += finished
        if finished:
            in_a_child(lambda: is_same(run, whole))
            shutil.rmtree(run)
        elif holds_a_run(run):
            in_a_child(lambda: is_beginning(run, whole))
    in_a_child(lambda: attempt(case, run, 60.0))
    in_a_child(lambda: is_same(run, whole))
    print(f"killed {killed.total()} times on the way to {ended + 1} ends:", dict(killed))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
