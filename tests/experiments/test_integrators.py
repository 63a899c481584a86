"""The paper's study at its smallest, through Jug with two workers, of which one is killed and started again."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import ggmc
from experiments.integrators import cells, rates
from experiments.integrators.settings import Size
from ggmc.cli import places
from ggmc.cli.workers import Worker, carry_out
from ggmc.errors import BadInput

FOLDER = places.root("experiments")


@pytest.mark.slow
def test_two_workers_of_which_one_is_killed(tmp_path: Path) -> None:
    crew: list[Worker] = []

    def kill() -> None:
        while not any(tmp_path.glob("runs/*/checkpoints/*.safetensors")):  # the work has begun
            time.sleep(0.05)
        os.kill(crew[0].process.pid, signal.SIGKILL)

    def started(workers: list[Worker]) -> None:
        crew.extend(workers)
        threading.Thread(target=kill, daemon=True).start()

    jugfile = FOLDER / "experiments" / "integrators" / "jugfile.py"
    variables = {"GGMC_SIZE": "tiny", "GGMC_OUT": str(tmp_path)}
    total = carry_out(jugfile, tmp_path, 2, variables, [FOLDER, places.PACKAGE.parent], started)
    size = Size.named("tiny")
    planned = [*cells.paper(size), *cells.beyond(size)]
    assert total == len(planned) + 2 + len(rates.ARMS) + 1
    assert crew[0].restarted
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert set(numbers["runs"]) == {cell.name for cell in planned}
    for cell in planned:
        assert ggmc.load(tmp_path / "runs" / cell.name).num_draws == size.cycles
    runs = numbers["runs"]
    for name, run in runs.items():
        assert (run["log_accept"] is None) == name.startswith("SGHMC"), name  # −∞, and nothing else is
    for arm in ("GGMC", "HMC", "sweeps"):
        slow, quick = (runs[f"{arm} lr={rate} T=1"]["log_accept"] for rate in ("1e-06", "0.1"))
        assert slow > quick + 100  # thousands, at this learning rate
        assert 0.9 < runs[f"{arm} lr=1e-06 T=1"]["warmth"] < 1.1
    assert [each["arm"] for each in numbers["half"]] == list(rates.ARMS)
    assert all(10**rates.LOWEST < each["rate"] < 10**rates.HIGHEST for each in numbers["half"])
    for figure in ("acceptance", "energies T=1"):
        assert (tmp_path / f"{figure}.pdf").read_bytes().startswith(b"%PDF")
        assert (tmp_path / f"{figure}.png").stat().st_size > 10_000


def test_the_full_size_is_the_papers() -> None:
    size = Size.named("full")
    runs = list(cells.paper(size))
    assert len(runs) == 5 * 2 * 3
    assert {run.draws for run in runs} == {300}
    first = next(run for run in runs if run.arm == "GGMC")
    assert isinstance(first.kernel, ggmc.GGMC)
    assert first.kernel.steps == "10 epochs"
    assert first.kernel.friction == 14.2855
    assert first.kernel.step_size is not None
    assert math.isclose(first.kernel.step_size**2 * 50_000, 1e-1)
    assert not first.kernel.adjust
    assert first.form == "batchnorm"
    with pytest.raises(BadInput, match="size must be one of full, small, tiny"):
        Size.named("medium")
