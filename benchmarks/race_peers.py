"""The samplers that `benchmarks.race` compares: each draws from one posterior, and tells what it took.

A sampler runs twice with one seed. The first time counts everything, compilation included. For the drawing phase alone,
what the first run compiled is used again, and warm-up is left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import ggmc
from benchmarks.posteriors import Posterior
from ggmc.sampling.chains import Chains, as_block
from ggmc.sampling.sample import DEFAULT
from ggmc.sampling.threads import threads_for, use_threads

WARMUP, DRAWS = 1000, 1000


class Drawn(NamedTuple):
    """What a sampler made."""

    columns: list[np.ndarray]
    """One [chains, draws] array for each reported parameter."""
    whole: float
    """Seconds, compilation and warm-up included."""
    drawing: float
    """Seconds of the draws alone."""


Sampler = Callable[[Posterior, int, int], Drawn]
"""(posterior, chains, seed) -> what was drawn."""


def ours(posterior: Posterior, chains: int, seed: int) -> Drawn:
    """`ggmc.sample(target)`."""
    target = posterior.to_torch()
    begun = time.perf_counter()
    trace = ggmc.sample(target, None, DRAWS, WARMUP, chains, seed, progress=False)
    whole = time.perf_counter() - begun
    again = Chains(target, DEFAULT, chains, WARMUP, seed, draws=DRAWS)
    with use_threads(threads_for(again.warmup.field, again.state.position)):
        while again.warming:
            again.advance()
        begun = time.perf_counter()
        while again.drawn < DRAWS:
            if again.several_at_once:
                as_block([again.several(50)])
            else:
                as_block([again.draw(again.advance()) for _ in range(50)])
        drawing = time.perf_counter() - begun
    return Drawn(posterior.reported(trace.draws), whole, drawing)


def numpyro_nuts(posterior: Posterior, chains: int, seed: int, dense: bool = False) -> Drawn:
    """NumPyro's NUTS, chains vectorised."""
    jax = _jax()
    from numpyro.infer import MCMC, NUTS, init_to_value

    start = init_to_value(values={name: jax.numpy.asarray(value) for name, value in posterior.start.items()})
    kernel = NUTS(posterior.to_numpyro(), init_strategy=start, dense_mass=dense)
    run = MCMC(
        kernel, num_warmup=WARMUP, num_samples=DRAWS, num_chains=chains, chain_method="vectorized", progress_bar=False
    )
    begun = time.perf_counter()
    run.run(jax.random.PRNGKey(seed))
    found = {name: np.asarray(run.get_samples(group_by_chain=True)[name]) for name in posterior.start}
    whole = time.perf_counter() - begun
    drawing = 0.0
    for number in range(2):  # the first time compiles
        run.post_warmup_state = run.last_state
        begun = time.perf_counter()
        run.run(jax.random.PRNGKey(seed + 1 + number))
        jax.block_until_ready(run.get_samples())
        drawing = time.perf_counter() - begun
    return Drawn(posterior.reported(found), whole, drawing)


def numpyro_dense(posterior: Posterior, chains: int, seed: int) -> Drawn:
    """The same with a dense mass."""
    return numpyro_nuts(posterior, chains, seed, dense=True)


def blackjax_nuts(posterior: Posterior, chains: int, seed: int, dense: bool = False) -> Drawn:
    """BlackJAX's NUTS, each chain with a window adaptation of its own."""
    jax = _jax()
    import blackjax

    log_density, start, constrain = _unconstrained(posterior, seed)

    def warm(key: Any, position: Any) -> Any:
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density, is_mass_matrix_diagonal=not dense)
        (state, parameters), _ = adaptation.run(key, position, WARMUP)
        return state, parameters

    def one_chain(key: Any, state: Any, parameters: Any) -> Any:
        return _drawn(jax, key, state, blackjax.nuts(log_density, **parameters).step)

    return _timed(posterior, jax, constrain, start, chains, seed, jax.vmap(warm), jax.vmap(one_chain))


def blackjax_dense(posterior: Posterior, chains: int, seed: int) -> Drawn:
    """The same with a dense mass."""
    return blackjax_nuts(posterior, chains, seed, dense=True)


def blackjax_meads(posterior: Posterior, chains: int, seed: int) -> Drawn:
    """MEADS: generalised HMC whose settings come from many chains."""
    jax = _jax()
    import blackjax

    log_density, start, constrain = _unconstrained(posterior, seed)

    def warm(keys: Any, positions: Any) -> Any:
        adaptation = blackjax.meads_adaptation(log_density, chains)
        (states, parameters), _ = adaptation.run(keys[0], positions, WARMUP)
        return states, parameters

    def draw(keys: Any, states: Any, parameters: Any) -> Any:
        step = blackjax.ghmc(log_density, **parameters).step
        return jax.vmap(lambda key, state: _drawn(jax, key, state, step))(keys, states)

    return _timed(posterior, jax, constrain, start, chains, seed, warm, draw)


