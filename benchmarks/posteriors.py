"""Real posteriors with known answers, each written once for torch and for JAX.

A `Posterior` has a log density over an array namespace `xp` (torch or jax.numpy), so that two libraries sample the very
same function. The data and reference answers are read from the folder GGMC_DATA, by default ../shared/data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(os.environ.get("GGMC_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))

Values = dict[str, Any]


@dataclass
class Posterior:
    """A log density over named, possibly constrained values, and the reference answer on the reported scale."""

    name: str
    log_prob: Callable[[Any, Values, Values], Any]  # (xp, data, values), data being xp arrays
    data: Values
    start: Values
    constraints: dict[str, str] = field(default_factory=dict)  # name: "positive" or "unit"
    report: Callable[[Values], list[np.ndarray]] | None = (
        None  # draws [..., *shape] -> one array per reported parameter
    )
    parameters: list[str] = field(default_factory=list)
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    mean_error: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sd: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def reported(self, draws: Values) -> list[np.ndarray]:
        """Draws as one [chains, draws] array for each reported parameter, in the reference's order."""
        if self.report is not None:
            return self.report(draws)
        return [column for array in draws.values() for column in _columns(array)]

    def to_torch(self) -> Any:
        """As a `ggmc.Density`."""
        import torch
        from torch.distributions import constraints

        import ggmc

        kinds = {"positive": constraints.positive, "unit": constraints.unit_interval}
        data = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in self.data.items()}
        start = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in self.start.items()}
        return ggmc.Density(
            lambda values: self.log_prob(torch, data, values),
            start,
            {name: kinds[kind] for name, kind in self.constraints.items()},
        )

    def to_numpyro(self) -> Callable[[], None]:
        """As a NumPyro model: flat supports, with the log density as a factor."""
        import jax.numpy as jnp
        import numpyro
        from numpyro import distributions as dist
        from numpyro.distributions import constraints

        kinds = {"positive": constraints.positive, "unit": constraints.unit_interval}
        data = {name: jnp.asarray(value, dtype=float) for name, value in self.data.items()}

        def model() -> None:
            values = {}
            for name, value in self.start.items():
                support = kinds[self.constraints[name]] if name in self.constraints else constraints.real
                values[name] = numpyro.sample(name, dist.ImproperUniform(support, (), np.shape(value)))
            numpyro.factor("log_prob", self.log_prob(jnp, data, values))

        return model


def _columns(array: np.ndarray) -> list[np.ndarray]:
    return [array[(slice(None), slice(None), *index)] for index in np.ndindex(array.shape[2:])]


# Log densities, constants left out


def _normal(xp: Any, x: Any, mean: Any, sd: Any) -> Any:
    return (-0.5 * ((x - mean) / sd) ** 2 - xp.log(sd) + 0 * x).sum()


def _cauchy(xp: Any, x: Any, scale: float) -> Any:
    return -xp.log1p((x / scale) ** 2).sum()


def _prior(x: Any, sd: float, mean: float = 0.0) -> Any:
    return -0.5 * (((x - mean) / sd) ** 2).sum()


def _power_triangle(xp: Any, base: Any, lag: Any) -> Any:
    """[base^(t − k)] for k ≤ t, else 0: the solution of a linear recursion with coefficient `base`."""
    return xp.where(lag >= 0, base ** xp.where(lag >= 0, lag, 0 * lag), 0 * lag)


def _lags(length: int) -> np.ndarray:
    return np.subtract.outer(np.arange(length), np.arange(length)).astype(float)


def _repeat(xp: Any, function: Callable[[Any], Any], x: Any, times: int) -> Any:
    """[x, f(x), f(f(x)), …], stacked; JAX compiles a loop far faster than its copies."""
    if xp.__name__ == "jax.numpy":
        from jax import lax

        _, path = lax.scan(lambda x, _: (function(x), x), x, None, length=times + 1)
        return path
    path = [x]
    for _ in range(times):
        path.append(function(path[-1]))
    return xp.stack(path)


def _linear(xp: Any, data: Values, p: Values) -> Any:
    return _normal(xp, data["y"], data["X"] @ p["beta"], p["sigma"])


