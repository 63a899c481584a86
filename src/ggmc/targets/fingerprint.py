"""A target's fingerprint: plain facts by which a resumed run knows that it still samples the same target.

Functions cannot be compared, but what they give can: besides names, shapes, precision and the data's checksum, the
fingerprint has a few numbers at fixed points. These are potentials or, where a potential would be a pass over all data,
the gradients of one small batch, prior included. Points are near zero, not near the target's start: a network that is
built anew begins elsewhere, and is the same target.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ggmc.plain import PlainDict
from ggmc.targets.base import DataTarget, Target
from ggmc.targets.data import Data

POINTS = 3
SOME = 64  # examples of the small batch; where data cannot all be kept in memory, those that are compared
AT_ONCE = 4096
TOLERANCE = {"float64": 1e-6, "float32": 1e-3}  # relative: another machine or program rounds differently

NAMES = {
    "kind": "its kind",
    "tensors": "its tensors",
    "precision": "its precision",
    "examples": "its number of examples",
    "data": "the checksum of its data",
}


def fingerprint(target: Target) -> PlainDict:
    """The facts, ready for JSON.

    Args:
        target: The target.

    Example:
        >>> import torch, ggmc
        >>> from ggmc.targets.fingerprint import differences, fingerprint
        >>> def gaussian(width):
        ...     return ggmc.Density(lambda x: -(x**2).sum() / (2 * width**2), torch.zeros(2, dtype=torch.float64))
        >>> differences(fingerprint(gaussian(1.0)), gaussian(1.0))
        []
        >>> differences(fingerprint(gaussian(1.0)), gaussian(2.0))
        ['its potential at a fixed point was 0.0123038, is 0.00307596']
    """
    facts: PlainDict = {
        "kind": type(target).__name__,
        "tensors": {name: list(shape) for name, shape in target.layout.shapes.items()},
        "precision": str(target.dtype).removeprefix("torch."),
    }
    if isinstance(target, DataTarget):
        facts |= {"examples": target.num_data, "data": _checksum(target.data)}
    if target.not_exact is not None:  # it gives other numbers at each call
        return facts
    if isinstance(target, DataTarget):
        return facts | {"gradients": _at_points(target, _batch_gradient(target))}
    return facts | {"potentials": _at_points(target, lambda row: target.potential(row[None]).item())}


def differences(stored: PlainDict, target: Target) -> list[str]:
    """What a target has otherwise than the one whose fingerprint was stored; nothing if it is the same.

    Args:
        stored: From `fingerprint`.
        target: The target.
    """
    return compared(stored, fingerprint(target))


def compared(stored: PlainDict, now: PlainDict) -> list[str]:
    """What differs between two fingerprints.

    Args:
        stored: From `fingerprint`.
        now: Likewise.
    """
    found = [
        f"{what} was {stored.get(key)!r}, is {now.get(key)!r}"
        for key, what in NAMES.items()
        if stored.get(key) != now.get(key)
    ]
    if found:  # then its numbers differ too, and say nothing more
        return found
    tolerance = TOLERANCE.get(now["precision"], 1e-2)
    for key, what in (("potentials", "its potential"), ("gradients", "its gradient's size")):
        for before, after in zip(stored.get(key, []), now.get(key, []), strict=False):
            if before != after and not _close(before, after, tolerance):
                return [f"{what} at a fixed point was {_shown(before)}, is {_shown(after)}"]
    return []


def _close(a: float | None, b: float | None, tolerance: float) -> bool:
    return a is not None and b is not None and math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def _shown(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.6g}"


def _at_points(target: Target, function: Callable[[Tensor], float]) -> list[float | None]:
    """A function's values at a few fixed rows near zero or, where it has none there, near the start."""
    generator = torch.Generator("cpu").manual_seed(0)
    found: list[float | None] = []
    for _ in range(POINTS):
        noise = torch.randn(target.start.shape, generator=generator, dtype=torch.float64, device="cpu")
        row = 0.1 * noise.to(target.start)
        value = function(row)
        if not math.isfinite(value):
            value = function(target.start + row)
        found.append(value if math.isfinite(value) else None)
    return found


def _batch_gradient(target: DataTarget) -> Callable[[Tensor], float]:
    """The size of the gradient of prior and a few examples, each with another weight."""
    number = min(SOME, target.num_data)
    batch = target.data.take(_some(target.data, number)[None])
    weights = torch.linspace(1.0, 2.0, number, dtype=target.dtype, device=target.device)[None]

    def size(row: Tensor) -> float:
        return target.batch_gradient(row[None], batch, weights).double().norm().item()

    return size


def _some(data: Data, number: int) -> Tensor:
    return torch.arange(number, device=data.device) * len(data) // number


def _checksum(data: Data) -> str:
    """SHA-256 of all examples, or of some where they are read on demand."""
    found = hashlib.sha256()
    if math.isinf(data.bytes):
        trees = iter([data.take(_some(data, min(SOME, len(data))))])
    else:
        trees = (data.slice(begin, begin + AT_ONCE) for begin in range(0, len(data), AT_ONCE))
    for tree in trees:
        for leaf in tree_leaves(tree):
            if isinstance(leaf, Tensor):
                found.update(f"{leaf.dtype} {list(leaf.shape)}".encode())
                found.update(leaf.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
            else:
                found.update(repr(leaf).encode())
    return found.hexdigest()
