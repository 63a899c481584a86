"""One thread at a time in a module: a call with other weights puts them into it for as long as the call takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

_locks: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_making = threading.Lock()


@contextmanager
def alone_in(module: nn.Module) -> Iterator[None]:
    """Within this block no other thread calls the module or changes its mode.

    Args:
        module: The module.
    """
    with _making:
        lock = _locks.setdefault(module, threading.RLock())
    with lock:
        yield
