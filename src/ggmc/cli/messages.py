"""Errors as a user reads them: what was wrong and what to do, and no traceback unless it is asked for."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps

import typer

from ggmc.cli import output
from ggmc.errors import BadInput, GGMCError, NotExact

debug = {"wanted": False}
"""Whether tracebacks are shown."""


def told(function: Callable[..., object]) -> Callable[..., object]:
    """A command whose errors are messages, not tracebacks.

    Args:
        function: The command.
    """

    @wraps(function)
    def command(*arguments: object, **options: object) -> None:
        try:
            function(*arguments, **options)
        except KeyboardInterrupt:
            output.tell("Stopped.")
            raise typer.Exit(130) from None
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if debug["wanted"]:
                raise
            typer.echo(f"error: {_message(error)}", err=True)
            raise typer.Exit(2 if isinstance(error, BadInput | NotExact) else 3) from None

    return command


def _message(error: Exception) -> str:
    if isinstance(error, NotExact):
        first = error.conditions[0] if error.conditions else None
        which = "" if first is None else f" (condition {first.number}, {first.title})"
        return f"this would not be exact{which}: {error}\n`ggmc check` on the same file says what to change."
    if isinstance(error, GGMCError):
        return str(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{frame.filename}, line {frame.lineno}"
    return f"{type(error).__name__}: {error}\n  in {where}. `ggmc --debug ...` shows the whole traceback."
