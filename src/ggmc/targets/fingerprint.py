"""A target's fingerprint: plain facts by which a resumed run knows that it still samples the same target.

Functions cannot be compared, but what they give can: besides names, shapes, precision and the data's checksum, the
fingerprint has the potential at three fixed points.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ggmc.targets.base import DataTarget, Target
from ggmc.targets.data import Data

POINTS = 3
SOME = 64  # examples, where data cannot all be kept in memory: those are read and compared
AT_ONCE = 4096
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # relative: another machine or program rounds differently


def fingerprint(target: Target) -> dict[str, Any]:
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
    facts: dict[str, Any] = {
        "kind": type(target).__name__,
        "tensors": {name: list(shape) for name, shape in target.layout.shapes.items()},
        "precision": str(target.dtype).removeprefix("torch."),
    }
    if isinstance(target, DataTarget):
        facts |= {"examples": target.num_data, "data": _checksum(target.data)}
    if target.not_exact is None:  # else its potential is another one at each call
        facts["potentials"] = [_potential(target, row) for row in _points(target)]
    return facts


def differences(stored: dict[str, Any], target: Target) -> list[str]:
    """What a target has otherwise than the one whose fingerprint was stored; nothing if it is the same.

    Args:
        stored: From `fingerprint`.
        target: The target.
    """
    names = {
        "kind": "its kind",
        "tensors": "its tensors",
        "precision": "its precision",
        "examples": "its number of examples",
        "data": "the checksum of its data",
    }
    now = fingerprint(target)
    found = [
        f"{what} was {stored.get(key)!r}, is {now.get(key)!r}"
        for key, what in names.items()
        if stored.get(key) != now.get(key)
    ]
    if found:  # then the potential differs too, and says nothing more
        return found
    tolerance = TOLERANCE.get(target.dtype, 1e-2)
    for before, after in zip(stored.get("potentials", []), now.get("potentials", []), strict=False):
        if before != after and not _close(before, after, tolerance):
            return [f"its potential at a fixed point was {before:.6g}, is {after:.6g}"]
    return []


def _close(a: float | None, b: float | None, tolerance: float) -> bool:
    return a is not None and b is not None and math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def _points(target: Target) -> list[Tensor]:
    """The start, and two points near it."""
    generator = torch.Generator("cpu").manual_seed(0)
    rows = [target.start]
    for _ in range(POINTS - 1):
        noise = torch.randn(target.start.shape, generator=generator, dtype=torch.float64, device="cpu")
        rows.append(target.start + 0.1 * noise.to(target.start))
    return rows


def _potential(target: Target, row: Tensor) -> float | None:
    value = target.potential(row[None]).item()
    return value if math.isfinite(value) else None


def _checksum(data: Data) -> str:
    """SHA-256 of all examples, or of some where they are read on demand."""
    found = hashlib.sha256()
    if math.isinf(data.bytes):
        number = min(SOME, len(data))
        parts = [torch.arange(number, device=data.device) * len(data) // number]
        trees = (data.take(part) for part in parts)
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
