"""Small Bayesian neural networks on UCI regression, beside full-batch NUTS from NumPyro on the same model.

Run with `.venv-bench/bin/python -m benchmarks.uci` (`--splits 5`; names choose among the data sets), with the reference
data at hand. One hidden layer of 50 tanh units; weights ~ N(0, 1/fan-in), biases ~ N(0, 1), noise ~ HalfNormal(1), on
standardised data, float64 and four chains on both sides, both compiled, compilation counted. Ours: GGMC with about 100
steps per draw, chains starting near modes; NUTS starts at random, and takes up to 255 steps per draw; on yacht ours are
1000, on energy 250, and NUTS' up to 1023. Test RMSE and LPPD are in the data's own units, with the Monte Carlo error
told by the four chains; they must agree within 4 combined errors.
"""

from __future__ import annotations

import argparse
import logging
import math
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.distributions import HalfNormal
from tqdm.auto import tqdm

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announcing its next version
    import ggmc

from benchmarks.peers import installed
from benchmarks.posteriors import DATA

log = logging.getLogger("benchmarks.uci")

HIDDEN, CHAINS = 50, 4


class Plan(NamedTuple):
    """How long both sides run. Where noise is small, only long trajectories move far."""

    warmup: int
    draws: int
    steps: tuple[int, int]
    nuts_draws: int  # after as many of warm-up
    nuts_depth: int  # of its trees: at most 2^depth − 1 steps


PLANS = {
    "yacht": Plan(300, 200, (750, 1250), 300, 10),
    "energy": Plan(300, 300, (200, 300), 300, 10),
    "concrete": Plan(200, 200, (75, 125), 100, 8),
    "wine": Plan(200, 200, (75, 125), 100, 8),
}


class Split(NamedTuple):
    """Standardised by the training part."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    unit: float  # of y


class Scores(NamedTuple):
    """One side, one split: a value per chain."""

    rmse: np.ndarray
    lppd: np.ndarray
    seconds: float


def split(name: str, number: int) -> Split:
    """One of the literature's splits."""
    data = np.load(next(path for path in (DATA / "uci").glob("*.npz") if name in path.stem.lower()))
    X, y = data["X"].astype(float), data["y"].astype(float).ravel()
    train, test = data[f"train_{number}"].astype(int), data[f"test_{number}"].astype(int)
    centre, scale = X[train].mean(0), X[train].std(0)
    scale[scale == 0] = 1
    X = (X - centre) / scale
    middle, unit = y[train].mean(), y[train].std()
    y = (y - middle) / unit
    return Split(X[train], y[train], X[test], y[test], float(unit))


def scored(mean: np.ndarray, noise: np.ndarray, data: Split, seconds: float) -> Scores:
    """From each chain's draws: means [chains, draws, n] and noise [chains, draws]."""
    error = data.y_test - mean.mean(1)
    terms = -0.5 * ((data.y_test - mean) / noise[..., None]) ** 2 - np.log(noise * math.sqrt(2 * math.pi))[..., None]
    lppd = (np.logaddexp.reduce(terms, 1) - math.log(mean.shape[1])).mean(1) - math.log(data.unit)
    return Scores(np.sqrt((error**2).mean(1)) * data.unit, lppd, seconds)


def ours(data: Split, plan: Plan, seed: int) -> Scores:
    """GGMC with exact gradients."""
    begun = time.perf_counter()
    torch.manual_seed(seed)
    net = ggmc.nets.MLP([data.x.shape[1], HIDDEN, 1], nn.Tanh).double()
    prior = {"*.bias": ggmc.priors.Gaussian(1.0), "*": ggmc.priors.Gaussian(1.0, fan_in=True)}
    likelihood = ggmc.likelihoods.Gaussian(HalfNormal(1.0))
    posterior = ggmc.Posterior(net, likelihood, prior, data.x, data.y, start="map", vectorise=True)
    kernel = ggmc.GGMC(steps=plan.steps, scheme="O(BAB)O")
    trace = ggmc.sample(posterior, kernel, plan.draws, plan.warmup, CHAINS, seed, progress=False)
    rows = trace.rows()
    mean = posterior.outputs(rows.flatten(0, 1), torch.from_numpy(data.x_test))[..., 0].unflatten(0, rows.shape[:2])
    return scored(mean.numpy(), trace["noise"], data, time.perf_counter() - begun)


