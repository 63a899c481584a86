"""Many runs on Jug, one task each. Public as `ggmc.jug` (`pip install ggmc[jug]`).

A jugfile says what is to be run, and any number of workers, on machines that see the same folder, do it:

    import ggmc

    def posterior(width):                                # built by the worker that needs it
        ...
        return ggmc.Posterior(...)

    tasks = [
        ggmc.jug.run(posterior, ggmc.GGMC(guide=ggmc.Minibatch(500)), {"width": width}, out=f"runs/{width}")
        for width in (10, 50, 250)
    ]
    chains = ggmc.jug.chains(posterior, ggmc.GGMC(), {"width": 50}, chains=8, out="runs/chains")

    jug execute jugfile.py &        jug execute jugfile.py &        jug status jugfile.py

A worker that was killed is simply started again: its run goes on from the last checkpoint, bit for bit, and the lock
that it left in Jug's own folder is removed where no living process holds the run. Results are the runs' folders:
`ggmc.load(["runs/chains/0", "runs/chains/1", ...])` merges them into one trace.

Workers are processes of their own. Do not fork one from a program in which torch has used its threads already: the
threads are not there in the child, which waits for them for ever.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from ggmc.errors import BadInput, require_count
from ggmc.kernels import Kernel, from_dict, to_dict
from ggmc.kernels.base import require_kernel
from ggmc.kernels.serialise import Tensors
from ggmc.plain import PlainDict
from ggmc.sampling.request import Request
from ggmc.sampling.resume import resume
from ggmc.sampling.sample import DEFAULT, begin
from ggmc.targets.base import Target
from ggmc.trace.run_folder import RunFolder, checked_path, holds_a_run, make_folder

if TYPE_CHECKING:
    from jug import Task

__all__ = ["chains", "run"]

PAUSE = 3.0  # seconds between two looks at a lock whose worker seems to be dead: it may be about to begin

log = logging.getLogger("ggmc")


def run(
    make_target: Callable[..., Target],
    kernel: Kernel | None = None,
    arguments: Mapping[str, object] | None = None,
    *,
    out: str | Path | RunFolder,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    target_accept: float | None = None,
    anneal: float | None = None,
) -> Task:
    """One run of `ggmc.sample` as a task, which begins it or goes on with it.

    Args:
        make_target: A function of the jugfile, by its name, that makes the target.
        kernel: A kernel of the library; by default that of `ggmc.sample`.
        arguments: Those of `make_target`, by name, as plain values.
        out: The run's folder, or a `ggmc.RunFolder`, on a disk that all workers see.
        draws: As in `ggmc.sample`. More draws than before make a finished run longer.
        warmup: As in `ggmc.sample`, like those that follow.
        chains: Likewise.
        seed: Likewise.
        target_accept: Likewise.
        anneal: Likewise.

    Returns:
        A `jug.Task` whose value is the folder, as text.

    Example:
        >>> import tempfile, torch, ggmc
        >>> from jug import Task, set_jugdir
        >>> def gaussian(width):
        ...     return ggmc.Density(lambda x: -(x**2).sum() / (2 * width**2), torch.zeros(2, dtype=torch.float64))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = set_jugdir("dict_store")
        ...     task = ggmc.jug.run(gaussian, arguments={"width": 2.0}, out=f"{folder}/run", draws=50, warmup=50)
        ...     path = task.run()                        # as `jug execute` does
        ...     ggmc.load(path).num_draws
        50
    """
    request = Request.asked(draws, warmup, chains, seed, target_accept, anneal, start=None)
    return _task(make_target, kernel, arguments, _as_folder(out), request)


def chains(
    make_target: Callable[..., Target],
    kernel: Kernel | None = None,
    arguments: Mapping[str, object] | None = None,
    *,
    out: str | Path,
    draws: int = 1000,
    warmup: int = 1000,
    chains: int = 4,
    seed: int = 0,
    target_accept: float | None = None,
    anneal: float | None = None,
) -> list[Task]:
    """The chains of one run, each as a task with a warm-up of its own.

    They start where the chains of one `ggmc.sample` would.

    Args:
        make_target: As in `run`, like those that follow.
        kernel: Likewise.
        arguments: Likewise.
        out: A folder; chain i is kept in its folder `i`.
        draws: Likewise.
        warmup: Likewise.
        chains: How many.
        seed: Likewise.
        target_accept: Likewise.
        anneal: Likewise.

    Returns:
        Tasks whose values are the folders, for `ggmc.load`.

    Example:
        >>> import tempfile, torch, ggmc
        >>> from jug import set_jugdir
        >>> def gaussian():
        ...     return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = set_jugdir("dict_store")
        ...     tasks = ggmc.jug.chains(gaussian, out=folder, chains=2, draws=200, warmup=200)
        ...     ggmc.load([task.run() for task in tasks]).num_chains
        2
    """
    require_count("chains", chains)
    tasks: list[Task] = []
    for number in range(chains):
        part = (number, chains)
        request = Request.asked(draws, warmup, chains, seed, target_accept, anneal, start=None, part=part)
        tasks.append(_task(make_target, kernel, arguments, _as_folder(checked_path(out) / str(number)), request))
    return tasks


class _ByName:
    """A function that Jug knows by its name alone, as it knows the functions of its tasks.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[..., Target]):
        self._function = function

    def __call__(self, **arguments: object) -> Target:
        return self._function(**arguments)

    def __jug_hash__(self) -> bytes:
        return f"{self._function.__module__}.{self._function.__qualname__}".encode()


