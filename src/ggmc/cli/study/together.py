"""Everything wrong with a study: its keys by themselves, and keys that do not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from ggmc.cli.study.fields import PYTHON, Problem, near, shown
from ggmc.cli.study.lines import Keys
from ggmc.cli.study.tables import (
    DATA,
    FROM_FILES,
    GUIDE,
    GUIDES,
    KERNEL,
    NEEDED_BY_GUIDE,
    NETS,
    NOISY,
    SCIKIT_LEARN,
    STUDY,
    only_for,
)  # fmt: skip
from ggmc.kernels.serialise import KERNELS
from ggmc.plain import PlainDict, PlainMapping


def problems_of(study: PlainMapping) -> list[Problem]:
    """Everything wrong with a study, keys by themselves first.

    Args:
        study: Its tables.
    """
    found: list[Problem] = []
    for name, value in study.items():
        if name in STUDY:
            found += STUDY[name].problems(value, (name,))
        else:
            what = "table" if isinstance(value, dict) else "key outside a table"
            hint = near(name, STUDY) or f". Tables are {', '.join(STUDY)}"
            found.append(Problem((name,), f"there is no such {what}{hint}"))
    tables = {name: study[name] for name in STUDY if isinstance(study.get(name), dict)}
    seen = {problem.keys for problem in found}
    return found + [problem for problem in _together(tables) if problem.keys not in seen]


def _together(tables: Mapping[str, PlainDict]) -> Iterator[Problem]:
    """Keys that contradict each other, or are of no use without another."""
    yield from _data(tables)
    yield from _model(tables.get("model", {}))
    yield from _kernel(tables.get("kernel", {}), tables)
    yield from _guide(tables.get("guide", {}))


def _data(tables: Mapping[str, PlainDict]) -> Iterator[Problem]:
    data = tables.get("data", {})
    source, python = data.get("source"), data.get("python")
    if any(name not in DATA and near(name, ("source", "python")) for name in data):
        return  # a key that is misspelt: that is said already
    if (source is None) == (python is None):
        both = "has both source and python: give one of them" if source is not None else "needs"
        remedy = "" if source is not None else f" the key source, one of {', '.join((*SCIKIT_LEARN, *FROM_FILES))}, or "
        end = "" if source is not None else 'python = "file.py:function", which makes a target of your own'
        yield Problem(("data",), f"{both}{remedy}{end}")
        return
    if python is not None:
        for name in data:
            if name != "python":
                yield Problem(
                    ("data", name), "is of no use beside python, whose function makes the target: leave it out"
                )
        for name in ("model", "prior"):
            if name in tables:
                yield Problem(
                    (name,), "is of no use beside [data] python, whose function makes the target: leave it out"
                )
        return
    owners = {
        "path": FROM_FILES,
        "name": ("uci",),
        "split": ("uci",),
        "subset": (*SCIKIT_LEARN, "cifar10", "mnist"),
        "test": SCIKIT_LEARN,
        "seed": (*SCIKIT_LEARN, "cifar10", "mnist"),
        "download": ("cifar10",),
    }
    for name, sources in owners.items():
        if name in data and isinstance(source, str) and source not in sources:
            yield Problem(("data", name), f"belongs to source = {' or '.join(map(shown, sources))}: leave it out")
    if source == "uci" and "name" not in data:
        yield Problem(("data",), 'source = "uci" needs the key name, such as "yacht"')


def _model(model: PlainMapping) -> Iterator[Problem]:
    net, likelihood = model.get("net", "mlp"), model.get("likelihood")
    if isinstance(net, str):
        yield from only_for(model, ("model",), "net", net, NETS)
    if likelihood is not None:
        for name, owners in (("noise", NOISY), ("df", ("student-t",))):
            if name in model and likelihood not in owners:
                yield Problem(
                    ("model", name), f"belongs to likelihood = {' or '.join(map(shown, owners))}: leave it out"
                )


def _kernel(kernel: PlainMapping, tables: Mapping[str, PlainDict]) -> Iterator[Problem]:
    name = kernel.get("name", "ggmc")
    if not isinstance(name, str) or name.upper() not in KERNELS:
        return
    own = {field.name for field in fields(KERNELS[name.upper()])} - {"guide"}  # pyright: ignore[reportArgumentType]
    own |= {"name", "learning_rate"} | ({"momentum"} if "friction" in own else set())
    for key in kernel:
        if key in KERNEL and key not in own:
            known = ", ".join(sorted(own - {"name"}))
            yield Problem(("kernel", key), f"is no setting of {name}, which has {known}")
    for one, other in (("learning_rate", "step_size"), ("momentum", "friction")):
        if one in kernel and other in kernel:
            yield Problem(("kernel", one), f"says the same as {other}: give one of them")
    if "momentum" in kernel and "learning_rate" not in kernel and "friction" not in kernel:
        yield Problem(("kernel", "momentum"), "needs learning_rate beside it; with a step_size, give friction")


def _guide(guide: PlainMapping) -> Iterator[Problem]:
    if "python" in guide:
        for key in guide:
            if key != "python":
                yield Problem(
                    ("guide", key), "is of no use beside python, whose function makes the guide: leave it out"
                )
        return
    name = guide.get("name", "minibatch" if guide else "exact")
    if name in GUIDES:
        yield from only_for(guide, ("guide",), "name", name, GUIDES)
        needed = NEEDED_BY_GUIDE.get(name)
        if needed is not None and needed not in guide:
            yield Problem(("guide",), f'name = "{name}" needs the key {needed}, {GUIDE[needed].says}')


def python_functions(study: PlainMapping) -> list[tuple[Keys, str]]:
    """The functions of the user's own that a study names, and where.

    Args:
        study: Its tables, without problems.
    """
    places: list[Keys] = [("data", "python"), ("model", "net"), ("guide", "order"), ("guide", "python")]
    given = [(keys, study.get(keys[0], {}).get(keys[1])) for keys in places]
    return [(keys, value) for keys, value in given if isinstance(value, str) and PYTHON.fullmatch(value)]
