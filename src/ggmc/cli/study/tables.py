"""The tables of a study file: every key, what it may be, and which keys go together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ggmc.bayes import initial_points, likelihoods
from ggmc.bayes.nets.resnet import FORMS
from ggmc.cli.study.fields import (
    BELOW_ONE,
    COUNTS,
    FINITE,
    FRICTION,
    INSIDE,
    NOT_NEGATIVE,
    POSITIVE,
    PYTHON_FUNCTION,
    SHARE,
    SHARES,
    SWITCH,
    WHOLE,
    Kind,
    Plain,
    PlainOrTable,
    Problem,
    Table,
    count,
    is_whole,
    one_of,
    text,
)  # fmt: skip
from ggmc.cli.study.lines import Keys
from ggmc.dynamics.mass import KINDS
from ggmc.guides.control_variate import CURVATURES
from ggmc.guides.orders import ORDERS
from ggmc.kernels.serialise import KERNELS
from ggmc.plain import PlainDict, PlainMapping
from ggmc.trace.run_folder import PRECISIONS

SCIKIT_LEARN = ("digits", "breast_cancer", "diabetes")
FROM_FILES = ("cifar10", "mnist", "uci")
SHAPES: dict[str, tuple[str, ...]] = {
    "flat": (),
    "cosine": ("low",),
    "drops": ("at", "factor"),
    "cyclical": ("cycles", "of"),
    "there-and-back": ("of",),
}
"""Schedules, and the keys that each of them has."""
FAMILIES: dict[str, tuple[str, ...]] = {
    "gaussian": ("scale", "fan_in", "loc"),
    "laplace": ("scale", "fan_in"),
    "student-t": ("df", "scale", "fan_in"),
    "cauchy": ("scale", "fan_in"),
    "generalised-normal": ("power", "scale", "fan_in"),
    "correlated-filters": ("scale", "length_scale", "fan_in"),
    "horseshoe": ("scale",),
    "improper": (),
}
"""Priors, and the keys that each of them has."""
NEEDED_BY_FAMILY = {"student-t": "df", "generalised-normal": "power"}
NETS: dict[str, tuple[str, ...]] = {
    "mlp": ("widths", "activation", "dropout"),
    "cnn": ("widths", "dropout"),
    "resnet20": ("form",),
}
"""Networks, and the keys that each of them has."""
GUIDES: dict[str, tuple[str, ...]] = {
    "exact": (),
    "minibatch": ("size", "order", "seed", "recut", "augment"),
    "control-variate": ("size", "order", "seed", "curvature"),
}
NEEDED_BY_GUIDE = {"minibatch": "size", "control-variate": "size"}
NOISY = ("gaussian", "student-t")


class Schedule(Kind):
    """A schedule: its shape's name, or a table with it and its numbers."""

    says = f'one of {", ".join(SHAPES)}, or a table such as {{ shape = "cosine", low = 0.1 }}'
    _numbers: Mapping[str, Kind] = {"low": NOT_NEGATIVE, "at": SHARES, "factor": POSITIVE, "cycles": count()}

    def problems(self, value: Any, keys: Keys) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield from Plain(self.says, lambda given: given in SHAPES, tuple(SHAPES)).problems(value, keys)
            if value == "cyclical":
                yield Problem(keys, 'needs its number of cycles: { shape = "cyclical", cycles = 4 }')
            return
        yield from Table({"shape": one_of(*SHAPES), **self._numbers, "of": self}, ("shape",)).problems(value, keys)
        shape = value.get("shape")
        if shape in SHAPES:
            yield from only_for(value, keys, "shape", shape, SHAPES)
            if shape == "cyclical" and "cycles" not in value:
                yield Problem(keys, "needs the key cycles, a whole number of at least 1")


@dataclass(frozen=True)
class Prior(Kind):
    """One prior for all weights, or one for each pattern of their names."""

    says: str = "a table"

    def problems(self, value: Any, keys: Keys) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield from Table(_ONE_PRIOR).problems(value, keys)
        elif not any(isinstance(item, dict) for item in value.values()):
            yield from self._one(value, keys)
        else:
            for name, item in value.items():
                if isinstance(item, dict):
                    yield from self._one(item, (*keys, name))
                else:
                    yield Problem((*keys, name), 'must be a table, as the other patterns are: [prior."*.bias"]')

    def _one(self, value: PlainDict, keys: Keys) -> Iterator[Problem]:
        yield from Table(_ONE_PRIOR).problems(value, keys)
        family = value.get("family", "gaussian")
        if family in FAMILIES:
            yield from only_for(value, keys, "family", family, FAMILIES)
            needed = NEEDED_BY_FAMILY.get(family)
            if needed and needed not in value:
                yield Problem(keys, f'family = "{family}" needs the key {needed}, a positive number')


