"""Runs are where the target is, whatever torch's default device.

Within `with torch.device("meta")` a tensor made without a device has no values, so that any use of it fails. Each run
is compared with the same run outside: bit for bit the same draws.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import constraints

import ggmc
from ggmc.guides.orders import CustomOrder
from ggmc.kernels import Kernel
from ggmc.sampling.chains import Chains
from ggmc.sampling.threads import use_threads
from ggmc.targets.base import Target
from tests.support.augmentations import Shifted
from tests.support.gaussians import gaussian
from tests.support.logistic import logistic
from tests.support.posteriors import NORMAL, X, Y

F64 = torch.float64
QUICK: dict[str, Any] = {"draws": 8, "warmup": 45, "chains": 2, "progress": False}


def same_elsewhere(target: Target, kernel: Kernel | None, **options: Any) -> ggmc.Trace:
    """A run with tensors made elsewhere by default, which is the same as one without."""
    here = ggmc.sample(target, kernel, **(QUICK | options))
    with torch.device("meta"):
        there = ggmc.sample(target, kernel, **(QUICK | options))
    assert np.isfinite(there.positions).all()
    assert np.array_equal(here.positions, there.positions)
    assert set(here.stats) == set(there.stats)
    for name, values in here.stats.items():
        assert np.array_equal(values, there.stats[name], equal_nan=True), name
    assert here.kernel == there.kernel
    assert here.warnings == there.warnings
    return there


def density() -> ggmc.Density:
    return gaussian(3)


def reversed_twice(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    half = torch.randint(batches, ((entries + 1) // 2,), generator=generator, device=generator.device)
    return torch.cat([half, half[: entries // 2].flip(0)])


KERNELS: list[Kernel | None] = [
    None,
    ggmc.GGMC(),
    ggmc.GGMC(0.3, steps=(1, 4), mass=[1.0, 2.0, 3.0]),
    ggmc.GGMC(0.3, mass=torch.eye(3, dtype=F64)),
    ggmc.GGMC(0.3, steps=4, adjust=False, monitor_every=3),
    ggmc.GGMC(0.3, steps=4, along=ggmc.schedule.Along(ggmc.schedule.Cosine(low=0.3), either_way=True)),
    ggmc.GGMC(0.3, over=ggmc.schedule.Over(4, step_size=ggmc.schedule.Cosine(low=0.3))),
    ggmc.HMC(),
    ggmc.MALA(),
    ggmc.MALT(),
    ggmc.AMAGOLD(0.1),
    ggmc.SGLD(0.1),
    ggmc.SGHMC(0.1),
    ggmc.SGNHT(0.1),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: "default" if k is None else type(k).__name__)
def test_every_kernel(kernel: Kernel | None) -> None:
    same_elsewhere(density(), kernel)


GUIDES: list[Any] = [
    ggmc.Exact(),
    ggmc.Minibatch(60),
    ggmc.Minibatch(60, "epoch"),
    ggmc.Minibatch(60, "iid"),
    ggmc.Minibatch(60, recut=True),
    ggmc.Minibatch(60, "epoch", recut=True),
    ggmc.Minibatch(60, "iid", recut=True),
    ggmc.Minibatch(60, augment=Shifted(0.1)),
    ggmc.Minibatch(60, "epoch", recut=True, augment=Shifted(0.1)),
    ggmc.Minibatch(60, CustomOrder(reversed_twice, reversible=True)),
    ggmc.Minibatch("auto"),
    ggmc.ControlVariate(60),
    ggmc.ControlVariate(60, "epoch", "diagonal"),
    ggmc.ControlVariate(60, "iid", "dense"),
    ggmc.ControlVariate("auto", curvature="dense"),
    ggmc.ControlVariate(60, anchor=torch.zeros(3, dtype=F64)),
    ggmc.Surrogate(lambda w: -40 * (w**2).sum()),
]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: str(guide).split("log_prob")[0])
def test_every_guide(guide: Any) -> None:
    same_elsewhere(logistic(120), ggmc.GGMC(guide=guide))


@pytest.mark.parametrize("mass", ["identity", "diagonal", "dense", "tensor", "low_rank", [1.0, 2.0, 3.0]])
def test_every_kind_of_mass(mass: Any) -> None:
    same_elsewhere(density(), ggmc.GGMC(mass=mass))


def test_a_mass_of_low_rank_from_data() -> None:
    same_elsewhere(logistic(120), ggmc.GGMC(mass="low_rank", guide=ggmc.Minibatch(30)))


def test_explained_errors() -> None:
    trace = same_elsewhere(logistic(120), ggmc.GGMC(0.05, guide=ggmc.Minibatch(60), explain=0.5))
    assert "noise_error" in trace.stats


def test_early_stops() -> None:
    same_elsewhere(logistic(120, bound=0.0), ggmc.GGMC(0.1, guide=ggmc.Minibatch(60, "iid"), steps=4))


def test_annealing_and_a_given_start() -> None:
    same_elsewhere(density(), None, anneal=5.0, start=torch.ones(2, 3, dtype=F64))


def test_chains_that_are_moved() -> None:
    """One chain in a trap: it is found and moved in both worlds."""

    def log_prob(x: Tensor) -> Tensor:
        return torch.logaddexp(-(x**2) / 2, -60 - (x - 30) ** 2 / 2).sum()

    target = ggmc.Density(log_prob, torch.zeros(1, dtype=F64))
    start = torch.tensor([[0.0], [0.5], [-0.5], [30.0]], dtype=F64)
    trace = same_elsewhere(target, None, start=start, chains=4, warmup=200)
    assert any("Warm-up moved chain 3" in message for message in trace.warnings)


def test_the_number_of_threads() -> None:
    with use_threads(2):
        same_elsewhere(logistic(120), ggmc.HMC(0.1, 2), warmup=2)


def test_stored_runs() -> None:
    target = density()
    run = Chains(target, ggmc.GGMC(), 3, 60, 0)
    for _ in range(40):
        run.advance()
    stored = run.state_dict()
    with torch.device("meta"):
        other = Chains(target, ggmc.GGMC(), 3, 60, 1, stored=stored)
        for _ in range(30):
            other.advance()
    for _ in range(30):
        run.advance()
    assert torch.equal(run.state.position, other.state.position)


def posterior() -> ggmc.Posterior:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    return ggmc.Posterior(module, "gaussian", NORMAL, X, Y, vectorise=True)


@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(6), ggmc.ControlVariate(6)], ids=str)
def test_posteriors(guide: Any) -> None:
    same_elsewhere(posterior(), ggmc.GGMC(guide=guide))


QUESTIONS: dict[str, Callable[[ggmc.Trace], Any]] = {
    "rows": lambda trace: trace.rows(2),
    "stacked rows": lambda trace: trace.stacked_rows(),
    "values": lambda trace: trace.draws,
    "datatree": lambda trace: trace.to_datatree(log_likelihood=True).to_dict(),
    "summary": lambda trace: trace.summary(),
    "temperatures": lambda trace: trace.temperatures(draws=4),
    "prediction": lambda trace: trace.predict(X).mean,
    "predictive summary": lambda trace: trace.predictive_summary(X),
    "score": lambda trace: trace.score(X, Y),
    "log likelihood": lambda trace: trace.log_likelihood(),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_a_trace_is_asked(question: str) -> None:
    trace = ggmc.sample(posterior(), ggmc.HMC(0.05, 2), **QUICK)
    with torch.device("meta"):
        there = QUESTIONS[question](trace)
    again = ggmc.Trace(trace.store, trace.kernel, trace.target, trace.attributes)
    here = QUESTIONS[question](again)
    if isinstance(here, Tensor):
        assert torch.equal(here, there)
    else:
        assert str(here) == str(there)


def test_constrained_values() -> None:
    start = {"p": torch.tensor([0.2, 0.3, 0.5], dtype=F64), "scale": torch.ones((), dtype=F64)}
    target = ggmc.Density(
        lambda v: v["p"].log().sum() - v["scale"],
        start,
        {"p": constraints.simplex, "scale": constraints.positive},
    )
    trace = same_elsewhere(target, None)
    with torch.device("meta"):
        assert np.allclose(trace["p"].sum(-1), 1)


def test_sweeps() -> None:
    target, kernel = posterior(), ggmc.HMC(0.05, 2)
    here, _ = ggmc.tempering(target, [1.0, 0.5], kernel, x=X, y=Y, **QUICK)
    with torch.device("meta"):
        there, _ = ggmc.tempering(target, [1.0, 0.5], kernel, x=X, y=Y, **QUICK)
    assert here.equals(there)


def test_callbacks_and_tensorboard(tmp_path: Path) -> None:
    target = density()
    with torch.device("meta"), ggmc.tensorboard.Logger(tmp_path) as logger:
        ggmc.sample(target, None, callback=logger, **QUICK)


def test_retracing() -> None:
    target = density()
    with torch.device("meta"):
        found = ggmc.retrace(ggmc.GGMC(0.3), target)
    assert found.possible
    assert found.distance == ggmc.retrace(ggmc.GGMC(0.3), target).distance
