"""The tasks of a Jug graph, carried out by several workers that are watched."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tqdm import tqdm

from ggmc.cli.output import EVERY, duration, tell
from ggmc.errors import GGMCError

PAUSE = 0.2  # seconds between two looks at the workers
JUG = "from jug.jug import main; main()"
STOP = "__jug_please_stop_running.txt"  # in the folder where they run, ends Jug's workers before their next task
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Failed(GGMCError):
    """Tasks that could not be carried out."""


class Worker:
    """A process that carries out tasks; started again, once, if it is killed.

    Args:
        number: From 1.
        command: What it runs.
        environment: With which variables.
        folder: Where it runs.
        log: Where its messages go.
    """

    def __init__(self, number: int, command: list[str], environment: Mapping[str, str], folder: Path, log: Path):
        self.number, self.log = number, log
        self._command, self._environment, self._folder = command, environment, folder
        self.restarted = False
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            # A session of its own, so that a Ctrl-C reaches it once, from here.
            return subprocess.Popen(
                self._command, env=dict(self._environment), cwd=self._folder, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    @property
    def killed(self) -> bool:
        """Whether a signal has ended it."""
        return (self.process.poll() or 0) < 0

    def start_again(self) -> None:
        """After it was killed."""
        self.restarted = True
        self.process = self._started()


def free_locks(jugdir: Path, pid: int) -> int:
    """Remove the locks that a dead worker of this machine has left, and say how many.

    Args:
        jugdir: Jug's folder.
        pid: The worker's.
    """
    freed = 0
    mark = f"PID {pid} on HOSTNAME {socket.gethostname()}\n"
    for lock in (jugdir / "locks").glob("*.lock"):
        try:
            if lock.read_text().startswith(mark):
                lock.unlink()
                freed += 1
        except OSError:  # another worker has removed it
            continue
    return freed


def carry_out(
    jugfile: Path, out: Path, workers: int, variables: Mapping[str, str], paths: list[Path],
    started: Callable[[list[Worker]], None] | None = None,
) -> int:  # fmt: skip
    """Carry out all tasks.

    Args:
        jugfile: Says what the tasks are.
        out: The folder where workers run: for Jug's results, `jugdata`, and the workers' messages, `logs`.
        workers: How many processes.
        variables: Of the environment, for the jugfile.
        paths: From which Python imports, before others.
        started: Called with the workers, once they are there.

    Returns:
        The number of tasks, all done.

    Raises:
        Failed: If some tasks are not done when all workers have ended.
        KeyboardInterrupt: After a Ctrl-C, when the workers have ended.
    """
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1"), **variables, "PYTHONUNBUFFERED": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, paths), *inherited])
    jugdir, stop = out / "jugdata", out / STOP
    stop.unlink(missing_ok=True)
    jug = [sys.executable, "-c", JUG, "execute", str(jugfile), "--jugdir", str(jugdir), "--wait-cycle-time", "1"]
    counting = [sys.executable, "-m", "ggmc.cli.task_counter", str(jugfile), str(jugdir)]
    with _terminations_interrupt(), _counter(counting, environment, out) as count:
        crew = [
            Worker(number, jug, environment, out, out / "logs" / f"worker-{number}.log")
            for number in range(1, workers + 1)
        ]
        if started is not None:
            started(crew)
        try:
            _watch(crew, jugdir, count)
        except KeyboardInterrupt:
            stop.touch()  # for a worker that is between two tasks when the signal reaches it
            _stop(crew)
            raise
        finally:
            for worker in crew:
                if worker.process.poll() is None:
                    worker.process.kill()
                    worker.process.wait()
                    free_locks(jugdir, worker.process.pid)
        done, total = count.final()
    if not total or done < total:
        raise Failed(_what_failed(crew, done, total))
    tell(f"All {total} tasks are done.")
    return total


@contextmanager
def _terminations_interrupt() -> Iterator[None]:
    """Within this block SIGTERM, and a terminal that is closed, act like Ctrl-C: no worker is left behind."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(crew: list[Worker], jugdir: Path, count: _Count) -> None:
    """Until all workers have ended. Killed ones are started again."""
    with _Progress() as progress:
        while any(worker.process.poll() is None for worker in crew):
            for worker in crew:
                if worker.killed and not worker.restarted:
                    free_locks(jugdir, worker.process.pid)
                    tell(f"Worker {worker.number} was killed, and is started again.")
                    worker.start_again()
            progress.show(*count.now())
            time.sleep(PAUSE)
        for worker in crew:
            if worker.killed:
                free_locks(jugdir, worker.process.pid)
                if not worker.restarted:
                    tell(f"Worker {worker.number} was killed, and is started again.")
                    worker.start_again()
        if any(worker.process.poll() is None for worker in crew):
            _watch(crew, jugdir, count)


def _stop(crew: list[Worker]) -> None:
    """Ask all workers to stop after what is under way, and wait; a second Ctrl-C stops them at once."""
    tell("Stopping: each worker ends its trajectory and keeps its run. Ctrl-C again stops them at once.")
    for worker in crew:
        if worker.process.poll() is None:
            worker.process.send_signal(signal.SIGINT)
    for worker in crew:
        worker.process.wait()


def _what_failed(crew: list[Worker], done: int, total: int) -> str:
    lines = [f"{done} of {total} tasks are done." if total else "The tasks could not be read."]
    shown: set[str] = set()
    for worker in crew:
        code = worker.process.returncode
        if code == 0:
            continue
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        text = worker.log.read_text(errors="replace").strip().splitlines()[-1:] if worker.log.is_file() else []
        last = text[0] if text and text[0] not in shown else ""
        shown.update(text)
        lines.append(f"  Worker {worker.number} {how}: {last}".rstrip(": "))
    return "\n".join([*lines, f"  All messages are in {crew[0].log.parent}. Run the same command again to go on."])


class _Count:
    """Reads what the counter prints.

    Args:
        process: The counter.
    """

    def __init__(self, process: subprocess.Popen[str]):
        self._process, self._known = process, (0, 0)
        self._ended = threading.Event()
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            numbers = line.split()
            if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
                self._known = int(numbers[0]), int(numbers[1])
        self._ended.set()

    def now(self) -> tuple[int, int]:
        """Tasks done, and tasks in all."""
        return self._known

    def final(self) -> tuple[int, int]:
        """The same after all workers have ended: once more, from the counter's next look."""
        self._known = (0, 0)
        deadline = time.monotonic() + 120
        while self._known == (0, 0) and not self._ended.is_set() and time.monotonic() < deadline:
            time.sleep(PAUSE / 4)
        return self._known


@contextmanager
def _counter(command: list[str], environment: Mapping[str, str], folder: Path) -> Iterator[_Count]:
    process = subprocess.Popen(
        command, env=dict(environment), cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield _Count(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class _Progress:
    """Tasks done, and the time left: a bar in a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._begun, self._shown, self._first = time.monotonic(), 0.0, 0

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, done: int, total: int) -> None:
        """Say how far it is.

        Args:
            done: Tasks.
            total: Tasks; 0 while the number is not known.
        """
        if not total:
            return
        if sys.stderr.isatty():
            if self._bar is None:
                self._bar = tqdm(total=total, initial=done, desc="tasks", unit="task", dynamic_ncols=True)
            self._bar.total = total
            self._bar.update(done - self._bar.n)
            return
        now = time.monotonic()
        if not self._shown:
            self._first = done
        if now - self._shown < EVERY and self._shown:
            return
        self._shown = now
        more = done - self._first
        left = f", about {duration((total - done) / more * (now - self._begun))} left" if more else ""
        tell(f"tasks: {done} of {total}{left}")
