"""Progress bars for what takes longer than a few seconds, unless they are not wanted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

_wanted: ContextVar[bool] = ContextVar("wanted", default=True)


@contextmanager
def wanted(yes: bool) -> Iterator[None]:
    """Within this block, show bars or do not."""
    token = _wanted.set(yes)
    try:
        yield
    finally:
        _wanted.reset(token)


def bar(iterable: Any = None, **options: Any) -> Any:
    """A tqdm bar that appears after two seconds and leaves nothing behind."""
    return tqdm(iterable, delay=2, leave=False, dynamic_ncols=True, disable=not _wanted.get(), **options)
