"""Kernels: one sampler per file, its equations at the top. Frozen settings; `bind(target)` gives `init` and `step`."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, Protocol

import torch

from ggmc import guides
from ggmc.errors import BadInput
from ggmc.kernels.ggmc import GGMC, Init, Step
from ggmc.kernels.hmc import HMC
from ggmc.kernels.mala import MALA
from ggmc.kernels.malt import MALT
from ggmc.mass import Dense, Diagonal, Identity, as_mass
from ggmc.target import Target

__all__ = ["GGMC", "HMC", "MALA", "MALT", "Kernel", "from_dict", "to_dict"]

_KERNELS: dict[str, Any] = {kernel.__name__: kernel for kernel in (GGMC, HMC, MALA, MALT)}


class Kernel(Protocol):
    """A sampler's settings: every kernel is a frozen dataclass with these two methods."""

    def bind(self, target: Target) -> tuple[Init, Step]: ...

    def as_ggmc(self) -> GGMC: ...


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
        elif field.name == "guide":
            value = {"guide": type(value).__name__} | {f.name: getattr(value, f.name) for f in fields(value)}
        elif value == math.inf:
            value = "inf"  # JSON has no infinity
        plain[field.name] = list(value) if isinstance(value, tuple) else value
    return plain


def from_dict(plain: dict[str, Any]) -> Any:
    """The kernel that `to_dict` described."""
    settings = dict(plain)
    name = settings.pop("kernel", None)
    if name not in _KERNELS:
        raise BadInput(f"unknown kernel {name!r}: known are {sorted(_KERNELS)}")
    guide = dict(settings.pop("guide", {}))
    guide_name = guide.pop("guide", None)
    if guide_name not in guides.GUIDES:
        raise BadInput(f"unknown guide {guide_name!r}: known are {sorted(guides.GUIDES)}")
    settings["guide"] = guides.GUIDES[guide_name](**guide)
    if settings.get("friction") == "inf":
        settings["friction"] = math.inf
    if isinstance(settings.get("steps"), list):
        settings["steps"] = tuple(settings["steps"])
    if isinstance(settings.get("mass"), list):
        settings["mass"] = as_mass(torch.tensor(settings["mass"], dtype=torch.float64))
    return _KERNELS[name](**settings)
