"""Ctrl-C and SIGTERM while a run goes on.

The first one is noted, and the run stops after the trajectory that is under way, when all it has to keep is whole. A
second Ctrl-C stops it at once. Only Python's own handlers are replaced, for the time of the run, and only in the main
thread, where Python delivers signals; a program that has handlers of its own keeps them.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

log = logging.getLogger("ggmc")


class Interrupts:
    """Notes signals while it is open.

    Args:
        terminations: Whether SIGTERM is noted too; else it ends the process as usual.
        patient: Whether a second Ctrl-C is noted like the first, where stopping at once would leave others waiting.

    Example:
        >>> import signal
        >>> from ggmc.sampling.interrupts import Interrupts
        >>> with Interrupts() as interrupts:
        ...     signal.raise_signal(signal.SIGINT)
        ...     interrupts.asked is signal.SIGINT
        True
    """

    def __init__(self, terminations: bool = False, patient: bool = False):
        self.asked: signal.Signals | None = None
        """The signal that came, or None."""
        self._wanted = {signal.SIGINT: signal.default_int_handler}
        if terminations:
            self._wanted[signal.SIGTERM] = signal.SIG_DFL  # pyright: ignore[reportArgumentType]
        self._before: dict[signal.Signals, Any] = {}
        self._holding, self._first, self._patient, self._at_once = 0, True, patient, False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number, usual in self._wanted.items():
                if signal.getsignal(number) is usual:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within this block signals are noted and nothing else: what is being written is not left half done."""
        self._holding += 1
        try:
            yield
        finally:
            self._holding -= 1

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within this block a signal stops at once, as a KeyboardInterrupt: what is under way can be left out."""
        before, self._holding, self._at_once = self._holding, 0, True
        try:
            yield
        finally:
            self._holding, self._at_once = before, False

    def _note(self, number: int, _: FrameType | None) -> None:
        first, self._first = self._first, False
        if self.asked != signal.SIGTERM:  # who asks to terminate is not answered by a later Ctrl-C
            self.asked = signal.Signals(number)
        if self._holding:
            return
        if self._at_once:
            raise KeyboardInterrupt
        if not first and number == signal.SIGINT:
            if self._patient:
                return
            raise KeyboardInterrupt
        log.warning(
            "%s: the run stops after this trajectory.%s",
            "Interrupted" if number == signal.SIGINT else "Asked to terminate",
            " Ctrl-C again stops it at once." if number == signal.SIGINT and not self._patient else "",
        )
