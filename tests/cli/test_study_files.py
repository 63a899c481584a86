"""Study files with mistakes: each is named with its line, its value and the remedy, all of them at once."""

# ruff: noqa: E501  (messages are quoted on one line)

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ggmc.cli.build import build
from ggmc.cli.study.fields import as_toml
from ggmc.cli.study.read import read
from ggmc.errors import BadInput
from tests.support.command import EXAMPLES, STUDIES, ggmc, study

DATA = '[data]\nsource = "digits"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[dta]\nsource = "digits"', "line 1, [dta]: there is no such table: did you mean data?"),
        ("seed = 1\n" + DATA, "line 1, seed: there is no such key outside a table. Tables are data, model"),
        ("", "[data]: needs the key source, one of digits"),
        ('[data]\nsource = "digits"\npython = "a.py:b"', "line 1, [data]: has both source and python"),
        ('[data]\nsourse = "digits"', "line 2, [data] sourse: there is no such key: did you mean source?"),
        ('[data]\nsource = "digit"', 'line 2, [data] source: must be one of digits, breast_cancer'),
        ('[data]\nsource = "digit"', 'got "digit": did you mean digits?'),
        ('[data]\nsource = 3', "got 3"),
        (DATA + "split = 1", 'line 3, [data] split: belongs to source = "uci": leave it out'),
        ('[data]\nsource = "uci"', '[data]: source = "uci" needs the key name, such as "yacht"'),
        (DATA + "subset = true", "line 3, [data] subset: must be a whole number of at least 1, got true"),
        (DATA + "test = 1.0", "line 3, [data] test: must be a number from 0 to below 1, got 1.0"),
        ('[data]\npython = "make"', 'must be text of the form "file.py:function", got "make"'),
        ('[data]\npython = "a.py:b"\n[model]\nnet = "mlp"', "line 3, [model]: is of no use beside [data] python"),
        (DATA + "[model]\nnet = \"mpl\"", 'line 4, [model] net: must be one of mlp, cnn, resnet20, or "file.py:function"'),
        (DATA + '[model]\nform = "frn"', 'line 4, [model] form: belongs to net = "resnet20", not to "mlp"'),
        (DATA + "[model]\nwidths = 50", "must be a list of whole numbers of at least 1, such as [50, 50], got 50"),
        (DATA + '[model]\nlikelihood = "poisson"\nnoise = 1', 'line 5, [model] noise: belongs to likelihood = "gaussian" or'),
        (DATA + '[model]\nviews = { kind = "frosen" }', 'line 4, [model.views] kind: must be one of frozen, free'),
        (DATA + '[prior]\nfamily = "student-t"', 'line 3, [prior]: family = "student-t" needs the key df'),
        (DATA + '[prior]\ndf = 3', 'line 4, [prior] df: belongs to family = "student-t", not to "gaussian"'),
        (DATA + '[prior."*.bias"]\nscale = -1', 'line 4, [prior."*.bias"] scale: must be a positive number, got -1'),
        (DATA + '[prior]\nscale = 1\n[prior."*"]\nscale = 2', "line 4, [prior] scale: must be a table, as the other"),
        (DATA + '[kernel]\nname = "hcm"', 'got "hcm": did you mean hmc?'),
        (DATA + '[kernel]\nname = "hmc"\nfriction = 1', "line 5, [kernel] friction: is no setting of hmc, which has"),
        (DATA + "[kernel]\nlearning_rate = 0.1\nstep_size = 0.1", "line 4, [kernel] learning_rate: says the same as step_size"),
        (DATA + "[kernel]\nmomentum = 0.9", "line 4, [kernel] momentum: needs learning_rate beside it"),
        (DATA + '[kernel]\nsteps = "3 passes"', 'or text such as "3 epochs" or "2 sweeps", got "3 passes"'),
        (DATA + "[kernel]\nsteps = [8, 5]", "a pair [least, most], or text"),
        (DATA + '[kernel]\nalong = { step_size = "cosin" }', 'line 4, [kernel.along] step_size: must be one of flat, cosine'),
        (DATA + '[kernel.over]\nstep_size = "cosine"', "line 3, [kernel.over]: needs the key period"),
        (DATA + '[kernel.along]\nstep_size = "cyclical"', "needs its number of cycles"),
        (DATA + '[kernel.along]\nstep_size = { shape = "flat", low = 1 }', 'belongs to shape = "cosine", not to "flat"'),
        (DATA + '[guide]\norder = "iid"', 'line 3, [guide]: name = "minibatch" needs the key size'),
        (DATA + '[guide]\nname = "control-variate"\nsize = 10\nrecut = true', 'line 6, [guide] recut: belongs to name = "minibatch"'),
        (DATA + "[guide]\nsize = 0", 'must be a whole number of at least 1, or "auto", got 0'),
        (DATA + '[run]\nprecision = "float16"', "must be one of float64, float32, bfloat16"),
        (DATA + "[run]\nseed = 1.5", "line 4, [run] seed: must be a whole number, got 1.5"),
        (DATA + "[run]\ntarget_accept = 1", "must be a number between 0 and 1, neither of them, got 1"),
        (DATA + "run = 3", "line 3, [data] run: there is no such key"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str, tmp_path: Path) -> None:
    file = study(tmp_path, text)
    done = ggmc("check", file)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith(f"error: {file} has ")
    assert message in done.err, done.err


