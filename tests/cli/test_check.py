"""`ggmc check` names the condition that breaks, for each study file that breaks one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import EXAMPLES, STUDIES, ggmc, study

FINE = sorted(STUDIES.glob("fine_*.toml"))
BROKEN = sorted(STUDIES.glob("breaks_*.toml"))


def test_there_are_enough_of_them() -> None:
    assert len(FINE) >= 6
    assert {file.stem.split("_")[1] for file in BROKEN} == set("123456")


@pytest.mark.parametrize("file", FINE, ids=lambda file: file.stem)
def test_fine(file: Path, monkeypatch) -> None:
    for name in ("CIFAR10", "MNIST", "UCI"):
        monkeypatch.delenv(f"GGMC_{name}", raising=False)  # no data are needed
    done = ggmc("check", file)
    assert done.code == 0, done.out + done.err
    assert done.out.startswith(f"{file}: exact\n")
    assert "BROKEN" not in done.out


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_broken(file: Path) -> None:
    numbers = [int(part) for part in file.stem.split("_") if part.isdecimal()]
    done = ggmc("check", file)
    assert done.code == 1
    assert done.out.startswith(f"{file}: not exact")
    assert done.out.count("BROKEN") == len(numbers)
    told = ggmc("check", file, "--json").json()
    assert told["exact"] is False
    assert told["broken"] == numbers
    assert [each["number"] for each in told["conditions"] if each["holds"] is False] == sorted(numbers)
    assert True not in [each["holds"] for each in told["conditions"]]  # the others were not looked at
    assert told["reason"]
    assert told["change"]
    assert f"{file}, line " in told["where"]


def test_untested_and_not_testable() -> None:
    done = ggmc("check", EXAMPLES / "sghmc.toml")
    assert done.code == 1
    assert "not exact: nothing is rejected" in done.out
    assert 'use name = "amagold"' in done.out
    assert "With adjust = true: SGHMC cannot be Metropolis-corrected" in done.out


def test_untested_for_another_reason(tmp_path: Path) -> None:
    text = '[data]\nsource = "digits"\n[model]\ndropout = 0.1\n[kernel]\nstep_size = 0.1\nadjust = false\n'
    told = ggmc("check", study(tmp_path, text), "--json").json()
    assert told["broken"] == [6]
    assert "Dropout" in told["if_tested"]


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        ("broken", 3, "RuntimeError: the user's own [mistake]"),
        ("not_a_target", 2, "must return a target"),
        ("brokn", 2, "has no function brokn: did you mean broken?"),
    ],
)
def test_code_of_the_users_own_that_fails(function: str, code: int, message: str, tmp_path: Path) -> None:
    done = ggmc("check", study(tmp_path, f'[data]\npython = "{STUDIES / "own_code.py"}:{function}"\n'))
    assert done.code == code
    assert message in done.err
    assert "Traceback" not in done.err
    with pytest.raises(Exception, match=r"user's own|must return|has no function"):
        ggmc("--debug", "check", tmp_path / "study.toml")