def only_for(
    value: PlainMapping, keys: Keys, key: str, name: str, having: Mapping[str, tuple[str, ...]]
) -> Iterator[Problem]:
    """Keys that belong to another kind of the same thing.

    Args:
        value: The table.
        keys: Where it stands.
        key: That which says which kind it is.
        name: The kind.
        having: The keys of each kind.
    """
    for other in value:
        owners = [owner for owner, own in having.items() if other in own]
        if owners and name not in owners:
            yield Problem((*keys, other), f'belongs to {key} = "{" or ".join(owners)}", not to "{name}": leave it out')


_ONE_PRIOR: dict[str, Kind] = {
    "family": one_of(*FAMILIES),
    "scale": POSITIVE,
    "fan_in": SWITCH,
    "loc": FINITE,
    "df": POSITIVE,
    "power": POSITIVE,
    "length_scale": POSITIVE,
}
_VIEWS: dict[str, Kind] = {"pad": count(0), "flip": SWITCH}
_STEPS = Plain(
    'a whole number of at least 1, a pair [least, most], or text such as "3 epochs" or "2 sweeps"',
    lambda value: (
        is_whole(value, 1)
        or (isinstance(value, list) and len(value) == 2 and all(is_whole(n, 1) for n in value) and value[0] <= value[1])
        or (isinstance(value, str) and re.fullmatch(r"[1-9]\d* (step|sweep|epoch)s?", value) is not None)
    ),
)
_SIZE = Plain('a whole number of at least 1, or "auto"', lambda value: value == "auto" or is_whole(value, 1), ("auto",))
_NOISE = PlainOrTable(
    Plain(
        'a positive number, "learnt" (found before sampling), or { half_normal = 1.0 } (sampled with the weights)',
        lambda value: value == "learnt" or (not isinstance(value, str) and POSITIVE.fits(value)),
        ("learnt",),
    ),
    Table({"half_normal": POSITIVE}, ("half_normal",)),
)
_KERNEL_NAMES = tuple(name.lower() for name in KERNELS)

DATA: dict[str, Kind] = {
    "source": one_of(*SCIKIT_LEARN, *FROM_FILES),
    "python": PYTHON_FUNCTION,
    "path": text("where the files are"),
    "name": text("the name of a UCI data set"),
    "split": count(0),
    "subset": count(),
    "test": BELOW_ONE,
    "seed": count(0),
    "download": SWITCH,
}
MODEL: dict[str, Kind] = {
    "net": one_of(*NETS, python="makes a torch module"),
    "widths": COUNTS,
    "activation": one_of("relu", "tanh", "swish"),
    "form": one_of(*FORMS),
    "dropout": BELOW_ONE,
    "likelihood": one_of(*likelihoods.NAMES),
    "noise": _NOISE,
    "df": POSITIVE,
    "start": one_of(*initial_points.NAMES),
    "jitter": NOT_NEGATIVE,
    "views": PlainOrTable(
        one_of("none", "frozen", "free"),
        Table({"kind": one_of("frozen", "free"), "number": count(), "seed": count(0), **_VIEWS}, ("kind",)),
    ),
    "vectorise": SWITCH,
    "double": SWITCH,
}
KERNEL: dict[str, Kind] = {
    "name": Plain(
        f"one of {', '.join(_KERNEL_NAMES)}",
        lambda value: isinstance(value, str) and value.lower() in _KERNEL_NAMES,
        _KERNEL_NAMES,
    ),
    "step_size": POSITIVE,
    "friction": FRICTION,
    "learning_rate": POSITIVE,
    "momentum": SHARE,
    "steps": _STEPS,
    "scheme": text("a word of the letters O, B and A, such as OBABO, O(ABA)O or O(BCSS3)O"),
    "temperature": NOT_NEGATIVE,
    "mass": one_of(*KINDS),
    "adjust": SWITCH,
    "fresh_momentum": SWITCH,
    "monitor_every": count(),
    "explain": SHARE,
    "thermal_mass": POSITIVE,
    "along": Table({"step_size": Schedule(), "temperature": Schedule(), "either_way": SWITCH}),
    "over": Table({"period": count(), "step_size": Schedule(), "temperature": Schedule()}, ("period",)),
}
GUIDE: dict[str, Kind] = {
    "name": one_of(*GUIDES),
    "size": _SIZE,
    "order": one_of(*ORDERS, python="draws the batches"),
    "seed": count(0),
    "recut": SWITCH,
    "augment": PlainOrTable(SWITCH, Table(_VIEWS)),
    "curvature": one_of(*CURVATURES),
    "python": PYTHON_FUNCTION,
}
RUN: dict[str, Kind] = {
    "draws": count(),
    "warmup": count(0),
    "chains": count(),
    "seed": WHOLE,
    "out": text("a folder"),
    "checkpoint_every": NOT_NEGATIVE,
    "precision": one_of(*PRECISIONS),
    "thin": count(),
    "target_accept": INSIDE,
    "anneal": POSITIVE,
}
STUDY: dict[str, Kind] = {
    "data": Table(DATA),
    "model": Table(MODEL),
    "prior": Prior(),
    "kernel": Table(KERNEL),
    "guide": Table(GUIDE),
    "run": Table(RUN),
}
