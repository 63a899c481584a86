"""What holds for all commands: help, versions, plain text, and a message where typer is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ggmc.cli import places
from tests.support.command import ROOT, environment, ggmc, started

COMMANDS = ("run", "resume", "report", "check", "reproduce", "demo", "info")


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command: str) -> None:
    done = ggmc(command, "--help")
    assert done.code == 0
    assert f"  ggmc {command}" in done.out  # an example
    assert "Example" in done.out
    assert "Exit codes: 0" in done.out
    assert "\x1b" not in done.out
    assert all(len(line) <= 100 for line in done.out.splitlines())


def test_alone_it_shows_the_help() -> None:
    done = ggmc()
    assert done.code == 0
    assert all(f"\n  {command}" in done.out for command in COMMANDS)
    assert "..." not in done.out.split("Commands:")[1]  # short helps are whole
    assert done.out == ggmc("--help").out


def test_version() -> None:
    assert ggmc("--version").out.startswith("ggmc 0.")


@pytest.mark.parametrize(
    "words",
    [("run", "s.toml", "--draws"), ("run", "s.toml", "--seed"), ("resume", "r", "-n"), ("reproduce", "x", "-w")],
)
def test_what_is_no_whole_number(words: tuple[str, ...]) -> None:
    done = ggmc(*words, "1.5")
    assert done.code == 2
    assert "must be a whole number, got '1.5'" in done.err


def test_info() -> None:
    done = ggmc("info")
    assert done.code == 0
    assert "torch" in done.out
    assert "GGMC_CIFAR10" in done.out
    told = ggmc("info", "--json").json()
    assert set(told) == {"versions", "platform", "devices", "threads", "cpus", "extras", "data"}
    assert told["extras"]["cli"] is True
    assert told["devices"][0] == "cpu"


def test_completion() -> None:
    process = started(_GGMC_COMPLETE="complete_bash", COMP_WORDS="ggmc re", COMP_CWORD="1")
    out, err = process.communicate(timeout=120)
    assert set(out.split()) == {"resume", "report", "reproduce"}, err


def test_without_typer() -> None:
    program = "import sys; sys.modules['typer'] = None; from ggmc.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.strip() == "the command ggmc needs typer: pip install 'ggmc[cli]'"


def test_demo_runs_the_example(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "demo.py").write_text("print(__name__, 'a demo')")
    monkeypatch.setattr(places, "root", lambda name: tmp_path)
    assert ggmc("demo").out == "__main__ a demo\n"


def test_examples_are_beside_the_package_or_in_it(monkeypatch, tmp_path: Path) -> None:
    assert places.root("examples") == ROOT
    assert (places.root("experiments") / "experiments" / "__init__.py").is_file()
    monkeypatch.setattr(places, "PACKAGE", tmp_path / "site-packages" / "ggmc")
    monkeypatch.setattr(places, "BUNDLED", tmp_path / "bundled")
    (tmp_path / "bundled" / "examples").mkdir(parents=True)
    assert places.root("examples") == tmp_path / "bundled"
    with pytest.raises(ValueError, match="has no experiments"):
        places.root("experiments")