def nuts(data: Split, plan: Plan, seed: int) -> Scores:
    """NumPyro."""
    import jax
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    inputs = data.x.shape[1]

    def network(w: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return (jnp.tanh(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"])[..., 0]

    def model(x: jax.Array, y: jax.Array) -> None:
        w = {
            "w1": numpyro.sample("w1", dist.Normal(0, 1 / math.sqrt(inputs)).expand([inputs, HIDDEN]).to_event(2)),
            "b1": numpyro.sample("b1", dist.Normal(0, 1).expand([HIDDEN]).to_event(1)),
            "w2": numpyro.sample("w2", dist.Normal(0, 1 / math.sqrt(HIDDEN)).expand([HIDDEN, 1]).to_event(2)),
            "b2": numpyro.sample("b2", dist.Normal(0, 1).expand([1]).to_event(1)),
        }
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        numpyro.sample("y", dist.Normal(network(w, x), noise), obs=y)

    begun = time.perf_counter()
    run = MCMC(
        NUTS(model, max_tree_depth=plan.nuts_depth), num_warmup=plan.nuts_draws, num_samples=plan.nuts_draws,
        num_chains=CHAINS, chain_method="vectorized", progress_bar=False,
    )  # fmt: skip
    run.run(jax.random.PRNGKey(seed), jnp.asarray(data.x), jnp.asarray(data.y))
    found = run.get_samples(group_by_chain=True)
    mean = jax.vmap(jax.vmap(lambda w: network(w, jnp.asarray(data.x_test))))(found)
    return scored(np.asarray(mean), np.asarray(found["noise"]), data, time.perf_counter() - begun)


def told(values: list[np.ndarray]) -> tuple[float, float]:
    """The mean over splits, and its Monte Carlo error from the chains of each."""
    errors = [value.std(ddof=1) / math.sqrt(CHAINS) for value in values]
    return float(np.mean(values)), float(np.sqrt(np.square(errors).sum()) / len(values))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=list(PLANS), help="all of them if none is named")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="short runs, to see that all works: not to be compared")
    options = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    log.setLevel(logging.INFO)
    logging.getLogger("ggmc").setLevel(logging.ERROR)
    sides: dict[str, Callable[[Split, Plan, int], Scores]] = {"ggmc": ours}
    if installed("numpyro"):
        sides["NUTS"] = nuts
    print(f"{'':10}{'':8}{'RMSE':>18}{'LPPD':>20}{'seconds per split':>20}", flush=True)
    for name in options.names or PLANS:
        plan = Plan(50, 20, (5, 10), 20, 4) if options.quick else PLANS[name]
        found: dict[str, list[Scores]] = {side: [] for side in sides}
        for number in tqdm(range(options.splits), desc=name, leave=False):
            data = split(name, number)
            for side, run in sides.items():
                found[side].append(run(data, plan, number))
                log.info("%s %d %s: %s", name, number, side, found[side][-1])
        told_by_side: list[tuple[float, float, float, float]] = []
        for side, scores in found.items():
            rmse, rmse_error = told([score.rmse for score in scores])
            lppd, lppd_error = told([score.lppd for score in scores])
            told_by_side.append((rmse, rmse_error, lppd, lppd_error))
            print(
                f"{name:10}{side:8}{rmse:10.4f} ± {rmse_error:.4f}{lppd:12.4f} ± {lppd_error:.4f}"
                f"{np.mean([score.seconds for score in scores]):15.1f}",
                flush=True,
            )
        if len(told_by_side) == 1:
            continue
        (r1, e1, l1, f1), (r2, e2, l2, f2) = told_by_side
        off = abs(r1 - r2) / math.hypot(e1, e2), abs(l1 - l2) / math.hypot(f1, f2)
        verdict = "agree" if max(off) < 4 else "DISAGREE"
        print(f"{'':18}differ by {off[0]:.1f} and {off[1]:.1f} errors: {verdict}", flush=True)


if __name__ == "__main__":
    main()