def _as_folder(out: str | Path | RunFolder) -> RunFolder:
    folder = out if isinstance(out, RunFolder) else RunFolder(out)
    if folder.predict_at is not None:
        raise BadInput("predict_at is not for tasks, which are told by plain values: keep the draws, perhaps thinned")
    return folder


def _task(
    make_target: Callable[..., Target],
    kernel: Kernel | None,
    arguments: Mapping[str, object] | None,
    folder: RunFolder,
    request: Request,
) -> Task:
    try:
        from jug import Task
    except ImportError as error:
        raise ImportError("ggmc.jug needs Jug: pip install ggmc[jug]") from error

    named = isinstance(make_target, type | FunctionType)
    if not named or "<lambda>" in make_target.__qualname__:
        raise BadInput(f"make_target must be a function of the jugfile with a name of its own, got {make_target!r}")
    if arguments is not None and not isinstance(arguments, Mapping):
        raise BadInput(f"arguments must be a dict of those of make_target, by name, got {arguments!r}")
    kernel = DEFAULT if kernel is None else kernel
    require_kernel(kernel)
    tensors: Tensors = {}
    plain = to_dict(kernel, tensors)
    if tensors or from_dict(plain) != kernel:
        raise BadInput(f"a kernel for a task must be told by plain values, got {kernel}: leave its mass to warm-up")
    kept: PlainDict = {"checkpoint_every": folder.checkpoint_every, "precision": folder.precision}
    kept |= {"thin": folder.thin} | ({"attributes": dict(folder.attributes)} if folder.attributes else {})
    given = [json.dumps(part, sort_keys=True) for part in (plain, request.to_dict(), kept)]
    task = Task(carry_out, _ByName(make_target), dict(arguments or {}), str(folder.path), *given)
    _free_lock_of_a_dead_worker(task, Path(folder.path))
    return task


def carry_out(
    make_target: Callable[..., Target], arguments: PlainDict, path: str, kernel: str, request: str, kept: str
) -> str:
    """What a worker does: begin the run, or go on with it.

    Args:
        make_target: Makes the target.
        arguments: Its arguments.
        path: The run's folder.
        kernel: As JSON.
        request: As JSON.
        kept: How the run is kept, as JSON.

    Returns:
        The folder.
    """
    with _working_on(Path(path)):
        target, asked = make_target(**arguments), Request.stored(json.loads(request))
        if holds_a_run(Path(path)):
            trace = resume(path, target, asked.draws, kernel=from_dict(json.loads(kernel)), progress=False)
        else:
            folder = RunFolder(path, **json.loads(kept))
            trace = begin(target, from_dict(json.loads(kernel)), asked, folder, progress=False)
        if trace.num_draws < asked.draws // json.loads(kept)["thin"]:
            raise KeyboardInterrupt  # the run was interrupted: its task is not done
    return path


def _lock(path: Path) -> FileLock:
    """Held by the worker that has the task, from its first moment on; it ends with the worker, however that ends."""
    make_folder(path.parent)
    return FileLock(str(path.with_name(f".{path.name}.worker")), timeout=0)


@contextmanager
def _working_on(path: Path) -> Iterator[None]:
    try:
        with _lock(path):
            yield
    except Timeout as error:
        raise BadInput(f"another worker has the run in {path}") from error


def _free_lock_of_a_dead_worker(task: Task, path: Path) -> None:
    """Remove the lock in Jug's own store that a killed worker left; it is looked at twice."""

    def seems_dead() -> bool:
        if not task.is_locked() or task.is_failed():
            return False
        try:
            with _lock(path):
                return True
        except Timeout:
            return False

    if task.store is not None and seems_dead():
        time.sleep(PAUSE)
        if seems_dead():
            log.warning("The worker that had %s is gone: its lock is removed, and the run will go on.", path)
            task.unlock()
