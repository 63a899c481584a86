"""Runs that are killed again and again and resumed each time: a program of its own, since it forks.

The parent imports everything and does nothing else: its children make the run, one after another, and each kills itself
with SIGKILL at a random one of its function calls, whatever that is: Python's, torch's, or the system's for a file. So
moments are spread evenly over the work itself, and do not depend on how fast the machine is. Forking is safe with one
thread, before zarr or torch have started any of their own.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import arviz  # noqa: F401  # imported before the fork, as what is imported at need would be most of the calls
import numpy as np
import torch
import torch._dynamo
import zarr.codecs  # noqa: F401

import ggmc
from ggmc.sampling.checkpoint import Checkpoints
from ggmc.trace.run_folder import holds_a_run
from tests.support.collecting import Loop
from tests.support.logistic import logistic

KERNELS: dict[str, Any] = {
    "exact": None,
    "minibatches": ggmc.GGMC(guide=ggmc.Minibatch(50)),
    "recut": ggmc.GGMC(guide=ggmc.Minibatch(50, recut=True)),
    "control variates": ggmc.GGMC(guide=ggmc.ControlVariate("auto", curvature="dense")),
}
LOOP = "optim"
WARMUP, DRAWS = 60, 120
MORE = 60  # draws by which a run that was finished is made longer
EVERY = (0.0, 0.5)  # seconds between checkpoints: most calls write them, or hardly any

PHASES = {  # where in the work a moment lies, by the functions that are under way
    "reading": {"read", "newest", "reopen", "usable"},
    "writing": {"write_atomically", "sync_since", "_extend"},
    "checkpoint": {"checkpoint", "_run_on_disk", "_on_disk"},
    "warm-up": {"_explore", "_close_window", "_first_step_size"},
    "trajectory": {"trajectory", "advance", "end_trajectory"},
    "diagnosis": {"check", "_diagnosed"},
}


def attempt(case: str, folder: Path, draws: int, every: float) -> None:
    """Begin the run, or go on with it; `every` counts for this attempt alone."""
    out = ggmc.RunFolder(folder, checkpoint_every=every)
    usual = Checkpoints.__init__
    Checkpoints.__init__ = lambda self, run, _: usual(self, run, every)  # pyright: ignore
    if case == LOOP:
        Loop(out=out, seed=0 if not holds_a_run(folder) else draws).run(draws)
    elif holds_a_run(folder):
        ggmc.resume(folder, logistic(200), draws, progress=False)
    else:
        ggmc.sample(logistic(200), KERNELS[case], draws, WARMUP, chains=2, seed=5, out=out, progress=False)


class Countdown:
    """Counts the calls of a process, and kills it at one of them.

    Args:
        at: The call to die at; None to count only.
        notes: A file that is told the phase in which it died.
    """

    def __init__(self, at: int | None, notes: int):
        self.calls, self._at, self._notes = 0, at, notes

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1
            if self.calls == self._at:
                os.write(self._notes, f"{phase_of(frame)}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)

    def start(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)


def phase_of(frame: FrameType | None) -> str:
    if threading.current_thread() is not threading.main_thread():
        return "writing"  # by zarr, in a thread of its own
    names: set[str] = set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return next((phase for phase, functions in PHASES.items() if names & functions), "other")


def in_a_child(work: Callable[[], None], countdown: Countdown | None = None) -> bool:
    """Whether the work was finished; what fails in it ends the program."""
    child = os.fork()
    if child == 0:
        try:
            if countdown is not None:
                countdown.start()
            work()
            sys.setprofile(None)
            if countdown is not None:
                os.write(countdown._notes, f"calls {countdown.calls}\n".encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"a child failed with {code}")
    return code == 0


def same(one: Path, other: Path) -> None:
    """Refuse two runs that differ in one bit."""
    a, b = ggmc.load(one), ggmc.load(other)
    assert a.num_draws == b.num_draws, (a.num_draws, b.num_draws)
    assert np.array_equal(np.asarray(a.positions), np.asarray(b.positions))
    assert set(a.stats) == set(b.stats)
    for name in a.stats:
        assert np.array_equal(a.stats[name], b.stats[name], equal_nan=True), name
    assert a.kernel == b.kernel
    assert a.warnings == b.warnings, (a.warnings, b.warnings)
    assert not list(one.rglob("*.partial"))


def main(case: str, where: Path, kills: int, seed: int = 0) -> None:
    """Kill the run so often, let it end, and compare it with one that was not killed."""
    torch.set_num_threads(1)
    file = where / "notes"
    notes = os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    calls: dict[float, int] = {}
    for every in EVERY:
        in_a_child(lambda e=every: attempt(case, where / f"every {e}", DRAWS, e), Countdown(None, notes))
        calls[every] = int(file.read_text().split()[-1])
    moments = random.Random(f"{case} {seed}")
    killed, draws = 0, DRAWS
    while killed < kills:
        every = moments.choice(EVERY)
        # Half of the moments are spread evenly, half over the orders of magnitude, so that beginnings are met too.
        longest = calls[every] // 2
        at = moments.choice([moments.randrange(longest), int(longest ** moments.uniform(0.5, 1.0))])
        finished = in_a_child(lambda d=draws, e=every: attempt(case, where / "killed", d, e), Countdown(at, notes))
        killed += not finished
        draws += MORE * finished
    in_a_child(lambda: attempt(case, where / "killed", draws, 60.0))
    in_a_child(lambda: attempt(case, where / "whole", draws, 60.0))
    in_a_child(lambda: same(where / "killed", where / "whole"))
    phases = [line for line in file.read_text().splitlines() if not line.startswith("calls")]
    print(f"killed {killed} times on the way to {draws} draws:", {p: phases.count(p) for p in sorted(set(phases))})


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
