"""What the root of a run's folder must say, so that what reads it can rely on it: it may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from ggmc.errors import BadInput
from ggmc.plain import PlainDict

LARGEST_CHUNK = 2 * 2**30  # bytes, unpacked


def check_name(name: object) -> None:
    """Refuse a name that cannot be a folder of its own inside a store."""
    if not isinstance(name, str) or not name or any(sign in name for sign in "/\\\0"):
        raise BadInput(f"the name {name!r} cannot be stored on disk: use a name without '/', that begins with a letter")
    if name.startswith((".", "__")) or name == "zarr.json":
        raise BadInput(f"the name {name!r} cannot be stored on disk: use a name without '/', that begins with a letter")


def is_count(value: object, least: int = 0) -> bool:
    """Whether it is a whole number of at least `least`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_list_of(kind: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_fingerprint(value: object) -> bool:
    def are_numbers(found: object) -> bool:
        return isinstance(found, list) and all(number is None or isinstance(number, int | float) for number in found)

    return isinstance(value, dict) and all(are_numbers(value.get(name, [])) for name in ("potentials", "gradients"))


MUST_BE: dict[str, Callable[[Any], bool]] = {
    "kernel": _is_dict,
    "tuned_kernel": lambda value: value is None or isinstance(value, dict),
    "settings": lambda value: value is None or isinstance(value, dict),
    "fingerprint": _is_fingerprint,
    "attributes": _is_dict,
    "warnings": _is_list_of(str),
    "remarks": _is_list_of(str),
    "layout": _is_dict,
    "transformed": _is_list_of(str),
    "precision": lambda value: value in (None, "float64", "float32", "bfloat16"),
    "thin": lambda value: is_count(value, 1),
    "predictions_only": lambda value: isinstance(value, bool),
}


def check_settings(settings: PlainDict) -> None:
    """Refuse settings that no run has.

    Args:
        settings: Of the root.
    """
    for name, fits in MUST_BE.items():
        if not fits(settings[name]):
            raise BadInput(f"its {name} is {str(settings[name])[:100]}, which no run of ggmc has")
    for name, shape in settings["layout"].items():
        check_name(name)
        if not isinstance(shape, list) or not all(map(is_count, shape)) or math.prod(shape) * 2 > LARGEST_CHUNK:
            raise BadInput(f"the layout gives {name!r} the shape {shape!r}")
    if not settings["layout"]:
        raise BadInput("the layout names no tensors")


def check_arrays(settings: PlainDict, shapes: dict[str, list[int]]) -> None:
    """Refuse arrays that are not those of the settings.

    Args:
        settings: Of the root, checked.
        shapes: Of the arrays [chains, draws, ...] by path; none where there are no draws yet.
    """
    if not shapes:
        return
    if len({shape[1] for shape in shapes.values()}) > 1:
        raise BadInput(f"its arrays have different numbers of draws, {sorted({s[1] for s in shapes.values()})}")
    if len({shape[0] for shape in shapes.values()}) > 1:
        raise BadInput(f"its arrays have different numbers of chains, {sorted({s[0] for s in shapes.values()})}")
    for path, wanted in _needed(settings):
        found = shapes.get(path)
        if found is None or (wanted is not None and found[2:] != wanted):
            what = "is missing" if found is None else f"has the shape {found}"
            raise BadInput(f"the array {path} {what}, which does not agree with the layout")


def _needed(settings: PlainDict) -> Iterator[tuple[str, list[int] | None]]:
    yield "sample_stats/lp", []
    if settings["predictions_only"]:
        yield "predictions/prediction", None
        return
    for name, shape in settings["layout"].items():
        yield f"{'unconstrained_posterior' if name in settings['transformed'] else 'posterior'}/{name}", shape
