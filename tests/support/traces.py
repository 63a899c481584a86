"""Traces made by hand, and small third-party targets to make them of."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import biject_to, constraints

from ggmc.kernels import GGMC
from ggmc.targets.base import DataTarget, PredictiveTarget, Target
from ggmc.targets.data import as_data
from ggmc.targets.layout import Layout
from ggmc.trace.store import Block, MemoryStore
from ggmc.trace.trace import Trace

F32, F64 = torch.float32, torch.float64


class Gaussian(Target):
    """U = Σθ²/2 + constant, computed in the target's precision and only then made float64."""

    def __init__(
        self, shapes: dict[str, tuple[int, ...]] | None = None, dtype: torch.dtype = F64, constant: float = 0.0
    ):
        layout = Layout({"theta": (2,)} if shapes is None else shapes)
        super().__init__(layout, torch.zeros(layout.size, dtype=dtype), not_exact=None)
        self.constant = constant

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        return ((position**2).sum(-1) / 2 + self.constant).double()

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        return self.potential(position), position.clone()

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self.layout.views(position)

    def unconstrain(self, values: Any) -> Tensor:
        return self.layout.flatten(values)

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn(chains, self.layout.size, generator=generator, dtype=self.dtype)


class Simplex(Target):
    """Probabilities of four classes, as three unconstrained numbers with a normal distribution."""

    def __init__(self, dtype: torch.dtype = F32):
        super().__init__(Layout({"p": (3,)}), torch.zeros(3, dtype=dtype), not_exact=None)
        self.transform = biject_to(constraints.simplex)

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        return (position.double() ** 2).sum(-1) / 50

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        return self.potential(position), position / 25

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return {"p": self.transform(position)}

    def unconstrain(self, values: Any) -> Tensor:
        return self.transform.inv(values["p"])

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn(chains, 3, generator=generator, dtype=self.dtype)


class Regression(DataTarget):
    """y ~ N(x·weight, noise), with a prior N(0, 1) of all unconstrained numbers, the logarithm of the noise among them.

    Terms are computed in the target's precision and summed in float64; the prior is one number of that precision.
    """

    def __init__(self, x: Tensor, y: Tensor):
        layout = Layout({"weight": (x.shape[1],), "noise": ()})
        super().__init__(layout, torch.zeros(layout.size, dtype=x.dtype), not_exact=None)
        self.data, self.num_data = as_data((x, y), self.device), len(x)

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        return self.log_prior_part(position) - self.log_likelihoods(position).sum(1)

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        position = position.detach().requires_grad_()
        with torch.enable_grad():
            potential = self.potential(position)
            (gradient,) = torch.autograd.grad(potential.sum(), position)
        return potential.detach(), gradient

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        values = self.layout.views(position)
        return values | {"noise": values["noise"].exp()}

    def unconstrain(self, values: Any) -> Tensor:
        return self.layout.flatten(values | {"noise": values["noise"].log()})

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        return torch.randn(chains, self.layout.size, generator=generator, dtype=self.dtype) / 10

    def log_prior_part(self, position: Tensor) -> Tensor:
        return ((position**2).sum(-1) / 2).double()

    def log_likelihoods(self, position: Tensor, data: Any = None) -> Tensor:
        x, y = self.data.slice(0, self.num_data) if data is None else data
        values = self.constrain(position)
        noise = values["noise"][:, None]
        return (-(((y - values["weight"] @ x.T) / noise) ** 2) / 2 - noise.log()).double()

    def batch_gradient(self, position: Tensor, batch: Any, weights: Tensor) -> Tensor:
        raise NotImplementedError

    def batch_hessian_products(self, position: Tensor, batch: Any, weights: Tensor, directions: Tensor) -> Tensor:
        raise NotImplementedError

    def rows_at_once(self, examples: int) -> int:
        return 1000


class PredictiveRegression(Regression, PredictiveTarget):
    """The same, with predictions; its prior is summed in float64."""

    def log_prior_part(self, position: Tensor) -> Tensor:
        return (position**2).sum(-1, dtype=F64) / 2

    def predict(self, rows: Tensor, x: Any, seed: int = 0) -> Any:
        return {"mean": self.prediction_features(rows, x).mean(0), "seed": seed}

    def score(self, rows: Tensor, x: Any, y: Any) -> dict[str, float]:
        return {"rmse": float((self.predict(rows, x)["mean"] - y).square().mean().sqrt())}

    def prediction_features(self, rows: Tensor, x: Any = None) -> Tensor:
        x = self.data.slice(0, min(5, self.num_data))[0] if x is None else x
        return self.constrain(rows)["weight"] @ x.T

    def watched_latents(self) -> list[str]:
        return ["noise"]


def regression_data(examples: int = 20, dtype: torch.dtype = F64, size: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(examples, size, generator=generator, dtype=F64)
    y = x.sum(1) + torch.randn(examples, generator=generator, dtype=F64)
    return x.to(dtype), y.to(dtype)


def good_stats(chains: int, draws: int, **changed: np.ndarray | float | bool) -> dict[str, np.ndarray]:
    """Statistics with nothing to complain of, but for those that are given."""
    values: dict[str, Any] = {
        "lp": -1.0,
        "acceptance_rate": 0.8,
        "log_accept": float(np.log(0.8)),
        "is_accepted": True,
        "diverging": False,
        "energy_error": -float(np.log(0.8)),
        "kinetic_temperature": 1.0,
    }
    return {name: np.broadcast_to(v, (chains, draws)).copy() for name, v in (values | changed).items()}


def trace_of(
    rows: np.ndarray, target: Target | None = None, kernel: Any = None, **stats: np.ndarray | float | bool
) -> Trace:
    """A trace with these unconstrained rows [chains, draws, d], and with good statistics but for those given."""
    chains, draws, size = rows.shape
    target = Gaussian({"x": () if size == 1 else (size,)}) if target is None else target
    store = MemoryStore([Block(rows, good_stats(chains, draws, **stats))])
    return Trace(store, GGMC(0.1) if kernel is None else kernel, target)


def white_noise(chains: int = 4, draws: int = 1000, size: int = 1) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((chains, draws, size))
