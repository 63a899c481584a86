"""A world in which much was done already, on disk and in memory: what a bad call must leave as it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import ggmc
from ggmc.errors import BadInput
from tests.support.collecting import Loop

F64 = torch.float64
SHORT: dict[str, Any] = {"draws": 8, "warmup": 4, "chains": 2, "progress": False}
g: Any = ggmc  # what is called wrongly here, type checkers would refuse
o: Any = ggmc.optim


def quartic(x: Tensor) -> Tensor:
    return -(x**4 / 4 + x).sum()


def line(w: Tensor, batch: Any) -> Tensor:
    x, y = batch
    return -((y - x @ w) ** 2) / 2


def normal(w: Tensor) -> Tensor:
    return -(w**2).sum() / 2


def same_density() -> ggmc.Density:
    return ggmc.Density(quartic, torch.zeros(2, dtype=F64))


def zero_net() -> nn.Module:
    """Made without random numbers: torch's own generator must stay as it is."""
    module = nn.Linear(2, 1, device="meta").to_empty(device="cpu")
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


def digest(content: bytes | np.ndarray) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.tobytes()).hexdigest()


@dataclass
class World:
    """What was made before the bad call, on disk and in memory, and what bad calls are made with.

    Args:
        folder: Everything on disk is below it.
    """

    folder: Path

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.zeros = torch.zeros(2, dtype=F64)
        self.x, self.y = torch.randn(12, 2, dtype=F64), torch.randn(12, dtype=F64)
        self.labels = torch.arange(12) % 3
        self.net, self.net3 = nn.Linear(2, 1).double(), nn.Linear(2, 3).double()
        self.kernel, self.density, prior = ggmc.HMC(0.3, 3), same_density(), ggmc.priors.Gaussian(1.0)
        self.data = ggmc.DataDensity(normal, line, (self.x, self.y), self.zeros)
        self.posterior = ggmc.Posterior(self.net, "gaussian", prior, self.x, self.y, vectorise=True)
        self.classes = ggmc.Posterior(self.net3, "categorical", prior, self.x, self.labels, vectorise=True)
        self.run, self.saved, self.file = (self.folder / name for name in ("run", "saved", "file"))
        self.other, self.new = self.folder / "other", self.folder / "new"  # there is nothing in `new` yet
        ggmc.sample(self.density, self.kernel, **SHORT, out=self.run)
        self.draws = ggmc.sample(self.density, self.kernel, **SHORT, seed=1)
        self.trace = ggmc.sample(self.posterior, self.kernel, **SHORT)
        self.votes = ggmc.sample(self.classes, self.kernel, **SHORT)
        self.trace.save(self.saved)
        self.file.write_text("not a run")
        self.other.mkdir()
        (self.other / "thesis.tex").write_text("years of work")
        self.loop = Loop(out=self.folder / "loop")
        self.loop.advance(3)
        self.loop.draws.trace()

    def snapshot(self) -> dict[str, Any]:
        """All that must stay: files, draws, weights, and torch's own generator and settings."""
        traces = {"draws": self.draws, "trace": self.trace, "votes": self.votes, "run": ggmc.load(self.run)}
        weights = [*self.net.parameters(), *self.net3.parameters(), *self.loop.net.parameters()]
        return {
            **{str(file): digest(file.read_bytes()) for file in self.folder.rglob("*") if file.is_file()},
            "folders": sorted(str(folder) for folder in self.folder.rglob("*") if folder.is_dir()),
            **{name: (trace.num_draws, digest(np.asarray(trace.store.rows()[:]))) for name, trace in traces.items()},
            "weights": [digest(weight.detach().numpy()) for weight in weights],
            "loop": (self.loop.draws.done, digest(self.loop.optimiser.momenta.numpy())),
            "random": digest(torch.get_rng_state().numpy()),
            "validation": torch.distributions.Distribution._validate_args,
            "threads": torch.get_num_threads(),
            "gradients": torch.is_grad_enabled(),
        }

    def sample(self, **changed: Any) -> Any:
        settings = {"target": self.density, "kernel": self.kernel} | SHORT | changed
        return g.sample(settings.pop("target"), settings.pop("kernel"), **settings)

    def density_of(self, log_prob: Any, start: Any = None, bounds: Any = None) -> Any:
        return g.Density(log_prob, self.zeros + 1 if start is None else start, bounds)

    def data_density(self, likelihood: Any = line, data: Any = None, prior: Any = normal, **options: Any) -> Any:
        return g.DataDensity(prior, likelihood, (self.x, self.y) if data is None else data, self.zeros, **options)

    def posterior_of(self, module: Any = None, likelihood: Any = "gaussian", **changed: Any) -> Any:
        settings = {"prior": ggmc.priors.Gaussian(1.0), "x": self.x, "y": self.y} | changed
        return g.Posterior(self.net if module is None else module, likelihood, **settings)

    def order(self, draw: Any, reversible: Any = True) -> Any:
        guide = ggmc.Minibatch(3, order=g.CustomOrder(draw, reversible))
        return self.sample(target=self.data, kernel=ggmc.GGMC(0.1, guide=guide))

    def trajectory(self, total_loss: Any, begin: Any = None, **options: Any) -> Any:
        module = zero_net()
        optimiser = o.GGMC(module, 0.01, 0.9, num_data=12, seed=0)
        optimiser.begin_trajectory(begin)
        module(self.x.float()).square().mean().backward()
        optimiser.step()
        return optimiser.end_trajectory(total_loss, **options)

    def optimiser(self, *args: Any, kind: Any = o.GGMC, **changed: Any) -> Any:
        settings = {"lr": 0.1, "num_data": 12, "seed": 0} | ({"momentum": 0.9} if kind is o.GGMC else {}) | changed
        return kind(*(args or (zero_net(),)), **settings)

    def collector(self, **changed: Any) -> Any:
        settings = {"module": self.loop.net, "optimiser": self.loop.optimiser} | changed
        return o.Collector(**settings)


class Case(NamedTuple):
    """A bad call, and what it must raise."""

    name: str
    call: Callable[[World], object]
    message: str
    error: type[Exception] = BadInput