def test_all_mistakes_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = '[data]\nsource = "digits"\n[kernel]\nfriction = -1\n\nstep_sise = 1\n[run]\ndraws = 0\n'
    with pytest.raises(BadInput) as error:
        read(study(tmp_path, text))
    lines = str(error.value).splitlines()
    assert lines[0].endswith("has 3 problems:")
    assert [line.split(",")[0].strip() for line in lines[1:]] == ["line 4", "line 6", "line 8"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[data\n", "is not valid TOML: Expected ']'"),
        (b'[data]\nsource = "digits\n', "line 2"),
        (b"[run]\ndraws = 1\ndraws = 2", "line 3, the end of the document"),
        (b"\xff\xfe", "is not text in UTF-8"),
        (b"#" * 2_000_000, "too many for a study file"),
    ],
)
def test_files_that_are_no_toml(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_bytes(content)
    done = ggmc("run", file)
    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize("file", [*EXAMPLES.glob("*.toml"), *STUDIES.glob("*.toml")], ids=lambda file: file.stem)
def test_a_study_written_as_a_file_is_the_same(file: Path) -> None:
    tables = tomllib.loads(file.read_text())
    assert tomllib.loads(as_toml(tables)) == tables


def test_files_that_are_not_there(tmp_path: Path) -> None:
    study(tmp_path, DATA, "digits.toml")
    assert "has digits.toml" in ggmc("run", tmp_path / "digit.toml").err
    assert "there is no folder" in ggmc("run", tmp_path / "no" / "digit.toml").err
    assert "is a folder: give a study file" in ggmc("run", tmp_path).err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[data]\nsource = "cifar10"', "line 1, [data]: source = \"cifar10\" needs a path, or the environment variable"),
        ('[data]\nsource = "mnist"\npath = "nowhere"', "there is no MNIST at"),
        ('[data]\nsource = "diabetes"\n[model]\nnet = "cnn"', 'line 3, [model]: net = "cnn" needs images'),
        ('[data]\nsource = "diabetes"\n[model]\nlikelihood = "categorical"', 'line 4, [model] likelihood: "categorical" needs'),
        (DATA + "subset = 100000", "line 1, [data]: subset = 100000 is more than the 1438 training examples"),
        ('[data]\npython = "nothing.py:f"', "line 2, [data] python: there is no file"),
        (DATA + '[kernel]\nname = "sgld"', "line 3, [kernel]: sgld has no warm-up that finds its step"),
        (DATA + '[prior."convolution*"]\nscale = 1.0', "line 3, [prior]: 'convolution*' matches none"),
    ],
)  # fmt: skip
def test_mistakes_that_only_building_shows(text: str, message: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("GGMC_CIFAR10", raising=False)
    with pytest.raises(BadInput) as error:
        build(read(study(tmp_path, text)))
    assert message in str(error.value), str(error.value)
