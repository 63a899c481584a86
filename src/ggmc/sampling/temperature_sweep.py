"""A tempering sweep: the same posterior at several temperatures, each run begun where the last one ended.

At temperature T the law sampled is exp(−U/T): T < 1 is a cold posterior, sharper than Bayes' rule would have it. How
predictions change with T tells whether prior and likelihood suit each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ggmc.errors import BadInput, require_positive
from ggmc.kernels import Kernel
from ggmc.sampling.sample import DEFAULT, sample
from ggmc.targets.base import Target
from ggmc.trace.trace import Trace

if TYPE_CHECKING:
    import pandas


class Tempered(NamedTuple):
    """What a sweep gives: a table with one row per temperature, and the traces by temperature."""

    table: pandas.DataFrame
    traces: dict[float, Trace]


def tempering(
    target: Target,
    temperatures: Sequence[float],
    kernel: Kernel | None = None,
    x: Any = None,
    y: Any = None,
    **options: Any,
) -> Tempered:
    """Sample at each temperature, from the highest down, and tabulate.

    The table has acceptance, step size and the mean potential, and with test data `x`, `y` their scores. `options` are
    those of `ggmc.sample`; the kernel's own temperature is replaced. Ctrl-C returns the temperatures done so far.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(3, dtype=torch.float64))
        >>> table, traces = ggmc.tempering(target, [1.0, 0.1], draws=300, warmup=300, progress=False)
        >>> list(table.index), bool(traces[0.1]["theta"].var() < traces[1.0]["theta"].var() / 5)
        ([1.0, 0.1], True)
    """
    import pandas

    if not len(temperatures) or len(set(temperatures)) < len(temperatures):
        raise BadInput(f"temperatures must be different numbers, at least one, got {list(temperatures)!r}")
    for temperature in temperatures:
        require_positive("temperature", temperature)
    if (x is None) != (y is None):
        raise BadInput("give both x and y to score predictions, or neither")
    traces: dict[float, Trace] = {}
    table: dict[float, dict[str, float]] = {}
    begin = options.pop("start", None)
    for temperature in sorted(temperatures, reverse=True):
        settings: Any = replace(DEFAULT if kernel is None else kernel, temperature=temperature)  # pyright: ignore
        trace = sample(target, settings, start=begin, **options)
        traces[temperature] = trace
        table[temperature] = {
            "acceptance": float(trace.stats["acceptance_rate"].mean()),
            "step_size": float(trace.kernel.step_size),
            "potential": float(-trace.stats["lp"].mean()),
        } | ({} if x is None else trace.score(x, y))
        if trace.num_draws < options.get("draws", 1000):  # interrupted: so is the sweep
            break
        begin = trace.rows()[:, -1]
    done = [temperature for temperature in temperatures if temperature in traces]
    return Tempered(pandas.DataFrame.from_dict(table, orient="index").loc[done], traces)