def blackjax_mclmc(posterior: Posterior, chains: int, seed: int) -> Drawn:
    """Adjusted MCLMC with random lengths, each chain with settings of its own."""
    jax = _jax()
    import blackjax

    log_density, start, constrain = _unconstrained(posterior, seed)

    def steps(key: Any, average: Any = 2.0) -> Any:
        return 1 + jax.numpy.floor(jax.random.uniform(key) * (2 * average - 1)).astype(int)

    build = blackjax.adjusted_mclmc_dynamic.build_kernel(integration_steps_fn=steps)

    def warm(key: Any, position: Any) -> Any:
        state = blackjax.adjusted_mclmc_dynamic.init(position, log_density, key)
        found = blackjax.adjusted_mclmc_find_L_and_step_size(build, log_density, 5 * WARMUP, state, key, target=0.9)
        return found[0], (found[1].step_size, found[1].inverse_mass_matrix, found[1].L)

    def one_chain(key: Any, state: Any, parameters: Any) -> Any:
        step_size, mass, length = parameters

        def step(key: Any, state: Any) -> Any:
            average = length / step_size
            return build(
                key, state, log_density, step_size, inverse_mass_matrix=mass, integration_steps_params=(average,)
            )

        return _drawn(jax, key, state, step)

    return _timed(posterior, jax, constrain, start, chains, seed, jax.vmap(warm), jax.vmap(one_chain))


def nutpie_nuts(posterior: Posterior, chains: int, seed: int) -> Drawn:
    """nutpie, with the gradient compiled by JAX."""
    jax = _jax()
    import nutpie

    log_density, start, constrain = _unconstrained(posterior, seed)
    flat, unravel = jax.flatten_util.ravel_pytree(start)
    gradient = jax.jit(jax.value_and_grad(lambda row: log_density(unravel(row))))

    def make_log_density() -> Any:
        def of(row: np.ndarray) -> Any:
            value, slope = gradient(row)
            return float(value), np.asarray(slope)

        return of

    def make_values(*_: Any) -> Any:
        return lambda row: {"row": np.asarray(row)}

    size = len(flat)
    model = nutpie.compiled_pyfunc.from_pyfunc(
        size, make_log_density, make_values, [np.dtype("float64")], [(size,)], ["row"],
        make_initial_point_fn=lambda seed: np.asarray(flat),
    )  # fmt: skip
    begun = time.perf_counter()
    trace = nutpie.sample(model, draws=DRAWS, tune=WARMUP, chains=chains, seed=seed, progress_bar=False)
    whole = time.perf_counter() - begun
    rows = np.asarray(trace.posterior["row"])
    found = jax.vmap(jax.vmap(lambda row: constrain(unravel(row))))(jax.numpy.asarray(rows))
    # It does not say how long the draws took: their share of the gradients.
    steps = [np.asarray(group["n_steps"]).sum() for group in (trace.sample_stats, trace.warmup_sample_stats)]
    return Drawn(
        posterior.reported({name: np.asarray(value) for name, value in found.items()}),
        whole,
        whole * steps[0] / sum(steps),
    )


def _jax() -> Any:
    import jax
    import jax.flatten_util

    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    return jax


def _unconstrained(posterior: Posterior, seed: int) -> tuple[Any, Any, Any]:
    """The log density on unconstrained values by name, where to start, and the way back to the user's values."""
    jax = _jax()
    from numpyro.infer import init_to_value
    from numpyro.infer.util import initialize_model

    start = init_to_value(values={name: jax.numpy.asarray(value) for name, value in posterior.start.items()})
    model = initialize_model(jax.random.PRNGKey(seed), posterior.to_numpyro(), init_strategy=start)
    return lambda values: -model.potential_fn(values), model.param_info.z, model.postprocess_fn


def _drawn(jax: Any, key: Any, state: Any, step: Any) -> Any:
    """The positions of one chain."""

    def next_(state: Any, key: Any) -> Any:
        state, _ = step(key, state)
        return state, state.position

    return jax.lax.scan(next_, state, jax.random.split(key, DRAWS))[1]


def _timed(
    posterior: Posterior, jax: Any, constrain: Any, start: Any, chains: int, seed: int, warm: Any, draw: Any
) -> Drawn:
    """Warm-up and draws, as two compiled functions of keys and one state for each chain."""
    first, second, third = jax.random.split(jax.random.PRNGKey(seed), 3)
    leaves, form = jax.tree.flatten(start)
    keys = jax.random.split(third, len(leaves))
    apart = [x + jax.random.uniform(k, (chains, *x.shape), minval=-1.0) for k, x in zip(keys, leaves, strict=True)]
    begun = time.perf_counter()
    states, parameters = jax.jit(warm)(jax.random.split(first, chains), form.unflatten(apart))
    compiled = jax.jit(draw)
    positions = jax.block_until_ready(compiled(jax.random.split(second, chains), states, parameters))
    whole = time.perf_counter() - begun
    begun = time.perf_counter()
    jax.block_until_ready(compiled(jax.random.split(second, chains), states, parameters))
    drawing = time.perf_counter() - begun
    found = jax.vmap(jax.vmap(constrain))(positions)
    return Drawn(posterior.reported({n: np.asarray(found[n]) for n in posterior.start}), whole, drawing)


PEERS: dict[str, tuple[str, Sampler]] = {
    "NumPyro NUTS": ("numpyro", numpyro_nuts),
    "NumPyro NUTS, dense": ("numpyro", numpyro_dense),
    "BlackJAX NUTS": ("blackjax", blackjax_nuts),
    "BlackJAX NUTS, dense": ("blackjax", blackjax_dense),
    "BlackJAX MEADS": ("blackjax", blackjax_meads),
    "BlackJAX adjusted MCLMC": ("blackjax", blackjax_mclmc),
    "nutpie": ("nutpie", nutpie_nuts),
}
"""By name: the library that must be installed, and the sampler."""
FEWEST = {"BlackJAX MEADS": 16}
"""Chains that a sampler needs to find its settings."""
MOST = {"nutpie": 8}
"""Chains beyond which it is left out: it runs each in a thread of its own."""