def _regression(name: str, X: np.ndarray, y: np.ndarray, prior: Any = None) -> Posterior:
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        total = _linear(xp, data, p)
        return total if prior is None else total + prior(xp, p)

    start = {"beta": np.zeros(X.shape[1]), "sigma": np.array(1.0)}
    return Posterior(name, log_prob, {"X": X, "y": y}, start, {"sigma": "positive"})


def _ark(name: str, d: Values) -> Posterior:
    y, K = np.array(d["y"]), d["K"]
    X = np.stack([np.ones(len(y) - K)] + [y[K - k : len(y) - k] for k in range(1, K + 1)], 1)
    return _regression(name, X, y[K:], lambda xp, p: _prior(p["beta"], 10.0) + _cauchy(xp, p["sigma"], 2.5))


def _arma(name: str, d: Values) -> Posterior:
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        mu, phi, theta, sigma = p["mu"], p["phi"], p["theta"], p["sigma"]
        y = data["y"]
        # The first error has no predecessor: its mean is mu + phi·mu, as if y before it had been mu.
        innovation = y - mu - phi * (data["previous"] + data["is_first"] * mu)
        error = _power_triangle(xp, -theta, data["lag"]) @ innovation
        prior = _prior(mu, 10.0) + _prior(phi, 2.0) + _prior(theta, 2.0) + _cauchy(xp, sigma, 2.5)
        return prior + _normal(xp, error, 0.0, sigma)

    y = np.array(d["y"])
    data = {"y": y, "previous": np.r_[0.0, y[:-1]], "is_first": np.eye(len(y))[0], "lag": _lags(len(y))}
    start = {name: np.array(0.1) for name in ("mu", "phi", "theta")} | {"sigma": np.array(1.0)}
    return Posterior(name, log_prob, data, start, {"sigma": "positive"})


def _diamonds(name: str, d: Values) -> Posterior:
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        prior = _prior(p["b"], 1.0)
        prior = prior - 2 * xp.log1p(((p["Intercept"] - 8) / 10) ** 2 / 3) - 2 * xp.log1p((p["sigma"] / 10) ** 2 / 3)
        return prior + _normal(xp, data["y"], p["Intercept"] + data["X"] @ p["b"], p["sigma"])

    X = np.array(d["X"])[:, 1:]
    start = {"b": np.zeros(X.shape[1]), "Intercept": np.array(0.0), "sigma": np.array(1.0)}
    return Posterior(name, log_prob, {"X": X - X.mean(0), "y": np.array(d["Y"])}, start, {"sigma": "positive"})


def _earnings(name: str, d: Values) -> Posterior:
    height, male = np.array(d["height"], float), np.array(d["male"], float)
    X = np.stack([np.ones_like(height), height, male, height * male], 1)
    return _regression(name, X, np.log(np.array(d["earn"], float)))


def _eight_schools(name: str, d: Values) -> Posterior:
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        prior = _prior(p["z"], 1.0) + _prior(p["mu"], 5.0) + _cauchy(xp, p["tau"], 5.0)
        return prior + _normal(xp, data["y"], p["mu"] + p["tau"] * p["z"], data["sigma"])

    def report(draws: Values) -> list[np.ndarray]:
        theta = draws["mu"][..., None] + draws["tau"][..., None] * draws["z"]
        return [*_columns(theta), draws["mu"], draws["tau"]]

    data = {"y": np.array(d["y"], float), "sigma": np.array(d["sigma"], float)}
    start = {"z": np.zeros(8), "mu": np.array(0.0), "tau": np.array(1.0)}
    return Posterior(name, log_prob, data, start, {"tau": "positive"}, report)


def _garch(name: str, d: Values) -> Posterior:
    # beta1 < 1 − alpha1 is written as beta1 = share · (1 − alpha1), whose Jacobian is 1 − alpha1.
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        beta1 = p["share"] * (1 - p["alpha1"])
        shock = p["alpha0"] + p["alpha1"] * (data["previous"] - p["mu"]) ** 2
        is_first = data["is_first"]
        shock = shock * (1 - is_first) + data["sigma1"] ** 2 * is_first
        variance = _power_triangle(xp, beta1, data["lag"]) @ shock
        return xp.log(1 - p["alpha1"]) + _normal(xp, data["y"], p["mu"], xp.sqrt(variance))

    def report(draws: Values) -> list[np.ndarray]:
        beta1 = draws["share"] * (1 - draws["alpha1"])
        return [draws["mu"], draws["alpha0"], draws["alpha1"], beta1]

    y = np.array(d["y"])
    data = {"y": y, "previous": np.r_[0.0, y[:-1]], "is_first": np.eye(len(y))[0], "lag": _lags(len(y))}
    data["sigma1"] = np.array(d["sigma1"])
    start = {"mu": np.array(0.0), "alpha0": np.array(1.0), "alpha1": np.array(0.5), "share": np.array(0.5)}
    return Posterior(name, log_prob, data, start, {"alpha0": "positive", "alpha1": "unit", "share": "unit"}, report)


