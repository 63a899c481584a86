"""Tall data: effective draws per second of control variates beside NumPyro's NUTS, in one run.

Run with `.venv-bench/bin/python -m benchmarks.tall_data`. Logistic regression, N = 200,000 simulated examples, d = 50,
the same data, float64 and number of chains on both sides. Ours: `GGMC(guide=ControlVariate(1000, curvature="dense"))`,
the rest tuned; theirs: NUTS with a dense mass, chains vectorised. Effective draws are those of the worst parameter; the
second figure is for its square. Seconds are given for the draws alone and with everything before them.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from typing import NamedTuple

import numpy as np
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announcing its next version
    import arviz

import ggmc
from benchmarks.logistic import logistic_regression, simulated
from benchmarks.peers import installed
from ggmc.sampling.chains import Chains, as_block


class Speed(NamedTuple):
    """What one side achieved."""

    draws: np.ndarray  # [chains, draws, d]
    sampling: float  # seconds for the draws
    before: float  # seconds for anchor, compilation and warm-up

    def effective(self, squares: bool = False) -> float:
        """Effective draws of the worst parameter."""
        centred = self.draws - self.draws.mean((0, 1))
        values = centred**2 if squares else centred
        return min(float(arviz.ess(values[:, :, i])) for i in range(values.shape[-1]))


def ours(X: np.ndarray, y: np.ndarray, chains: int, draws: int, warmup: int, batch: int) -> Speed:
    """GGMC with control variates."""
    target = logistic_regression(X, y)
    begun = time.perf_counter()
    kernel = ggmc.GGMC(guide=ggmc.ControlVariate(batch, curvature="dense"))
    run = Chains(target, kernel, chains, warmup, seed=0)
    for _ in range(warmup):
        run.advance()
    warm = time.perf_counter()
    block = as_block([run.draw(run.advance()) for _ in range(draws)])
    done = time.perf_counter()
    accepted, steps = (block.stats[name].mean() for name in ("acceptance_rate", "n_steps"))
    print(f"ggmc: step size {run.kernel.step_size:.3g}, {steps:.1f} steps per draw, acceptance {accepted:.2f}")
    return Speed(block.rows, done - warm, warm - begun)


def nuts(X: np.ndarray, y: np.ndarray, chains: int, draws: int, warmup: int) -> Speed:
    """NumPyro's NUTS with a dense mass."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    rows, signs = jnp.asarray(X), jnp.asarray(y)

    def model() -> None:
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
        numpyro.factor("likelihood", jax.nn.log_sigmoid(signs * (rows @ weights)).sum())

    begun = time.perf_counter()
    run = MCMC(
        NUTS(model, dense_mass=True), num_warmup=warmup, num_samples=draws, num_chains=chains,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    run.warmup(jax.random.PRNGKey(0), extra_fields=("num_steps",))
    jax.block_until_ready(run.post_warmup_state)
    warm = time.perf_counter()
    run.run(jax.random.PRNGKey(1), extra_fields=("num_steps",))
    found = np.asarray(run.get_samples(group_by_chain=True)["weights"])
    done = time.perf_counter()
    steps = np.asarray(run.get_extra_fields()["num_steps"]).mean()
    print(f"NUTS: {steps:.1f} gradients per draw")
    return Speed(found, done - warm, warm - begun)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000, help="of ours; NUTS makes a fifth of them")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--num-data", type=int, default=200_000)
    options = parser.parse_args()
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    torch.set_num_threads(max(torch.get_num_threads(), 2))
    X, y = simulated(options.num_data)
    sides = {"ggmc, control variates": ours(X, y, options.chains, options.draws, 300, options.batch)}
    if installed("numpyro"):
        sides["NumPyro NUTS, dense mass"] = nuts(X, y, options.chains, options.draws // 5, 300)
    print(
        f"\n{'':26}{'per draw':>10}{'squares':>10}{'per second':>12}{'squares':>10}{'with warm-up':>14}{'seconds':>16}"
    )
    rates: list[tuple[float, float, float]] = []
    for name, side in sides.items():
        number = side.draws.shape[0] * side.draws.shape[1]
        mean, square = side.effective(), side.effective(squares=True)
        rates.append((mean / side.sampling, square / side.sampling, mean / (side.sampling + side.before)))
        print(
            f"{name:26}{mean / number:10.2f}{square / number:10.2f}{rates[-1][0]:12.1f}{rates[-1][1]:10.1f}"
            f"{rates[-1][2]:14.1f}{side.sampling:8.1f}+{side.before:.1f}"
        )
    if len(sides) == 1:
        return
    ratios = [a / b for a, b in zip(*rates, strict=True)]
    print(f"{'ratio':46}{ratios[0]:12.1f}{ratios[1]:10.1f}{ratios[2]:14.1f}")
    means = [side.draws.mean((0, 1)) for side in sides.values()]
    errors = [side.draws.std((0, 1)) / np.sqrt(side.effective()) for side in sides.values()]
    print(
        f"\nLargest difference of means: {np.max(np.abs(means[0] - means[1]) / np.hypot(*errors)):.1f} standard errors"
    )


if __name__ == "__main__":
    main()
