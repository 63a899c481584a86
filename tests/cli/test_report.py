"""`ggmc report` gives the runs, the target and the data held out to `ggmc.report.write`."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc as library
from ggmc.cli.build import build
from ggmc.cli.study.fields import as_toml
from ggmc.cli.study.read import read
from tests.support.command import STUDIES, ggmc, study

TINY = STUDIES / "tiny.toml"


@pytest.fixture
def written(monkeypatch) -> dict[str, Any]:
    """What the report was asked for."""
    seen: dict[str, Any] = {}

    def write(traces: Any, path: Path, **given: Any) -> Path:
        seen.update(given, traces=traces)
        path.write_text("<html>")
        return path

    monkeypatch.setattr(library.report, "write", write)
    return seen


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("a", "b"):
        assert ggmc("run", TINY, "--out", folder / name, "--draws", 2, "--quiet").code == 0
    return folder


def test_one_run(written: dict[str, Any], runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = ggmc("report", runs / "a", "--out", page, "--title", "A title")
    assert done.code == 0, done.err
    assert done.out == f"Wrote {page}\n"
    assert list(written["traces"]) == ["a"]
    assert written["title"] == "A title"
    assert written["traces"]["a"].target.num_data == 60
    held_out: Any = build(read(TINY))
    assert torch.equal(written["x_test"], held_out.x_test)
    assert torch.equal(written["y_test"], held_out.y_test)
    assert (written["x_test"].shape, written["y_test"].shape) == ((114, 30), (114,))
    (_, made), (_, text) = written["command"]["a"]
    assert made == f"ggmc run {TINY} --out {runs / 'a'} --draws 2 --seed 0"
    assert tomllib.loads(text)["data"] == tomllib.loads(TINY.read_text())["data"]


def test_the_page_itself(runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = ggmc("report", runs / "a", runs / "b", "--out", page)
    assert done.code == 0, done.err
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert f"ggmc run {TINY} --out {runs / 'b'} --draws 2" in text
    assert "This is its study." in text


def test_several_runs(written: dict[str, Any], runs: Path, tmp_path: Path) -> None:
    done = ggmc("report", runs / "a", runs / "b", "--out", tmp_path / "page.html")
    assert done.code == 0
    assert list(written["traces"]) == ["a", "b"]
    assert written["traces"]["a"].target is written["traces"]["b"].target  # made once


@pytest.mark.parametrize(("table", "tested"), [("[prior]\nscale = 2.0", True), ("[data]\nsubset = 50", False)])
def test_each_run_is_judged_by_its_own_target(
    table: str, tested: bool, written: dict[str, Any], runs: Path, tmp_path: Path
) -> None:
    name, line = table.split("\n")
    tables = tomllib.loads(TINY.read_text())
    tables[name[1:-1]] = tables.get(name[1:-1], {}) | tomllib.loads(line)
    assert ggmc("run", study(tmp_path, as_toml(tables)), "--out", tmp_path / "c", "-n", 2, "--quiet").code == 0
    done = ggmc("report", runs / "a", tmp_path / "c", "--out", tmp_path / "page.html")
    assert done.code == 0, done.err
    first, second = (trace.target for trace in written["traces"].values())
    assert None not in (first, second)
    assert first is not second
    assert (written["x_test"] is not None) == tested
    assert ("of different data" in done.err) != tested


def test_a_run_made_in_python(written: dict[str, Any], tmp_path: Path) -> None:
    target = library.Density(lambda x: -(x**2).sum(), torch.zeros(1, dtype=torch.float64))
    library.sample(target, library.HMC(0.1, 2), draws=3, warmup=0, out=tmp_path / "run", progress=False)
    done = ggmc("report", tmp_path / "run", "--out", tmp_path / "page.html")
    assert done.code == 0
    assert "the report has no predictions" in done.err
    assert written["traces"]["run"].target is None
    assert written["command"] == {"run": []}


def test_the_command_of_a_thinned_run_that_was_made_longer(written: dict[str, Any], tmp_path: Path) -> None:
    thinned = study(tmp_path, TINY.read_text().replace("[run]", "[run]\nthin = 3"))
    assert ggmc("run", thinned, "--out", tmp_path / "run", "--seed", 5, "--draws", 6, "--quiet").code == 0
    assert ggmc("resume", tmp_path / "run", "--draws", 10, "--quiet").code == 0
    assert ggmc("report", tmp_path / "run", "--out", tmp_path / "page.html").code == 0
    (_, made), _ = written["command"]["run"]
    assert made == f"ggmc run {thinned} --out {tmp_path / 'run'} --draws 10 --seed 5"


def test_folders_of_one_name_are_told_apart(written: dict[str, Any], runs: Path, tmp_path: Path) -> None:
    other = shutil.copytree(runs / "a", tmp_path / "a")
    assert ggmc("report", runs / "a", other, runs / "b", "--out", tmp_path / "page.html").code == 0
    assert list(written["traces"]) == list(written["command"]) == [str(runs / "a"), str(other), "b"]
    assert written["traces"][str(other)].store.path == other
    assert f"--out {other}" in written["command"][str(other)][0][1]


def test_no_run(written: dict[str, Any], tmp_path: Path) -> None:
    done = ggmc("report", tmp_path)
    assert done.code == 2
    assert "there is no run in" in done.err
