"""Kernels as plain values, to be stored with the draws, and back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from ggmc.bayes.nets import GuideViews
from ggmc.dynamics import schedule
from ggmc.dynamics.mass import Mass, restored_mass
from ggmc.errors import BadInput, GGMCError, NotExact
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
from ggmc.plain import PlainDict, Tree

KERNELS: dict[str, type[Kernel]] = {k.__name__: k for k in (AMAGOLD, GGMC, HMC, MALA, MALT, SGHMC, SGLD, SGNHT)}
_PARTS: dict[str, type] = {**GUIDES, GuideViews.__name__: GuideViews, **schedule.SCHEDULES}

LARGEST = 10_000  # numbers: a larger tensor is not written as text
Tensors = dict[str, Tensor]
"""Tensors by their checksum."""


@dataclass(frozen=True)
class KernelSettings:
    """A kernel known by its settings alone: a class of the user's own in a trace from a disk, or an optimiser.

    Args:
        name: The kernel's name.
        settings: Everything it was made with, as plain values.

    Example:
        >>> from ggmc.kernels import KernelSettings
        >>> KernelSettings("my_library.MyKernel", {"step_size": 0.1, "adjust": True}).adjust
        True
    """

    name: str
    settings: Mapping[str, Tree] = field(default_factory=dict)

    @property
    def step_size(self) -> float | None:
        """h, if it is known."""
        return self.settings.get("step_size")

    @property
    def temperature(self) -> float:
        """T."""
        return self.settings.get("temperature", 1.0)

    @property
    def adjust(self) -> bool:
        """Whether trajectories were tested; what does not say so was not."""
        return bool(self.settings.get("adjust", False))

    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{self.name}({inside})"


def to_dict(kernel: Kernel | KernelSettings, tensors: Tensors | None = None) -> PlainDict:
    """A kernel's settings as plain values, ready for JSON.

    Args:
        kernel: Of the library, or a dataclass of the user's own, which is known by its full name.
        tensors: Takes up tensors of more than 10,000 numbers, for which the result has their checksum only.

    Example:
        >>> import ggmc
        >>> from ggmc.kernels import from_dict, to_dict
        >>> kernel = ggmc.HMC(step_size=0.5, steps=(4, 6), mass=[1.0, 2.0])
        >>> from_dict(to_dict(kernel)) == kernel
        True
    """
    if isinstance(kernel, KernelSettings):
        return {"kernel": kernel.name, **kernel.settings}
    known = KERNELS.get(type(kernel).__name__) is type(kernel)
    found: PlainDict = {"kernel": type(kernel).__name__ if known else _full_name(type(kernel))}
    large: Tensors = {} if tensors is None else tensors
    settings = {f.name: vars(kernel)[f.name] for f in fields(kernel)}  # pyright: ignore[reportArgumentType]
    if isinstance(kernel.mass, list | tuple):
        settings["mass"] = torch.tensor(kernel.mass, dtype=torch.float64, device="cpu")
    return found | {name: _plain(value, large) for name, value in settings.items()}


def from_dict(plain: Mapping[str, Tree], tensors: Mapping[str, Tensor] | None = None) -> Kernel:
    """The kernel that `to_dict` described.

    Args:
        plain: From `to_dict`, perhaps by way of JSON. Kernels and parts of the user's own are refused.
        tensors: The large tensors that `to_dict` took up, if there were any.

    Example:
        >>> from ggmc.kernels import from_dict
        >>> from_dict({"kernel": "MALA", "step_size": 0.1}).step_size
        0.1
    """
    name = plain.get("kernel")
    if not isinstance(name, str) or name not in KERNELS:
        raise BadInput(f"unknown kernel {name!r}: known are {sorted(KERNELS)}")
    try:
        settings = {key: _unplain(value, tensors or {}) for key, value in plain.items() if key != "kernel"}
        return KERNELS[name](**settings)
    except (TypeError, LookupError, AttributeError, ValueError, RuntimeError) as error:
        if isinstance(error, GGMCError):
            raise
        raise BadInput(f"these are not the settings of a kernel {name}: {str(error)[:200]}") from error


def known_or_settings(
    plain: Mapping[str, Tree], tensors: Mapping[str, Tensor] | None = None
) -> Kernel | KernelSettings:
    """The same; of a kernel whose class, or a part of which, is not the library's, its settings.

    Args:
        plain: From `to_dict`.
        tensors: Likewise.
    """
    try:
        return from_dict(plain, tensors)
    except (BadInput, NotExact):
        name = str(plain.get("kernel"))
        return KernelSettings(name, {key: value for key, value in plain.items() if key != "kernel"})


def _plain(value: Any, large: Tensors) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf"  # JSON has no infinity
    if isinstance(value, tuple | list):
        return [_plain(item, large) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item, large) for name, item in value.items()}
    if isinstance(value, Tensor):
        return _plain_tensor(value, large)
    if isinstance(value, Mass):
        stored = value.stored()
        return "identity" if stored is None else {"mass": _plain(stored, large)}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if _PARTS.get(type(value).__name__) is type(value):
        return {"type": type(value).__name__} | {f.name: _plain(vars(value)[f.name], large) for f in fields(value)}
    return {"type": _full_name(value if callable(value) else type(value))}  # the user's own: known by name only


def _plain_tensor(tensor: Tensor, large: Tensors) -> PlainDict:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.numel() <= LARGEST:
        return {"tensor": tensor.tolist(), "dtype": dtype}
    known_as = checksum(tensor)
    large[known_as] = tensor.detach().to("cpu", copy=True).contiguous()
    return {"large": known_as, "dtype": dtype, "shape": list(tensor.shape)}


def large_tensors(plain: Any) -> set[str]:
    """The checksums of all large tensors in plain values.

    Args:
        plain: From `to_dict`.
    """
    if isinstance(plain, list):
        return set().union(*map(large_tensors, plain))
    if not isinstance(plain, dict):
        return set()
    own = {plain["large"]} if isinstance(plain.get("large"), str) else set[str]()
    return own.union(*map(large_tensors, plain.values()))


def checksum(tensor: Tensor) -> str:
    """SHA-256 of a tensor's precision, shape and numbers."""
    found = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)}".encode())
    found.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _full_name(thing: Any) -> str:
    named = thing if isinstance(thing, type) else type(thing)
    try:
        return f"{thing.__module__}.{thing.__qualname__}"
    except AttributeError:  # a callable object
        return f"{named.__module__}.{named.__qualname__}"


def _unplain(value: Any, large: Mapping[str, Tensor]) -> Any:
    if value == "inf":
        return math.inf
    if isinstance(value, list):
        return tuple(_unplain(item, large) for item in value)
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        dtype = vars(torch)[value["dtype"]]
        if not isinstance(dtype, torch.dtype):
            raise BadInput(f"{value['dtype']!r} is no precision of a tensor")
        return torch.tensor(value["tensor"], dtype=dtype, device="cpu")
    if "large" in value:
        if value["large"] not in large:
            raise BadInput(f"a {value['dtype']} tensor of shape {value['shape']} is not stored with the kernel")
        return large[value["large"]]
    if "mass" in value:
        return restored_mass(_unplain(value["mass"], large))
    settings = {name: _unplain(item, large) for name, item in value.items()}
    if "type" not in value:
        return settings
    name = settings.pop("type")
    if not isinstance(name, str) or name not in _PARTS:
        raise BadInput(f"unknown guide, augmentation or schedule {name!r}: known are {sorted(_PARTS)}")
    return _PARTS[name](**settings)
