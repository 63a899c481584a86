"""Other libraries to compare with: whether they are installed in this environment."""

from __future__ import annotations

from importlib.util import find_spec


def installed(library: str) -> bool:
    """Whether a library can be imported; says so where it cannot, and is left out.

    Args:
        library: Its name, as in `import`.
    """
    found = find_spec(library) is not None
    if not found:
        print(f"{library} is not installed here and is left out: run from .venv-bench (`make .venv-bench/.ready`)\n")
    return found
