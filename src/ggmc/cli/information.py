"""`ggmc info`: versions, devices, extras, and where data are looked for."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform

import torch

from ggmc.cli.study.data import looked_for
from ggmc.plain import PlainDict

VERSIONS = ("ggmc", "torch", "arviz", "zarr", "numpy", "xarray")
EXTRAS: dict[str, tuple[str, ...]] = {
    "cli": ("typer",),
    "demo": ("matplotlib", "sklearn"),
    "jug": ("jug",),
    "pyro": ("pyro",),
    "report": ("jinja2", "matplotlib"),
    "tensorboard": ("tensorboard",),
}
"""The modules that each extra installs."""


def version(name: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed(extra: str) -> bool:
    """Whether the modules of an extra are there."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra])


def gather() -> PlainDict:
    """Everything, as plain values."""
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return {
        "versions": {name: version(name) for name in VERSIONS} | {"python": platform.python_version()},
        "platform": platform.platform(),
        "devices": devices,
        "threads": torch.get_num_threads(),
        "cpus": os.cpu_count(),
        "extras": {extra: installed(extra) for extra in EXTRAS},
        "data": looked_for(),
    }


def described(facts: PlainDict) -> str:
    """The same as text.

    Args:
        facts: From `gather`.
    """
    lines = ["Versions"]
    lines += [f"  {name:12} {known or 'not installed'}" for name, known in facts["versions"].items()]
    lines += ["Machine", f"  {'system':12} {facts['platform']}", f"  {'devices':12} {', '.join(facts['devices'])}"]
    lines += [f"  {'threads':12} {facts['threads']} of torch, on {facts['cpus']} processors"]
    lines += ["Extras"]
    for extra, there in facts["extras"].items():
        lines.append(
            f"  {extra:12} {'installed' if there else f'''not installed: pip install 'ggmc[{extra}]' '''}".rstrip()
        )
    lines += ["Data: where they are looked for when a study gives no path"]
    lines += [f"  {name:12} {path or 'not set'}" for name, path in facts["data"].items()]
    return "\n".join(lines)
