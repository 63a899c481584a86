"""`ggmc run` and `ggmc resume`: verdicts, JSON, and runs that are killed."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ggmc as library
from ggmc import RunFolder
from ggmc.cli import running
from tests.support.command import EXAMPLES, STUDIES, Result, ggmc, started, study

TINY, SLOW = STUDIES / "tiny.toml", STUDIES / "slow.toml"


def ended(process: subprocess.Popen[str]) -> Result:
    out, err = process.communicate(timeout=300)
    return Result(process.returncode, out, err)


def test_run_and_resume(tmp_path: Path) -> None:
    folder = tmp_path / "run [1]"
    done = ggmc("run", TINY, "--out", folder, "--quiet")
    assert done.code == 0, done.err
    assert f"Done: {folder}" in done.out
    assert "2 chains of 6 draws" in done.out
    assert "exact: every trajectory was tested" in done.out
    assert f"ggmc report '{folder}'" in done.out
    assert f"ggmc resume '{folder}' --draws 12" in done.out
    fewer = ggmc("resume", folder, "--draws", 2, "--quiet")  # none is lost
    assert "2 chains of 6 draws" in fewer.out
    assert f"ggmc resume '{folder}' --draws 12" in fewer.out
    longer = ggmc("resume", folder, "--draws", 9, "--json")
    assert longer.code == 0, longer.err
    told = longer.json()
    assert told["draws"] == 9
    assert told["complete"] is True
    assert told["tested"] is True
    assert isinstance(told["warnings"], list)
    whole = ggmc("run", TINY, "--out", tmp_path / "whole", "--draws", 9, "--json")
    assert whole.json()["draws"] == 9
    assert np.array_equal(library.load(folder).positions, library.load(tmp_path / "whole").positions)


def test_a_thinned_run_is_done_when_all_that_it_keeps_is_there(tmp_path: Path) -> None:
    thinned = study(tmp_path, TINY.read_text().replace("[run]", "[run]\nthin = 4"))
    done = ggmc("run", thinned, "--out", tmp_path / "run", "--json", "--quiet")
    assert done.code == 0, done.err
    told = done.json()
    assert (told["draws"], told["wanted_draws"], told["complete"]) == (1, 6, True)


def test_seed_and_folder_of_the_study(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = ggmc("run", TINY, "--json").json()
    assert first["run"] == "runs/tiny"
    second = ggmc("run", TINY, "--seed", 1, "--out", "other", "--json").json()
    assert not np.array_equal(library.load(first["run"]).positions, library.load(second["run"]).positions)
    again = ggmc("run", TINY)
    assert again.code == 2
    assert "runs/tiny holds a run already: go on with it by `ggmc resume runs/tiny`" in again.err


def test_what_would_not_be_exact_is_refused(tmp_path: Path) -> None:
    done = ggmc("run", STUDIES / "breaks_1_word.toml", "--out", tmp_path / "run")
    assert done.code == 2
    assert "this would not be exact (condition 1, the word): the word 'OBA'" in done.err
    assert "ggmc check" in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "Missing argument"),
        (["run", TINY, "--draws", "0"], "--draws must be a whole number of at least 1, got 0"),
        (["run", TINY, "--draws", "x"], "Invalid value for '--draws'"),
        (["resume", "/nowhere", "--draws", "-1"], "--draws must be a whole number of at least 1, got -1"),
        (["run", TINY, "--sed", "1"], "No such option: --sed"),
        (["resume", "/nowhere"], "there is no run in /nowhere"),
        (["rum"], "No such command"),
    ],
)
def test_wrong_calls(words: list[object], message: str) -> None:
    done = ggmc(*words)
    assert done.code == 2
    assert message in done.err, done.err
    assert "Traceback" not in done.err


def test_a_run_made_in_python_is_not_resumed_here(tmp_path: Path) -> None:
    import torch

    target = library.Density(lambda x: -(x**2).sum(), torch.zeros(1, dtype=torch.float64))
    library.sample(target, library.HMC(0.1, 2), draws=3, warmup=0, out=tmp_path / "run", progress=False)
    done = ggmc("resume", tmp_path / "run")
    assert done.code == 2
    assert "was not made by `ggmc run`" in done.err


def test_a_learning_rate_for_a_target_without_data(tmp_path: Path) -> None:
    text = f'[data]\npython = "{STUDIES / "own_code.py"}:quartic"\n[kernel]\nlearning_rate = 0.1\n'
    done = ggmc("run", study(tmp_path, text), "--out", tmp_path / "run")
    assert done.code == 2
    assert "line 3, [kernel]: a learning rate needs a target with data" in done.err


def wait_for_a_draw(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(list((folder / "checkpoints").glob("*"))) < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = started("run", SLOW, "--out", folder)
    wait_for_a_draw(folder, process)
    process.send_signal(signal.SIGKILL)
    assert ended(process).code == -signal.SIGKILL
    untrusted = ggmc("resume", folder)
    assert untrusted.code == 2
    assert "own_code.py:slow" in untrusted.err
    assert "add --trust if this run is your own" in untrusted.err
    before = library.load(folder).num_draws
    assert before < 120
    done = ended(started("resume", folder, "--trust", "--json", folder=tmp_path))
    assert done.code == 0, done.err
    assert done.json()["draws"] == 120
    whole = ggmc("run", SLOW, "--out", tmp_path / "whole", "--json")
    assert whole.code == 0, whole.err
    assert np.array_equal(library.load(folder).positions, library.load(tmp_path / "whole").positions)


def test_ctrl_c_and_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = started("run", SLOW, "--out", folder)
    wait_for_a_draw(folder, process)
    process.send_signal(signal.SIGINT)
    done = ended(process)
    assert done.code == 130, done.err
    assert "Stopped early" in done.out
    assert "120 were asked for" in done.out
    assert f"ggmc resume {folder}\n" in done.out
    assert "Interrupted: " in done.err
    assert "Traceback" not in done.err


def test_ctrl_c_in_warmup_says_how_to_go_on(monkeypatch, tmp_path: Path) -> None:
    def stopped(*_: Any, out: RunFolder, **__: Any) -> None:
        Path(out.path).mkdir()
        (Path(out.path) / "zarr.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "sample", stopped)
    folder = tmp_path / "run"
    done = ggmc("run", TINY, "--out", folder)
    assert done.code == 130
    assert f"`ggmc resume {folder}` goes on.\nStopped." in done.err


SMALLER = {
    "digits": (
        "subset = 1000", "subset = 60", '"20 sweeps"', '"1 sweep"', "size = 250", "size = 20", '"map"', '"apart"',
    ),
    "diabetes": ("widths = [20]", "widths = [2]"),
    "sghmc": ("subset = 1000", "subset = 60", "size = 100", "size = 20", '"5 epochs"', '"1 epoch"'),
}  # fmt: skip


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_examples_run(file: Path, tmp_path: Path) -> None:
    text = file.read_text()
    words = SMALLER[file.stem]
    for before, after in zip(words[::2], words[1::2], strict=True):
        assert before in text
        text = text.replace(before, after)
    if "warmup = 500" in text:
        text = text.replace("warmup = 500", "warmup = 10")
    done = ggmc("run", study(tmp_path, text), "--draws", 3, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    assert done.json()["draws"] == 3
