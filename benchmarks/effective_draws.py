"""Effective draws per gradient: the defaults of `ggmc.sample` beside NumPyro's NUTS, on the same log densities.

Run with `make bench`, or `.venv-bench/bin/python -m benchmarks.effective_draws`. Both sides draw with their own
defaults, 4 chains of 1000 draws after 1000 of warm-up. The figure is the worst parameter's bulk effective draws over
the gradients spent on the draws; the second column squares each parameter first, since a chain can be quick about means
and slow about spreads. Seconds include warm-up and compilation. `--kernels` compares this library's own kernels
instead, and `--stages` words of several stages with the default, which is how the default was chosen.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announcing its next version
    import arviz

import ggmc
from benchmarks.peers import installed
from benchmarks.posteriors import NAMES, Posterior, german_credit, posteriordb
from ggmc.dynamics.scheme import Scheme
from ggmc.kernels import Kernel

WARMUP, CHAINS = 1000, 4


class Efficiency(NamedTuple):
    """Effective draws of the worst parameter, and what they cost."""

    mean: float  # per gradient
    square: float  # per gradient
    rhat: float
    seconds: float
    per_second: float

    @classmethod
    def of(cls, columns: list[np.ndarray], gradients: int, seconds: float) -> Efficiency:
        """From one [chains, draws] array per parameter."""
        means = min(float(arviz.ess(column)) for column in columns)
        return cls(
            means / gradients,
            min(float(arviz.ess((column - column.mean()) ** 2)) for column in columns) / gradients,
            max(float(arviz.rhat(column)) for column in columns),
            seconds,
            means / seconds,
        )


def ours(posterior: Posterior, draws: int, kernel: Kernel | None = None, compiled: bool = False) -> Efficiency:
    """This library, tuned by itself."""
    target = posterior.to_torch()
    begun = time.perf_counter()
    trace = ggmc.sample(target.compile() if compiled else target, kernel, draws, WARMUP, CHAINS, progress=False)
    seconds = time.perf_counter() - begun
    gradients = int(trace.stats["n_steps"].sum()) * gradients_per_step(kernel)
    return Efficiency.of(posterior.reported(trace.draws), gradients, seconds)


def gradients_per_step(kernel: Kernel | None) -> int:
    """Gradients of each step: more than one for words of several stages."""
    scheme = kernel.scheme if isinstance(kernel, ggmc.GGMC | ggmc.HMC | ggmc.MALT) else None
    return 1 if scheme is None else Scheme(scheme).gradients_per_step


def nuts(posterior: Posterior, draws: int, dense: bool = False) -> Efficiency:
    """NumPyro's NUTS with its defaults, or with a dense mass, in float64, started where our chains start."""
    import jax
    from numpyro.infer import MCMC, NUTS, init_to_value

    jax.config.update("jax_enable_x64", True)
    start = init_to_value(values={name: jax.numpy.asarray(value) for name, value in posterior.start.items()})
    kernel = NUTS(posterior.to_numpyro(), init_strategy=start, dense_mass=dense)
    run = MCMC(
        kernel, num_warmup=WARMUP, num_samples=draws, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    begun = time.perf_counter()
    run.run(jax.random.PRNGKey(0), extra_fields=("num_steps",))
    found = {name: np.asarray(run.get_samples(group_by_chain=True)[name]) for name in posterior.start}
    gradients = int(np.asarray(run.get_extra_fields()["num_steps"]).sum())
    return Efficiency.of(posterior.reported(found), gradients, time.perf_counter() - begun)


def table(sides: dict[str, Callable[[Posterior], Efficiency]], names: list[str]) -> None:
    """One line per posterior, every side in turn, and the geometric means."""
    print(
        "Effective draws of the worst parameter per gradient, of means and of squares; worst R̂; seconds in all; "
        "effective draws of means per second\n"
    )
    print(f"{'':30}" + "".join(f"{side:>42}" for side in sides))
    found: dict[str, list[Efficiency]] = {side: [] for side in sides}
    for name in names:
        posterior = german_credit() if name == "german_credit" else posteriordb(name)
        line = f"{name[:29]:30}"
        for side, measure in sides.items():
            one = measure(posterior)
            found[side].append(one)
            line += f"{one.mean:12.4f}{one.square:8.4f}{one.rhat:7.3f}{one.seconds:7.1f}{one.per_second:8.0f}"
        print(line, flush=True)
    line = f"{'geometric mean, posteriordb':30}"
    for one in found.values():
        chosen = [e for name, e in zip(names, one, strict=True) if name != "german_credit"] or one
        line += f"{np.exp(np.mean(np.log([e.mean for e in chosen]))):12.4f}"
        line += f"{np.exp(np.mean(np.log([e.square for e in chosen]))):8.4f}{'':14}"
        line += f"{np.exp(np.mean(np.log([e.per_second for e in chosen]))):8.0f}"
    print(line)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", action="store_true", help="compare this library's kernels with one another")
    parser.add_argument("--stages", action="store_true", help="compare the default's word with those of several stages")
    parser.add_argument("--draws", type=int, default=1000, help="of each chain, on both sides")
    parser.add_argument("names", nargs="*", help="posteriors; all of them if none is named")
    options = parser.parse_args()
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    names = options.names or ["german_credit", *NAMES]
    kernels: dict[str, Kernel] = {}
    if options.kernels:
        kernels = {
            "GGMC O(BAB)O": ggmc.GGMC(scheme="O(BAB)O"),
            "GGMC OBABO": ggmc.GGMC(),
            "HMC": ggmc.HMC(),
            "MALT": ggmc.MALT(),
        }
    elif options.stages:
        kernels = {word: ggmc.GGMC(scheme=word) for word in ("O(BAB)O", "O(BCSS2)O", "O(BCSS3)O")}
    if kernels:
        table({name: partial(ours, draws=options.draws, kernel=kernel) for name, kernel in kernels.items()}, names)
    else:
        # The default of ggmc.sample finds a dense mass where it can, NumPyro's a diagonal one: show both.
        sides: dict[str, Callable[[Posterior], Efficiency]] = {
            "ggmc": partial(ours, draws=options.draws),
            "ggmc, compiled": partial(ours, draws=options.draws, compiled=True),
        }
        if installed("numpyro"):
            sides["NumPyro NUTS"] = partial(nuts, draws=options.draws)
            sides["NUTS, dense mass"] = partial(nuts, draws=options.draws, dense=True)
        table(sides, names)


if __name__ == "__main__":
    main()
