"""The data that a study names; and, to check a study, a few made-up examples of the same form."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ggmc import datasets
from ggmc.cli.study.read import Study
from ggmc.cli.study.tables import FROM_FILES, SCIKIT_LEARN
from ggmc.errors import BadInput
from ggmc.plain import PlainDict

TEST = 0.2  # share of scikit-learn's sets that is held out
FORMS: dict[str, tuple[tuple[int, ...], int, int]] = {
    "digits": ((1, 8, 8), 10, 1437),
    "breast_cancer": ((30,), 2, 455),
    "diabetes": ((10,), 0, 353),
    "cifar10": ((3, 32, 32), 10, 50_000),
    "mnist": ((1, 28, 28), 10, 60_000),
    "uci": ((8,), 0, 1000),
}
"""The shape of an example, the number of classes (0: numbers), and how many examples there are, by default."""


class Examples(NamedTuple):
    """Training and test examples."""

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    """How many; 0 for numbers."""


def variable(source: str) -> str:
    """The environment variable that says where a data set is, if the study does not."""
    return f"GGMC_{source.upper()}"


def load(study: Study) -> Examples:
    """The data of a study, normalised.

    Args:
        study: With a `source`.
    """
    data = study.table("data")
    return _from_scikit_learn(data) if data["source"] in SCIKIT_LEARN else _from_files(study, data)


def stand_in(study: Study, number: int) -> Examples:
    """Made-up examples of the form of a study's data.

    Args:
        study: With a `source`.
        number: How many.
    """
    shape, classes, _ = FORMS[study.table("data")["source"]]
    generator = torch.Generator("cpu").manual_seed(0)
    x = torch.randn((number, *shape), generator=generator)
    y = torch.arange(number) % classes if classes else torch.randn(number, generator=generator)
    return Examples(x, y, x, y, classes)


def expected_number(study: Study) -> int:
    """How many training examples the data of a study have, as far as that is known without them.

    Args:
        study: With a `source`.
    """
    data = study.table("data")
    return int(data.get("subset", FORMS[data["source"]][2]))


def _from_scikit_learn(data: PlainDict) -> Examples:
    try:
        from sklearn import datasets as sklearn_datasets
    except ImportError as error:
        raise BadInput(f"source = {data['source']!r} needs scikit-learn: pip install 'ggmc[demo]'") from error
    found: Any = vars(sklearn_datasets)[f"load_{data['source']}"]()
    classes = FORMS[data["source"]][1]
    x = torch.tensor(found.images / 8 - 1)[:, None] if data["source"] == "digits" else torch.tensor(found.data)
    y = torch.tensor(found.target)
    order = torch.randperm(len(y), generator=torch.Generator("cpu").manual_seed(data.get("seed", 0)))
    x, y = x[order], y[order]
    held_out = round(len(y) * data.get("test", TEST))
    train, test = slice(held_out, None), slice(0, held_out)
    subset = data.get("subset")
    if subset is not None:
        if subset > len(y) - held_out:
            raise BadInput(f"subset = {subset} is more than the {len(y) - held_out} training examples: use fewer")
        train = slice(held_out, held_out + subset)
    if data["source"] != "digits":
        mean, std = x[train].mean(0), x[train].std(0)
        x = (x - mean) / std
    if not classes:
        y = (y - y[train].mean()) / y[train].std()
    y = y.long() if classes else y.float()
    return Examples(x[train].float(), y[train], x[test].float(), y[test], classes)


def _from_files(study: Study, data: PlainDict) -> Examples:
    source = data["source"]
    path = study.path_of(data["path"]) if "path" in data else os.environ.get(variable(source))
    if not path:
        raise BadInput(f'source = "{source}" needs a path, or the environment variable {variable(source)}')
    some = {name: data[name] for name in ("subset", "seed") if name in data}
    if source == "cifar10":
        found = datasets.cifar10(path, download=data.get("download", False), **some)
    elif source == "mnist":
        found = datasets.mnist(path, **some)
    else:
        found = datasets.uci(data["name"], path, data.get("split", 0))
    known = found.normalised()
    return Examples(known.x, known.y, known.x_test, known.y_test, len(known.classes))


def looked_for() -> dict[str, str | None]:
    """Where data from files are looked for when a study gives no path: the environment variables and their values."""
    return {variable(source): os.environ.get(variable(source)) for source in FROM_FILES}
