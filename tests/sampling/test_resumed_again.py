"""What a resumed run knows of the runs before it: their draws, their time, and what was remarked upon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ggmc
from ggmc.sampling.checkpoint import Checkpoints
from tests.support.gaussians import gaussian

KERNEL = ggmc.HMC(0.5, 2)
SHORT: dict[str, Any] = {"draws": 12, "warmup": 5, "chains": 2, "progress": False}


def test_an_error_comes_with_the_draws_of_the_runs_before(tmp_path: Path) -> None:
    ggmc.sample(gaussian(3), KERNEL, **SHORT, out=tmp_path / "run")

    def fail(_: object) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more") as caught:
        ggmc.resume(tmp_path / "run", gaussian(3), draws=20, progress=False, callback=fail)
    error: Any = caught.value
    assert error.trace.num_draws == 13
    assert any(note.startswith("The 13 draws per chain") for note in error.__notes__)


def test_the_time_of_the_runs_before_counts(tmp_path: Path) -> None:
    ggmc.sample(gaussian(3), KERNEL, **SHORT, out=tmp_path / "run")
    checkpoints = Checkpoints(tmp_path / "run", 0)
    state = checkpoints.newest()[0].state
    state["states"][0]["seconds"] = 1e6
    checkpoints.write(state)
    resumed = ggmc.resume(tmp_path / "run", gaussian(3), draws=20, progress=False)
    assert resumed.attributes["sampling_time"] > 1e6
    assert ggmc.load(tmp_path / "run").attributes["sampling_time"] > 1e6


def test_what_was_remarked_upon_is_said_after_every_further_resume(tmp_path: Path) -> None:
    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0)
    ggmc.sample(gaussian(3), KERNEL, **SHORT, out=folder)
    newest = Checkpoints(tmp_path / "run", 0).files()[-1]
    newest.write_bytes(newest.read_bytes()[:-20])
    for draws in (20, 30, 40):
        resumed = ggmc.resume(tmp_path / "run", gaussian(3), draws=draws, progress=False)
        for trace in (resumed, ggmc.load(tmp_path / "run")):
            assert [remark for remark in trace.remarks if "could not be read" in remark and newest.name in remark]
            assert trace.warnings[: len(trace.remarks)] == trace.remarks
