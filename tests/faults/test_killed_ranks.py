"""A run on two ranks that is killed again and again, as a whole or one rank of it, is the run that was not killed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ggmc
from ggmc.trace.run_folder import holds_a_run
from ggmc.trace.zarr_store import ZarrStore
from tests.support.torchrun import command, environment

PROGRAM = """
import os, signal, sys
from pathlib import Path
import ggmc
from ggmc.trace.run_folder import holds_a_run
from tests.support.ranks import LENGTH, case

split, folder, at, victim = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
ranks = ggmc.distributed.init(split=split)
target, kernel = case("minibatches, tuned")
begun = holds_a_run(folder)
ranks.wait()  # all have looked before the first begins
calls = 0

def count(frame, event, argument):
    global calls
    if event == "call" and "/ggmc/" in frame.f_code.co_filename:
        calls += 1
        if calls == at:
            Path(f"{folder} died in {frame.f_code.co_name} at {at}").touch()
            os.kill(os.getpid(), signal.SIGKILL)

if victim in ("both", str(ranks.rank)):
    sys.setprofile(count)
if begun:
    ggmc.resume(folder, target, progress=False)
else:
    ggmc.sample(target, kernel, **LENGTH, out=ggmc.RunFolder(folder, checkpoint_every=0.1))
sys.setprofile(None)
"""


# Who dies, and the call of the library's functions by which it does: a run has about 70,000 of them.
KILLS = {
    "data": [("0", 1_000), ("1", 20_000), ("both", 30_000), ("0", 30_000), ("1", 40_000)],
    "chains": [("0", 20_000), ("both", 40_000)],
}


@pytest.mark.slow
@pytest.mark.parametrize("split", KILLS)
def test_two_ranks_killed_and_resumed(split: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)

    def attempt(folder: str, at: int = 0, victim: str = "none") -> int:
        return subprocess.run(
            command(script, split, tmp_path / folder, at, victim),
            env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=120, start_new_session=True,
            check=False,
        ).returncode  # fmt: skip

    assert attempt("whole") == 0
    moments = random.Random(split)
    for victim, most in KILLS[split]:
        assert attempt("killed", moments.randrange(most // 4, most), victim) != 0
        if holds_a_run(tmp_path / "killed"):
            assert_beginning(tmp_path / "killed", tmp_path / "whole")
    places = [file.name for file in tmp_path.glob("killed died in *")]
    assert len(places) > 1, places
    assert attempt("killed") == 0
    assert assert_beginning(tmp_path / "killed", tmp_path / "whole") == 30
    one, other = ggmc.load(tmp_path / "killed"), ggmc.load(tmp_path / "whole")
    assert one.warnings == other.warnings
    assert one.kernel == other.kernel


def assert_beginning(one: Path, whole: Path) -> int:
    """How many draws there are; they must be the first ones of the whole run."""
    a, b = ZarrStore.read(one), ZarrStore.read(whole)
    assert not a.remarks
    number = a.num_draws
    if number:
        np.testing.assert_array_equal(np.asarray(a.rows()), np.asarray(b.rows())[:, :number])
        for name, values in a.stats().items():
            np.testing.assert_array_equal(values, b.stats()[name][:, :number])
    return number
