"""Runs as Jug tasks: several workers, a killed one that is started again, and traces that are merged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling import jug_tasks
from ggmc.trace.zarr_store import ZarrStore

JUGFILE = """
import torch
import ggmc

def gaussian(width):
    def log_prob(x):
        return -(x**2).sum() / (2 * width**2)
    return ggmc.Density(log_prob, torch.zeros(2, dtype=torch.float64))

LONG = {"draws": 150, "warmup": 80, "seed": 3}
runs = [
    ggmc.jug.run(gaussian, ggmc.HMC(steps=4), {"width": width},
                 out=ggmc.RunFolder(f"runs/{width}", checkpoint_every=0), chains=2, **LONG)
    for width in (1.0, 3.0)
]
chains = ggmc.jug.chains(gaussian, None, {"width": 2.0}, out="runs/chains", chains=3, **LONG)
"""


def gaussian(width: float) -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**2).sum() / (2 * width**2), torch.zeros(2, dtype=torch.float64))


def worker(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jug.jug", *(arguments or ("execute",)), "jugfile.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


@pytest.mark.slow
def test_two_workers_of_which_one_is_killed_and_started_again(tmp_path: Path) -> None:
    (tmp_path / "jugfile.py").write_text(JUGFILE)
    first = worker(tmp_path)
    deadline = time.monotonic() + 120
    while not any((tmp_path / "runs" / "1.0" / "checkpoints").glob("*.safetensors")):  # it has begun
        assert time.monotonic() < deadline
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.01)
    time.sleep(0.2)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    workers = [worker(tmp_path), worker(tmp_path)]  # the second had not been started yet
    texts = [one.communicate(timeout=300)[0] for one in workers]
    assert [one.returncode for one in workers] == [0, 0], texts
    for width in (1.0, 3.0):
        found = ggmc.load(tmp_path / "runs" / str(width))
        whole = ggmc.sample(gaussian(width), ggmc.HMC(steps=4), 150, 80, chains=2, seed=3, progress=False)
        np.testing.assert_array_equal(np.asarray(found.positions), whole.positions)
    merged = ggmc.load([tmp_path / "runs" / "chains" / str(number) for number in range(3)], gaussian(2.0))
    assert merged["theta"].shape == (3, 150, 2)
    assert 1.5 < merged["theta"].std() < 2.5


def test_a_lock_is_removed_only_where_no_worker_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jug import Task, set_jugdir

    monkeypatch.setattr(jug_tasks, "PAUSE", 0.01)
    set_jugdir(str(tmp_path / "jugdata"))

    def task() -> Any:
        return ggmc.jug.run(gaussian, ggmc.HMC(0.5, 2), {"width": 1.0}, out=tmp_path / "run", draws=10, warmup=0)

    first = task()
    assert isinstance(first, Task)
    assert first.lock()
    with jug_tasks._working_on(tmp_path / "run"):
        assert task().is_locked()  # somebody is at work
        with pytest.raises(BadInput, match="another worker has the run"):
            jug_tasks.carry_out(gaussian, {"width": 1.0}, str(tmp_path / "run"), "", "", "")
    assert not task().is_locked()  # nobody was: the lock is gone
    assert first.lock()
    first.fail()
    assert task().is_failed()  # what failed is for people to look at


def test_a_finished_run_is_made_longer(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")

    def draws(number: int) -> np.ndarray:
        task = ggmc.jug.run(gaussian, ggmc.HMC(0.5, 2), {"width": 1.0}, out=tmp_path / "run", draws=number, warmup=5)
        return np.asarray(ggmc.load(task.run()).positions)

    shorter, longer = draws(20), draws(35)
    assert (shorter.shape[1], longer.shape[1]) == (20, 35)
    assert np.array_equal(shorter, longer[:, :20])


def test_a_task_keeps_its_run_as_the_folder_says(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")
    out = ggmc.RunFolder(tmp_path / "run", checkpoint_every=7.0, precision="float32", thin=3)
    task = ggmc.jug.run(gaussian, ggmc.HMC(0.5, 2), {"width": 1.0}, out=out, draws=20, warmup=0)
    store = ZarrStore.read(task.run())
    assert store.num_draws == 6
    assert store.rows().dtype == np.float32
    assert store.settings["settings"]["checkpoint_every"] == 7.0


def test_chains_start_where_those_of_one_run_would(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")
    kernel = ggmc.HMC(1e-9, 1)  # they stay there
    tasks = ggmc.jug.chains(gaussian, kernel, {"width": 1.0}, out=tmp_path, chains=3, draws=2, warmup=0, seed=4)
    together = ggmc.load([task.run() for task in tasks])
    one = ggmc.sample(gaussian(1.0), kernel, 2, 0, chains=3, seed=4, progress=False)
    np.testing.assert_allclose(np.asarray(together.positions), one.positions, atol=1e-7)


def test_every_setting_of_a_task_reaches_its_run(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")
    given: dict[str, Any] = {"draws": 4, "warmup": 30, "seed": 5, "target_accept": 0.7, "anneal": 2.5}
    one = ggmc.jug.run(gaussian, None, {"width": 1.0}, out=tmp_path / "run", chains=3, **given)
    several = ggmc.jug.chains(gaussian, None, {"width": 1.0}, out=tmp_path / "chains", chains=3, **given)
    expected = given | {"chains": 3, "own_seed": 5}
    for task, part in ((one, None), (several[0], [0, 3]), (several[2], [2, 3])):
        stored = ZarrStore.read(task.run()).settings["settings"]
        assert {name: stored[name] for name in (*expected, "part")} == expected | {"part": part}
    found = ggmc.load([tmp_path / "run"], gaussian(1.0))
    kernel = ggmc.sample(gaussian(1.0), None, chains=3, progress=False, **given)
    np.testing.assert_array_equal(found["theta"], kernel["theta"])


def test_tasks_of_one_run_have_random_numbers_of_their_own(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")
    kernel = ggmc.HMC(1e-9, 1)  # its momenta stay as they were drawn
    tasks = ggmc.jug.chains(gaussian, kernel, {"width": 1.0}, out=tmp_path, chains=3, draws=5, warmup=0)
    noise = ggmc.load([task.run() for task in tasks]).stats["kinetic_temperature"]
    assert len(np.unique(noise.round(6))) == noise.size == 15


def test_what_cannot_be_a_task_is_refused(tmp_path: Path) -> None:
    out: Any = tmp_path / "run"
    with pytest.raises(BadInput, match="must be a function of the jugfile with a name of its own"):
        ggmc.jug.run(lambda: gaussian(1.0), out=out)
    with pytest.raises(BadInput, match="must be told by plain values"):
        ggmc.jug.run(gaussian, ggmc.HMC(0.1, 2, mass=torch.ones(20_000)), out=out)
    with pytest.raises(BadInput, match="predict_at is not for tasks"):
        ggmc.jug.run(gaussian, out=ggmc.RunFolder(out, predict_at=torch.zeros(2)))
    with pytest.raises(BadInput, match="draws must be a whole number"):
        ggmc.jug.run(gaussian, out=out, draws=0)
    assert not out.exists()


CALLS = {"left": 0}


def interrupted_gaussian() -> ggmc.Density:
    """A target during whose sampling Ctrl-C is pressed once."""

    def log_prob(x: torch.Tensor) -> torch.Tensor:
        CALLS["left"] -= 1
        if CALLS["left"] == 0:
            signal.raise_signal(signal.SIGINT)
        return -(x**2).sum() / 2

    return ggmc.Density(log_prob, torch.zeros(1, dtype=torch.float64))


@pytest.mark.usefixtures("unrecorded")
def test_an_interrupted_run_is_no_finished_task(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")
    CALLS["left"] = 60
    folder = tmp_path / "run"
    task = jug_tasks.run(interrupted_gaussian, ggmc.HMC(0.1, 2), out=folder, draws=100, warmup=0, chains=1)
    with pytest.raises(KeyboardInterrupt):
        task.run()
    assert 0 < ggmc.load(folder).num_draws < 100
    assert task.run() == str(folder)
    assert ggmc.load(folder).num_draws == 100


def test_attributes_are_kept_with_the_run(tmp_path: Path) -> None:
    from jug import set_jugdir

    set_jugdir("dict_store")
    folder = ggmc.RunFolder(tmp_path / "run", attributes={"label": "first"})
    task = jug_tasks.run(gaussian, ggmc.HMC(0.5, 2), {"width": 1.0}, out=folder, draws=4, warmup=0, chains=1)
    assert ggmc.load(str(task.run())).attributes["label"] == "first"
    with pytest.raises(BadInput, match="plain values by name"):
        ggmc.RunFolder(tmp_path / "other", attributes={"tensor": torch.zeros(1)})