def _gp(name: str, d: Values) -> Posterior:
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        rho, alpha, sigma = p["rho"], p["alpha"], p["sigma"]
        covariance = alpha**2 * xp.exp(-0.5 * data["square_distance"] / rho**2) + sigma * data["eye"]
        factor = xp.linalg.cholesky(covariance)
        white = xp.linalg.solve(factor, data["y"])
        prior = 24 * xp.log(rho) - 4 * rho + _prior(alpha, 2.0) + _prior(sigma, 1.0)
        return prior - 0.5 * (white**2).sum() - xp.log((factor * data["eye"]).sum(-1)).sum()

    x = np.array(d["x"], float)
    data = {"y": np.array(d["y"]), "square_distance": np.subtract.outer(x, x) ** 2, "eye": np.eye(len(x))}
    start = {name: np.array(1.0) for name in ("rho", "alpha", "sigma")}
    return Posterior(name, log_prob, data, start, dict.fromkeys(start, "positive"))


def _lotka_volterra(name: str, d: Values) -> Posterior:
    substeps = 4  # of RK4 per year, in logarithms: off by 1.4e-4 after 20 years

    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        theta, sigma = p["theta"], p["sigma"]
        growth = xp.stack([theta[0], -theta[2]])
        coupling = xp.stack([-theta[1], theta[3]])

        def slope(x: Any) -> Any:
            return growth + coupling * xp.exp(xp.roll(x, 1))

        def advance(x: Any) -> Any:
            h = 1 / substeps
            k1 = slope(x)
            k2 = slope(x + h / 2 * k1)
            k3 = slope(x + h / 2 * k2)
            k4 = slope(x + h * k3)
            return x + h / 6 * (k1 + 2 * (k2 + k3) + k4)

        x = xp.log(p["z_init"])
        path = _repeat(xp, advance, x, 20 * substeps)[::substeps]
        prior = -0.5 * (((theta - data["theta_mean"]) / data["theta_sd"]) ** 2).sum()
        for value, mean in ((p["z_init"], np.log(10.0)), (sigma, -1.0)):
            prior = prior - 0.5 * ((xp.log(value) - mean) ** 2).sum() - xp.log(value).sum()
        return prior + _normal(xp, data["log_y"], path, sigma)

    data = {
        "log_y": np.log(np.vstack([d["y_init"], d["y"]])),
        "theta_mean": np.array([1.0, 0.05, 1.0, 0.05]),
        "theta_sd": np.array([0.5, 0.05, 0.5, 0.05]),
    }
    start = {"theta": np.array([0.5, 0.03, 0.8, 0.03]), "z_init": np.array([30.0, 4.0]), "sigma": np.array([0.5, 0.5])}
    return Posterior(name, log_prob, data, start, dict.fromkeys(start, "positive"))


def _kidiq(name: str, d: Values) -> Posterior:
    hs, iq = np.array(d["mom_hs"], float), np.array(d["mom_iq"], float)
    X = np.stack([np.ones_like(hs), hs, iq, hs * iq], 1)
    return _regression(name, X, np.array(d["kid_score"], float), lambda xp, p: _cauchy(xp, p["sigma"], 2.5))


def _kilpisjarvi(name: str, d: Values) -> Posterior:
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        prior = _prior(p["alpha"], d["psalpha"], d["pmualpha"]) + _prior(p["beta"], d["psbeta"], d["pmubeta"])
        return prior + _normal(xp, data["y"], p["alpha"] + p["beta"] * data["x"], p["sigma"])

    start = {"alpha": np.array(0.0), "beta": np.array(0.0), "sigma": np.array(1.0)}
    data = {"x": np.array(d["x"], float), "y": np.array(d["y"], float)}
    return Posterior(name, log_prob, data, start, {"sigma": "positive"})


