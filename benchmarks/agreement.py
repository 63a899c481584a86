"""Do the defaults give the right answer? German credit and the posteriors of posteriordb against their references.

Run with `.venv/bin/python -m benchmarks.agreement`. Every mean must lie within 4 combined Monte Carlo errors of the
reference with R̂ below 1.01; nothing is set per model.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from typing import NamedTuple

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announcing its next version
    import arviz

import ggmc
from benchmarks.posteriors import NAMES, Posterior, german_credit, posteriordb

WORST_ERROR, WORST_RHAT = 4.0, 1.01


class Agreement(NamedTuple):
    """The worst parameter of one posterior."""

    error: float  # |mean − reference| in combined Monte Carlo errors
    sd: float  # |sd ÷ reference − 1|
    rhat: float
    ess: float
    gradients: int
    seconds: float
    divergences: int

    @property
    def good(self) -> bool:
        return self.error < WORST_ERROR and self.rhat < WORST_RHAT


def compare(posterior: Posterior, draws: int, chains: int, seed: int = 0) -> Agreement:
    """Sample with the defaults and compare with the reference."""
    trace = ggmc.sample(posterior.to_torch(), draws=draws, chains=chains, seed=seed, progress=False)
    columns = posterior.reported(trace.draws)
    own_error = np.array([arviz.mcse(column) for column in columns])
    mean = np.array([column.mean() for column in columns])
    sd = np.array([column.std() for column in columns])
    return Agreement(
        error=float(np.max(np.abs(mean - posterior.mean) / np.hypot(own_error, posterior.mean_error))),
        sd=float(np.max(np.abs(sd / posterior.sd - 1))),
        rhat=max(float(arviz.rhat(column)) for column in columns),
        ess=min(float(arviz.ess(column)) for column in columns),
        gradients=int(trace.stats["n_steps"].sum()),
        seconds=trace.attributes["sampling_time"],
        divergences=int(trace.stats["diverging"].sum()),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("names", nargs="*", help="posteriors; all of them if none is named")
    options = parser.parse_args()
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    print(f"{'posterior':42}{'d':>4}{'error':>8}{'sd':>8}{'R̂':>8}{'ESS':>8}{'diverged':>10}{'seconds':>9}")
    good = 0
    names = options.names or ["german_credit", *NAMES]
    for name in names:
        posterior = german_credit() if name == "german_credit" else posteriordb(name)
        found = compare(posterior, options.draws, options.chains, options.seed)
        good += found.good
        print(
            f"{name:42}{len(posterior.parameters):4}{found.error:8.2f}{found.sd:8.1%}{found.rhat:8.4f}{found.ess:8.0f}"
            f"{found.divergences:10}{found.seconds:9.0f}  {'' if found.good else 'NOT GOOD'}",
            flush=True,
        )
    print(f"\n{good} of {len(names)} within {WORST_ERROR:g} Monte Carlo errors and R̂ < {WORST_RHAT}.")


if __name__ == "__main__":
    main()
