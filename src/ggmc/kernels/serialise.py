"""Kernels as plain values, to be stored with the draws, and back."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ggmc.dynamics import schedule
from ggmc.dynamics.mass import Mass, as_mass
from ggmc.errors import BadInput
from ggmc.guides import GUIDES
from ggmc.kernels.amagold import AMAGOLD
from ggmc.kernels.base import Kernel
from ggmc.kernels.ggmc import GGMC
from ggmc.kernels.hmc import HMC
from ggmc.kernels.mala import MALA
from ggmc.kernels.malt import MALT
from ggmc.kernels.sghmc import SGHMC
from ggmc.kernels.sgld import SGLD
from ggmc.kernels.sgnht import SGNHT

KERNELS: dict[str, type[Kernel]] = {k.__name__: k for k in (AMAGOLD, GGMC, HMC, MALA, MALT, SGHMC, SGLD, SGNHT)}
_PARTS: dict[str, type] = {**GUIDES, **schedule.SCHEDULES}


def to_dict(kernel: Kernel) -> dict[str, Any]:
    """A kernel's settings as plain values, ready for JSON.

    Args:
        kernel: Of the library, or a dataclass of the user's own, which is known by its full name.

    Example:
        >>> import ggmc
        >>> from ggmc.kernels import from_dict, to_dict
        >>> kernel = ggmc.HMC(step_size=0.5, steps=(4, 6), mass=[1.0, 2.0])
        >>> from_dict(to_dict(kernel)) == kernel
        True
    """
    known = KERNELS.get(type(kernel).__name__) is type(kernel)
    plain: dict[str, Any] = {"kernel": type(kernel).__name__ if known else _full_name(type(kernel))}
    settings = {f.name: _plain(vars(kernel)[f.name]) for f in fields(kernel)}  # pyright: ignore[reportArgumentType]
    return plain | settings


def from_dict(plain: dict[str, Any]) -> Kernel:
    """The kernel that `to_dict` described.

    Args:
        plain: From `to_dict`, perhaps by way of JSON. Kernels and parts of the user's own are refused.

    Example:
        >>> from ggmc.kernels import from_dict
        >>> from_dict({"kernel": "MALA", "step_size": 0.1}).step_size
        0.1
    """
    settings = {name: _unplain(value) for name, value in plain.items()}
    name = settings.pop("kernel", None)
    if name not in KERNELS:
        raise BadInput(f"unknown kernel {name!r}: known are {sorted(KERNELS)}")
    return KERNELS[name](**settings)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf"  # JSON has no infinity
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Tensor):
        return {"tensor": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, Mass):
        matrix = value.as_tensor()
        return "identity" if matrix is None else {"mass": matrix.tolist()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if _PARTS.get(type(value).__name__) is type(value):
        return {"type": type(value).__name__} | {f.name: _plain(vars(value)[f.name]) for f in fields(value)}
    return {"type": _full_name(value if callable(value) else type(value))}  # the user's own: known by name only


def _full_name(thing: Any) -> str:
    named = thing if isinstance(thing, type) else type(thing)
    try:
        return f"{thing.__module__}.{thing.__qualname__}"
    except AttributeError:  # a callable object
        return f"{named.__module__}.{named.__qualname__}"


def _unplain(value: Any) -> Any:
    if value == "inf":
        return math.inf
    if isinstance(value, list):
        return tuple(map(_unplain, value))
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return torch.tensor(value["tensor"], dtype=vars(torch)[value["dtype"]], device="cpu")
    if "mass" in value:
        return as_mass(torch.tensor(value["mass"], dtype=torch.float64, device="cpu"))
    if "type" in value:
        settings = {name: _unplain(item) for name, item in value.items()}
        name = settings.pop("type")
        if name not in _PARTS:
            raise BadInput(f"unknown guide or schedule {name!r}: known are {sorted(_PARTS)}")
        return _PARTS[name](**settings)
    return {name: _unplain(item) for name, item in value.items()}
