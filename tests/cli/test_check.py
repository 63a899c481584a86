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


REMEDIES = {
    "breaks_1_sghmc": ("line 4, [kernel] name", 'use name = "amagold", whose positions it shares, or "ggmc"; or adj'),
    "breaks_1_word": ("line 4, [kernel] scheme", 'use scheme = "OBABO", "O(BAB)O" or "O(ABA)O"; or adjust = false'),
    "breaks_2_cosine": ("line 6, [kernel] along", 'use { shape = "there-and-back", of = ... }, or either_way = true'),
    "breaks_3_order": ("line 7, [guide] order", 'use order = "palindrome", "epoch" or "iid"; or adjust = false'),
    "breaks_4_random_guide": ("line 5, [guide]", "make the guide a function of the position"),
    "breaks_4_random_surrogate": ("line 5, [guide]", "make the guide a function of the position"),
    "breaks_5_4_batchnorm": ("line 5, [model] form", 'use form = "frn" or "frn-swish"; or adjust = false'),
    "breaks_5_4_dropout": ("line 4, [model] dropout", "leave dropout out; or adjust = false"),
    "breaks_5_4_free_views": ("line 5, [model] views", 'use views = "frozen", or views = "none" with augment = true'),
    "breaks_5_random_target": ("line 2, [data] python", "make the target a function of the parameters alone"),
    "breaks_6_temperature": ("line 4, [kernel] over", "leave temperature out of [kernel.over]; or adjust = false"),
    "breaks_6_untested": ("line 5, [kernel] adjust", "set adjust = true"),
}


@pytest.mark.parametrize("file", BROKEN, ids=lambda file: file.stem)
def test_what_to_change_and_where(file: Path) -> None:
    told = ggmc("check", file, "--json").json()
    where, change = REMEDIES[file.stem]
    assert told["where"] == f"{file}, {where}"
    assert told["change"].startswith(change)
    assert told["if_tested"] is None


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("breaks_1_word", "GGMC (scheme OBA, exact gradients) on mlp, digits"),
        ("breaks_5_4_batchnorm", "GGMC (exact gradients) on resnet20, cifar10"),
        ("fine_control_variate", "MALT (control-variate in iid order) on mlp, breast_cancer"),
        ("fine_epochs", "GGMC (steps 1 epoch, scheme OBABO, minibatch in epoch order) on resnet20, cifar10"),
        ("fine_python", "HMC (python) on the target of own_code.py:quartic"),
        ("fine_views", "AMAGOLD (minibatch in palindrome order) on cnn, mnist"),
    ],
)
def test_what_is_checked_is_said_in_a_few_words(name: str, summary: str) -> None:
    assert ggmc("check", STUDIES / f"{name}.toml", "--json").json()["summary"] == summary


def test_what_would_break_with_the_test_is_said_too(tmp_path: Path) -> None:
    words = '[data]\nsource = "digits"\n[kernel]\nname = "{}"\nstep_size = 0.1\nadjust = false\n{}'
    told = ggmc("check", study(tmp_path, words.format("ggmc", 'scheme = "OBA"\n')), "--json").json()
    assert told["change"] == "set adjust = true, after changing what is said below"
    assert "the word 'OBA'" in told["if_tested"]
    assert told["where"].endswith("line 6, [kernel] adjust")
    told = ggmc("check", study(tmp_path, words.format("sghmc", "")), "--json").json()
    assert told["change"] == 'use name = "amagold", whose positions it shares, or "ggmc"'