def _gauss_mix(name: str, d: Values) -> Posterior:
    # mu[1] < mu[2] is written as mu[2] = mu[1] + gap.
    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        first, second = p["first"], p["first"] + p["gap"]
        sigma, theta, y = p["sigma"], p["theta"], data["y"]

        def component(weight: Any, mean: Any, sd: Any) -> Any:
            return xp.log(weight) - 0.5 * ((y - mean) / sd) ** 2 - xp.log(sd)

        likelihood = xp.logaddexp(component(theta, first, sigma[0]), component(1 - theta, second, sigma[1])).sum()
        prior = _prior(first, 2.0) + _prior(second, 2.0) + _prior(sigma, 2.0)
        return prior + 4 * (xp.log(theta) + xp.log(1 - theta)) + likelihood

    def report(draws: Values) -> list[np.ndarray]:
        return [draws["first"], draws["first"] + draws["gap"], *_columns(draws["sigma"]), draws["theta"]]

    start = {"first": np.array(-1.0), "gap": np.array(2.0), "sigma": np.ones(2), "theta": np.array(0.5)}
    constraints = {"gap": "positive", "sigma": "positive", "theta": "unit"}
    return Posterior(name, log_prob, {"y": np.array(d["y"])}, start, constraints, report)


def _mesquite(name: str, d: Values) -> Posterior:
    logs = [np.log(np.array(d[k], float)) for k in ("diam1", "diam2", "canopy_height", "total_height", "density")]
    X = np.stack([np.ones(d["N"]), *logs, np.array(d["group"], float)], 1)
    return _regression(name, X, np.log(np.array(d["weight"], float)))


def _nes(name: str, d: Values) -> Posterior:
    age = np.array(d["age_discrete"])
    columns = [np.ones(d["N"]), d["real_ideo"], d["race_adj"], age == 2, age == 3, age == 4]
    columns += [d["educ1"], d["gender"], d["income"]]
    X = np.stack([np.array(column, float) for column in columns], 1)
    return _regression(name, X, np.array(d["partyid7"], float))


def _sblrc(name: str, d: Values) -> Posterior:
    prior = lambda xp, p: _prior(p["beta"], 10.0) + _prior(p["sigma"], 10.0)  # noqa: E731
    return _regression(name, np.array(d["X"]), np.array(d["y"]), prior)


_MODELS: dict[str, Callable[[str, Values], Posterior]] = {
    "arK-arK": _ark,
    "arma-arma11": _arma,
    "diamonds-diamonds": _diamonds,
    "earnings-logearn_interaction": _earnings,
    "eight_schools-eight_schools_noncentered": _eight_schools,
    "garch-garch11": _garch,
    "gp_pois_regr-gp_regr": _gp,
    "hudson_lynx_hare-lotka_volterra": _lotka_volterra,
    "kidiq-kidscore_interaction": _kidiq,
    "kilpisjarvi_mod-kilpisjarvi": _kilpisjarvi,
    "low_dim_gauss_mix-low_dim_gauss_mix": _gauss_mix,
    "mesquite-logmesquite": _mesquite,
    "nes2000-nes": _nes,
    "sblrc-blr": _sblrc,
}

NAMES = list(_MODELS)


def posteriordb(name: str) -> Posterior:
    """One of the posteriors of posteriordb, with its reference means, their errors, and standard deviations."""
    folder = DATA / "posteriordb" / name
    model = _MODELS[name](name, json.loads((folder / "data.json").read_text()))
    answer = json.loads((folder / "reference_summary.json").read_text())
    model.parameters = answer["params"]
    model.mean, model.mean_error, model.sd = (np.array(answer[key]) for key in ("mean", "mcse_mean", "sd"))
    return model


