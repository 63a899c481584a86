"""Kernels: one sampler per file, its equations at the top. Frozen settings; `bind(target)` gives `init` and `step`."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Protocol

import torch
from torch import Tensor

from ggmc import guides
from ggmc.dynamics import schedule
from ggmc.dynamics.mass import Dense, Diagonal, Identity, as_mass
from ggmc.errors import BadInput
from ggmc.guides import Field
from ggmc.kernels.amagold import AMAGOLD
from ggmc.kernels.ggmc import GGMC, Init, Step
from ggmc.kernels.hmc import HMC
from ggmc.kernels.mala import MALA
from ggmc.kernels.malt import MALT
from ggmc.kernels.sghmc import SGHMC
from ggmc.kernels.sgld import SGLD
from ggmc.targets.base import Target

__all__ = ["AMAGOLD", "GGMC", "HMC", "MALA", "MALT", "SGHMC", "SGLD", "Kernel", "from_dict", "to_dict"]

_KERNELS: dict[str, Any] = {k.__name__: k for k in (AMAGOLD, GGMC, HMC, MALA, MALT, SGHMC, SGLD)}


class Kernel(Protocol):
    """A sampler's settings: every kernel is a frozen dataclass with these two methods.

    Those that can be tuned, as special cases of GGMC, also say with `as_ggmc()` which one they are.
    """

    def bind(self, target: Target) -> tuple[Init, Step]: ...

    def on(self, target: Target, field: Field, early_stop: bool = True) -> tuple[Init, Step]: ...


def to_dict(kernel: Kernel) -> dict[str, Any]:
    """A kernel's settings as plain values, ready for JSON.

    Example:
        >>> import ggmc
        >>> from ggmc.kernels import from_dict, to_dict
        >>> kernel = ggmc.HMC(step_size=0.5, steps=(4, 6), mass=[1.0, 2.0])
        >>> from_dict(to_dict(kernel)) == kernel
        True
    """
    plain: dict[str, Any] = {"kernel": type(kernel).__name__}
    for field in fields(kernel):  # pyright: ignore[reportArgumentType]
        value = getattr(kernel, field.name)
        if isinstance(value, Diagonal | Dense):
            value = value.matrix.double().tolist()
        elif isinstance(value, Identity):
            value = "identity"
        plain[field.name] = _plain(value)
    return plain


def from_dict(plain: dict[str, Any]) -> Any:
    """The kernel that `to_dict` described; refuses one whose guide held functions of the user's."""
    settings = {name: _unplain(value) for name, value in plain.items()}
    name = settings.pop("kernel", None)
    if name not in _KERNELS:
        raise BadInput(f"unknown kernel {name!r}: known are {sorted(_KERNELS)}")
    if isinstance(settings.get("mass"), list | tuple):
        settings["mass"] = as_mass(torch.tensor(settings["mass"], dtype=torch.float64))
    return _KERNELS[name](**settings)


_PARTS: dict[str, Any] = guides.GUIDES | schedule.SCHEDULES


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf"  # JSON has no infinity
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, Tensor):
        return {"tensor": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if type(value).__name__ in _PARTS:
        return {"type": type(value).__name__} | {f.name: _plain(getattr(value, f.name)) for f in fields(value)}  # pyright: ignore
    if value is None or isinstance(value, str | int | float | bool | list):
        return value
    function = getattr(value, "draw_one", value)  # an order or a function of the user's: known by name only
    return {"type": f"{type(value).__name__} {getattr(function, '__qualname__', type(function).__name__)}"}


def _unplain(value: Any) -> Any:
    if value == "inf":
        return math.inf
    if isinstance(value, list):
        return tuple(map(_unplain, value))
    if isinstance(value, dict) and "tensor" in value:
        return torch.tensor(value["tensor"], dtype=getattr(torch, value["dtype"]))
    if isinstance(value, dict) and "type" in value:
        settings = {name: _unplain(item) for name, item in value.items()}
        name = settings.pop("type")
        if name not in _PARTS:
            raise BadInput(f"unknown guide or schedule {name!r}: known are {sorted(_PARTS)}")
        return _PARTS[name](**settings)
    return value
