"""Runs that are killed again and again and resumed each time: a program of its own, since it forks.

The parent imports everything and does nothing else: its children make the run, one after another, and are killed with
SIGKILL at random moments. Forking is safe with one thread, before zarr or torch have started any of their own.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ggmc
from ggmc.trace.run_folder import holds_a_run
from tests.support.logistic import logistic

CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "exact": (lambda: logistic(200), None),
    "minibatches": (lambda: logistic(200), ggmc.GGMC(guide=ggmc.Minibatch(50))),
    "recut": (lambda: logistic(200), ggmc.GGMC(guide=ggmc.Minibatch(50, recut=True))),
    "control variates": (lambda: logistic(200), ggmc.GGMC(guide=ggmc.ControlVariate("auto", curvature="dense"))),
}
WARMUP = 30
MORE = 25  # draws by which a run that was finished is made longer


def attempt(case: str, folder: Path, draws: int, every: float) -> None:
    """Begin the run, or go on with it."""
    make, kernel = CASES[case]
    if holds_a_run(folder):
        ggmc.resume(folder, make(), draws, progress=False)
    else:
        out = ggmc.RunFolder(folder, checkpoint_every=every)
        ggmc.sample(make(), kernel, draws, WARMUP, chains=2, seed=5, out=out, progress=False)


def in_a_child(work: Callable[[], None], kill_after: float | None = None) -> bool:
    """Whether the work was finished; what fails in it ends the program."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"a child failed with {code}")
    return code == 0


def same(one: Path, other: Path) -> None:
    """Refuse two runs that differ in one bit."""
    a, b = ggmc.load(one), ggmc.load(other)
    assert np.array_equal(np.asarray(a.positions), np.asarray(b.positions))
    assert set(a.stats) == set(b.stats)
    for name in a.stats:
        assert np.array_equal(a.stats[name], b.stats[name], equal_nan=True), name
    assert a.kernel == b.kernel
    assert a.warnings == b.warnings, (a.warnings, b.warnings)


def main(case: str, where: Path, kills: int, longest: float) -> None:
    """Kill the run so often, let it end, and compare it with one that was not killed."""
    torch.set_num_threads(1)
    moments = random.Random(case)
    killed, draws = 0, MORE
    while killed < kills:
        every = moments.choice([0.0, 0.05, 0.2])
        finished = in_a_child(
            lambda d=draws, e=every: attempt(case, where / "killed", d, e), moments.uniform(0, longest)
        )
        killed += not finished
        draws += MORE * finished
    in_a_child(lambda: attempt(case, where / "killed", draws, 60.0))
    in_a_child(lambda: attempt(case, where / "whole", draws, 60.0))
    in_a_child(lambda: same(where / "killed", where / "whole"))
    print(f"killed {killed} times on the way to {draws} draws")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
