"""The command line: `ggmc run`, `check`, `resume`, `report`, `reproduce`, `demo` and `info`. See docs/cli.md."""

from __future__ import annotations

import sys


def main() -> None:
    """What the command `ggmc` does."""
    try:
        import typer  # noqa: F401
    except ImportError:
        print("the command ggmc needs typer: pip install 'ggmc[cli]'", file=sys.stderr)
        sys.exit(2)
    from ggmc.cli.app import run_app

    run_app()
