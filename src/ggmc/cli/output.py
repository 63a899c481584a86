"""What the command line prints: plain text, without colours; one JSON object where that is asked for."""

from __future__ import annotations

import json
import logging
import math
import shlex
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from ggmc.sampling.callbacks import Callback, Moment

WIDTH = 100
EVERY = 10.0  # seconds between two lines of progress where there is no terminal


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """Text broken into lines.

    Args:
        text: The text.
        indent: Before each line.
        first: Before the first one, where that differs.
    """
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent if first is None else first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """A time, to two digits or so.

    Example:
        >>> from ggmc.cli.output import duration
        >>> duration(3.4), duration(75), duration(7300)
        ('3 s', '1 min 15 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def as_json(value: object) -> str:
    """One JSON object. What is not finite, which JSON does not have, is null."""
    return json.dumps(_finite(value), ensure_ascii=False, indent=1)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def command(*words: object) -> str:
    """A command that can be pasted into a shell."""
    return shlex.join(["ggmc", *map(str, words)])


def tell(text: str) -> None:
    """A line for a human, beside the results: to stderr, and not through a progress bar."""
    tqdm.write(text, file=sys.stderr)


class _Messages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.msg != "%s":  # the warnings of a trace, which are printed with the verdict
            tell(record.getMessage())


@contextmanager
def messages_shown() -> Iterator[None]:
    """Within this block, what the library logs is printed as plain lines."""
    log, handler = logging.getLogger("ggmc"), _Messages(logging.WARNING)
    log.addHandler(handler)
    before, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = before


class Lines:
    """Progress as plain lines, for logs: at most one every few seconds.

    Args:
        total: Trajectories in all, warm-up included.
    """

    def __init__(self, total: int):
        self._total, self._begun, self._shown = total, time.monotonic(), time.monotonic()
        self._first: int | None = None

    def __call__(self, moment: Moment) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = moment.iteration - 1
        if now - self._shown < EVERY:
            return
        self._shown = now
        rate = (moment.iteration - self._first) / (now - self._begun)
        left = duration(max(0, self._total - moment.iteration) / rate)
        what = "warm-up" if moment.warming else "sampling"
        tell(f"{what}: {moment.iteration} of {self._total} trajectories, about {left} left")


def progress(total: int, wanted: bool) -> tuple[bool, Callback | None]:
    """How a run shows how far it is: whether by a bar, and a callback that prints lines.

    Args:
        total: Trajectories in all.
        wanted: Whether to show anything.
    """
    if not wanted:
        return False, None
    return (True, None) if sys.stderr.isatty() else (False, Lines(total))
