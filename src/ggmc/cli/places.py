"""Where examples and experiments are: beside the package in a clone, or packed into it in an installed wheel."""

from __future__ import annotations

from pathlib import Path

from ggmc.errors import BadInput

PACKAGE = Path(__file__).parents[1]
BUNDLED = PACKAGE / "bundled"
CLONE = PACKAGE.parents[1]


def root(name: str) -> Path:
    """The folder that holds a folder.

    Args:
        name: "examples" or "experiments".
    """
    in_a_clone = PACKAGE.parent.name == "src" and (CLONE / "pyproject.toml").is_file()
    for place in (CLONE, BUNDLED) if in_a_clone else (BUNDLED,):
        if (place / name).is_dir():
            return place
    raise BadInput(f"this installation has no {name}, neither in {BUNDLED} nor beside it: install ggmc again")