def german_credit() -> Posterior:
    """Logistic regression on German credit: w ~ N(0, I), 25 weights, the constant last."""
    raw = np.loadtxt(DATA / "german_credit" / "german.data-numeric.txt")
    X = raw[:, :-1]
    X = np.c_[(X - X.mean(0)) / X.std(0), np.ones(len(X))]

    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        logits = data["X"] @ p["w"]
        return _prior(p["w"], 1.0) + (data["y"] * logits - xp.logaddexp(logits, 0 * logits)).sum()

    data = {"X": X, "y": (raw[:, -1] == 2).astype(float)}
    model = Posterior("german_credit", log_prob, data, {"w": np.zeros(X.shape[1])})
    answer = json.loads((DATA / "german_credit" / "reference_logreg.json").read_text())
    model.parameters = [f"w[{i}]" for i in range(X.shape[1])]
    model.mean, model.mean_error, model.sd = (np.array(answer[key]) for key in ("mean", "mean_se", "sd"))
    return model


def ill_conditioned_gaussian(d: int = 50) -> Posterior:
    """A Gaussian with standard deviations from 0.01 to 1, evenly spread in logarithms, and turned at random."""
    generator = np.random.default_rng(0)
    turned = np.linalg.qr(generator.normal(size=(d, d)))[0]
    sd = np.logspace(-2, 0, d)
    precision = turned @ np.diag(sd**-2.0) @ turned.T
    covariance = turned @ np.diag(sd**2.0) @ turned.T

    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        return -0.5 * (p["x"] * (data["precision"] @ p["x"])).sum()

    model = Posterior("gaussian, 50 d", log_prob, {"precision": (precision + precision.T) / 2}, {"x": np.zeros(d)})
    model.parameters = [f"x[{i}]" for i in range(d)]
    model.mean, model.mean_error, model.sd = np.zeros(d), np.zeros(d), np.sqrt(np.diag(covariance))
    return model


def hidden_markov_model(length: int = 200, states: int = 3) -> Posterior:
    """A chain of hidden states seen with normal noise: the forward algorithm, one step of it after another.

    Means in order, from the lowest and the gaps above it; the probability to stay, one for each state.
    """
    generator = np.random.default_rng(0)
    state, seen = 0, []
    for _ in range(length):
        state = state if generator.random() < 0.9 else int(generator.integers(states))
        seen.append(2.0 * state + 0.6 * generator.normal())

    def log_prob(xp: Any, data: Values, p: Values) -> Any:
        means = xp.cumsum(xp.concatenate([p["first"][None], p["gaps"]]), 0)
        stay, sd = p["stay"], p["sd"]
        eye = data["eye"]
        change = eye * stay[:, None] + (1 - eye) * ((1 - stay) / (states - 1))[:, None]
        terms = -0.5 * ((data["y"][:, None] - means) / sd) ** 2 - xp.log(sd)
        weights = xp.exp(terms - terms.max()) if xp.__name__ == "jax.numpy" else xp.exp(terms - terms.amax())
        largest = terms.max() if xp.__name__ == "jax.numpy" else terms.amax()

        def advance(forward: Any, weight: Any) -> Any:
            after = (forward @ change) * weight
            total = after.sum()
            return after / total, xp.log(total)

        total, forward = _fold(xp, advance, weights[0] / states, weights[1:])
        prior = _prior(p["first"], 5.0) + _prior(p["gaps"], 5.0) + _prior(p["sd"], 2.0) + 8 * xp.log(stay).sum()
        return prior + total + length * largest + xp.log(forward.sum())

    data = {"y": np.array(seen), "eye": np.eye(states)}
    start = {
        "first": np.array(0.0),
        "gaps": np.full(states - 1, 2.0),
        "stay": np.full(states, 0.8),
        "sd": np.array(1.0),
    }
    model = Posterior(
        "hidden Markov model", log_prob, data, start, {"gaps": "positive", "stay": "unit", "sd": "positive"}
    )
    model.parameters = [
        "first",
        *(f"gaps[{i}]" for i in range(states - 1)),
        *(f"stay[{i}]" for i in range(states)),
        "sd",
    ]
    return model


def _fold(xp: Any, function: Callable[[Any, Any], Any], x: Any, rows: Any) -> tuple[Any, Any]:
    """x carried on by x, y = f(x, row), row by row: the sum of all y, and the last x."""
    if xp.__name__ == "jax.numpy":
        from jax import lax

        last, each = lax.scan(function, x, rows)
        return each.sum(), last
    total = 0.0
    for row in rows:
        x, y = function(x, row)
        total = total + y
    return total, x
