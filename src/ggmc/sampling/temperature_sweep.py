"""A tempering sweep: the same posterior at several temperatures, each run begun where the last one ended.

At temperature T the distribution sampled is exp(−U/T): T < 1 is a cold posterior, sharper than Bayes' rule gives. How
predictions change with T tells whether prior and likelihood suit each other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from ggmc.errors import BadInput, require_positive
from ggmc.kernels import Kernel
from ggmc.kernels.base import require_kernel
from ggmc.plain import Tree
from ggmc.sampling.sample import DEFAULT, sample
from ggmc.targets.base import PredictiveTarget, Target, require_target
from ggmc.trace.trace import Trace

if TYPE_CHECKING:
    import pandas

log = logging.getLogger("ggmc")


class Tempered(NamedTuple):
    """What a sweep gives."""

    table: pandas.DataFrame
    """One row per temperature: acceptance, step size, mean potential, and the scores of test data."""
    traces: dict[float, Trace]
    """By temperature."""


def tempering(
    target: Target,
    temperatures: Sequence[float],
    kernel: Kernel | None = None,
    x: Tree = None,
    y: Tree = None,
    *,
    draws: int = 1000,
    start: Tensor | None = None,
    **options: Any,
) -> Tempered:
    """Sample at each temperature, from the highest down, and tabulate.

    Ctrl-C returns the temperatures done so far; an exception carries their traces as its `traces` attribute.

    Args:
        target: What is sampled.
        temperatures: Different positive numbers. The table has them in this order.
        kernel: How; its own temperature is replaced. By default as in `ggmc.sample`.
        x: Test inputs, whose predictions are scored; by default none.
        y: Their outcomes.
        draws: Draws kept of each chain at each temperature.
        start: The first positions of the first run, [chains, d].
        options: Further ones of `ggmc.sample`, such as `warmup` and `chains`; `store` and `out` are
            refused.

    Returns:
        A table with one row per temperature, and the traces by temperature.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3, dtype=torch.float64))
        >>> table, traces = ggmc.tempering(target, [1.0, 0.1], draws=300, warmup=300, progress=False)
        >>> list(table.index), bool(traces[0.1]["theta"].var() < traces[1.0]["theta"].var() / 5)
        ([1.0, 0.1], True)
    """
    import pandas

    wanted = _different(temperatures)
    _check(target, kernel, x, y)
    for name in ("store", "out"):
        if options.get(name) is not None:
            raise BadInput(f"one {name} cannot keep several runs: sample each temperature by itself, with its own")
    traces: dict[float, Trace] = {}
    table: dict[float, dict[str, float]] = {}
    try:
        for temperature in sorted(wanted, reverse=True):
            settings = replace(DEFAULT if kernel is None else kernel, temperature=temperature)  # pyright: ignore
            trace = sample(target, settings, draws, start=start, **options)
            traces[temperature] = trace
            table[temperature] = _row(trace, x, y)
            if trace.num_draws < draws:  # interrupted: so is the sweep
                break
            start = trace.rows()[:, -1]
    except KeyboardInterrupt:
        if not table:
            raise
        log.warning("Interrupted: returning the temperatures done so far, %s.", ", ".join(map(str, table)))
    except Exception as error:
        if traces:
            setattr(error, "traces", traces)  # noqa: B010
            error.add_note(f"The traces of the temperatures {list(traces)} are in the exception's `traces`.")
        raise
    done = [temperature for temperature in wanted if temperature in table]
    return Tempered(pandas.DataFrame.from_dict(table, orient="index").loc[done], traces)


def _different(temperatures: Sequence[float]) -> list[float]:
    """The temperatures as plain numbers, by which the traces are found."""
    if isinstance(temperatures, str) or not isinstance(temperatures, Iterable):
        raise BadInput(f"temperatures must be several numbers, such as [1.0, 0.1], got {temperatures!r}")
    given = list(temperatures)
    for temperature in given:
        require_positive("temperature", temperature)
    found = [float(temperature) for temperature in given]
    if not found or len(set(found)) < len(found):
        raise BadInput(f"temperatures must be different numbers, at least one, got {given!r}")
    return found


def _check(target: Target, kernel: Kernel | None, x: Tree, y: Tree) -> None:
    """Refuse now what would be found out only after the first run."""
    require_target(target)
    if kernel is not None:
        require_kernel(kernel)
    if (x is None) != (y is None):
        raise BadInput("give both x and y to score predictions, or neither")
    if x is not None:
        if not isinstance(target, PredictiveTarget):
            raise BadInput(f"x and y need a target that predicts, such as ggmc.Posterior, got {target!r}")
        target.score(target.start[None], x, y)


def _row(trace: Trace, x: Tree, y: Tree) -> dict[str, float]:
    size = trace.kernel.step_size
    row = {
        "acceptance": _mean(trace.stats["acceptance_rate"]),
        "step_size": float("nan") if size is None else float(size),
        "potential": -_mean(trace.stats["lp"]),
    }
    return row if x is None else row | trace.score(x, y)


def _mean(values: np.ndarray) -> float:
    """Over the trajectories at which it was computed."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
