"""A sampler and a store of the user's own: all that they need to run is in the abstract classes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.mass import Diagonal, MassLike, fixed_mass
from ggmc.dynamics.state import Info, Parameters, State
from ggmc.errors import NotExact
from ggmc.guides import Exact, GradientField, Guide
from ggmc.kernels import Kernel, Sampler
from ggmc.sampling.callbacks import Moment
from ggmc.sampling.chains import Chains
from ggmc.sampling.run import BLOCK
from ggmc.targets.base import Target
from ggmc.trace.store import Block, Store
from ggmc.warmup.step_size import harmonic_mean
from tests.support.gaussians import gaussian
from tests.support.logistic import logistic
from tests.support.orders import Vectorised, ascending

F64 = torch.float64


@dataclass(frozen=True, eq=False)
class RandomWalk(Kernel):
    """Random-walk Metropolis: proposals N(θ, h²T·M⁻¹), a statistic of its own, and a variable of its own."""

    step_size: float | None = None
    temperature: float = 1.0
    mass: MassLike = None
    guide: Guide = Exact()
    adjust: bool = True

    def sampler(self, target: Target, field: GradientField) -> RandomWalkSampler:
        return RandomWalkSampler(self, target, field)


class RandomWalkSampler(Sampler):
    """Proposes, and accepts or stays."""

    def __init__(self, kernel: RandomWalk, target: Target, field: GradientField):
        step_size = math.nan if kernel.step_size is None else kernel.step_size
        mass = fixed_mass(kernel.mass, target.start)
        parameters = Parameters.of(step_size, math.inf, kernel.temperature, mass, device=target.device)
        remarks = ["A random walk: use gradients where there are any."]
        super().__init__(target, field, parameters, remarks, adjust=kernel.adjust)

    def init(self, position: Tensor, generator: torch.Generator) -> State:
        distance = torch.zeros(len(position), dtype=F64)
        momentum = torch.randn(position.shape, generator=generator, dtype=position.dtype)
        return State(position, momentum, self.target.potential(position), extra={"distance": distance})

    def step(self, state: State, parameters: Parameters, generator: torch.Generator) -> tuple[State, Info]:
        assert state.potential is not None
        noise = torch.randn(state.position.shape, generator=generator, dtype=state.position.dtype)
        scale = parameters.step_size * parameters.temperature.sqrt()
        proposed = state.position + scale * parameters.mass.velocity(parameters.mass.colour(noise))
        potential = self.target.potential(proposed)
        error = potential - state.potential
        log_accept = -error / parameters.temperature
        accepted = torch.rand(len(error), generator=generator, dtype=F64).log() < log_accept
        position = torch.where(accepted[:, None], proposed, state.position)
        jump = (position - state.position).norm(dim=-1)
        fresh = torch.randn(position.shape, generator=generator, dtype=position.dtype)
        after = State(
            position,
            parameters.temperature.sqrt() * parameters.mass.colour(fresh),
            torch.where(accepted, potential, state.potential),
            trajectories=state.trajectories + 1,
            extra={"distance": state.extra["distance"] + jump},
        )
        statistics = {"jump": jump, "distance": after.extra["distance"]}
        return after, Info(log_accept, accepted, ~potential.isfinite(), error, torch.zeros_like(error), 1, statistics)


class Folder(Store):
    """Draws on disk, a file for each block."""

    def __init__(self, folder: Path):
        self.folder, self.number = folder, 0

    def append(self, block: Block) -> None:
        with open(self.folder / f"{self.number}.npz", "wb") as file:
            np.savez(file, rows=block.rows, **block.stats)  # pyright: ignore[reportArgumentType]
        self.number += 1

    def rows(self) -> np.ndarray:
        return self._read(lambda file: file["rows"])

    def stats(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "0.npz") as first:
            names = [name for name in first.files if name != "rows"]
        return {name: self._read(lambda file, name=name: file[name]) for name in names}

    def _read(self, part: Callable[[Any], np.ndarray]) -> np.ndarray:
        return np.concatenate([part(np.load(self.folder / f"{i}.npz")) for i in range(self.number)], axis=1)


def test_a_sampler_of_the_users_own_is_tuned_and_samples_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    scales = torch.tensor([1.0, 10.0], dtype=F64)
    target = ggmc.Density(lambda x: -((x / scales) ** 2).sum() / 2, torch.zeros(2, dtype=F64))
    seen: list[Moment] = []
    trace = ggmc.sample(
        target, RandomWalk(mass="diagonal"), 2000, 600, target_accept=0.4, progress=True, callback=seen.append
    )
    shown = capsys.readouterr().err
    assert "sampling" in shown
    assert "acceptance" in shown
    kernel = trace.kernel
    assert isinstance(kernel, RandomWalk)
    assert isinstance(kernel.mass, Diagonal)
    assert kernel.step_size is not None
    heard = [harmonic_mean(torch.from_numpy(at_once)) for at_once in trace.stats["log_accept"].T]
    assert np.mean(heard) == pytest.approx(0.4, abs=0.1)
    found = kernel.mass.matrix.rsqrt() / scales
    assert 0.6 < found.min() < found.max() < 1.6
    assert (trace.stats["step_size"] == kernel.step_size).all()
    # 8000 draws with an autocorrelation time of about 10: the standard error of the deviation is about 2.5 %
    np.testing.assert_allclose(trace["theta"].std((0, 1)), scales.numpy(), rtol=0.15)
    assert "A random walk: use gradients where there are any." in trace.warnings
    assert len(seen) == 2600


def test_its_own_statistics_and_variables_are_kept() -> None:
    trace = ggmc.sample(gaussian(), RandomWalk(0.5), 3 * BLOCK + 1, 10, chains=3, progress=False)
    jumps = np.linalg.norm(np.diff(trace.positions, axis=1), axis=-1)
    np.testing.assert_allclose(trace.stats["jump"][:, 1:], jumps)
    np.testing.assert_allclose(np.diff(trace.stats["distance"], axis=1), jumps)
    assert (trace.stats["jump"][~trace.stats["is_accepted"]] == 0).all()
    stored = trace.to_datatree()["sample_stats"]
    assert {"jump", "distance", "lp", "acceptance_rate"} <= set(stored)
    np.testing.assert_allclose(trace.stats["lp"], -(trace.positions**2).sum(-1) / 2)


@pytest.mark.parametrize("after", [5, 60, 130])
def test_its_runs_are_stored_and_go_on_bit_for_bit(after: int) -> None:
    one = Chains(gaussian(), RandomWalk(), 3, 100, 0)
    for _ in range(after):
        one.advance()
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other = Chains(gaussian(), RandomWalk(), 3, 100, 9, stored=torch.load(file, weights_only=True))
    for _ in range(150 - after):
        here, there = one.advance(), other.advance()
        assert torch.equal(here.log_accept, there.log_accept)
    assert torch.equal(one.state.extra["distance"], other.state.extra["distance"])
    assert one.kernel == other.kernel


def test_its_draws_go_to_a_store_of_the_users_own(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    kernel = ggmc.HMC(0.7, 3)
    trace = ggmc.sample(gaussian(), kernel, 2 * BLOCK + 3, 20, progress=False, store=store)
    usual = ggmc.sample(gaussian(), kernel, 2 * BLOCK + 3, 20, progress=False)
    assert store.number == 3
    assert np.array_equal(trace.positions, usual.positions)
    assert set(trace.stats) == set(usual.stats)
    for name, values in usual.stats.items():
        assert np.array_equal(trace.stats[name], values, equal_nan=True), name
    assert trace.warnings == usual.warnings
    assert np.array_equal(trace["theta"], usual["theta"])


class Shy(RandomWalkSampler):
    """A sampler that does not keep its potential."""

    def step(self, state: State, parameters: Parameters, generator: torch.Generator) -> tuple[State, Info]:
        state = state._replace(potential=self.target.potential(state.position))
        after, info = super().step(state, parameters, generator)
        return after._replace(potential=None), info


@dataclass(frozen=True, eq=False)
class ShyWalk(RandomWalk):
    """The same, by a sampler that does not keep its potential."""

    def sampler(self, target: Target, field: GradientField) -> Shy:
        return Shy(self, target, field)


def test_a_sampler_that_keeps_no_potential_reports_none() -> None:
    trace = ggmc.sample(gaussian(), ShyWalk(), 20, 100, progress=False)
    assert np.isnan(trace.stats["lp"]).all()
    assert np.isfinite(trace.stats["log_accept"]).all()


def test_a_sampler_that_is_no_word_is_refused_what_cannot_be_tested() -> None:
    def random(w: Tensor, batch: Tensor) -> Tensor:
        return -((batch - w) ** 2) + torch.rand(len(batch))

    def in_turn(entries: int, batches: int, generator: torch.Generator) -> Tensor:
        return torch.arange(entries) % batches

    data, start = torch.arange(9, dtype=F64), torch.zeros(1, dtype=F64)
    noisy = ggmc.DataDensity(lambda w: -(w**2).sum(), random, data, start)
    assert noisy.not_exact is not None
    with pytest.raises(NotExact, match="the Metropolis test would not be exact: log_likelihood gives another value"):
        ggmc.sample(noisy, RandomWalk(0.5), 20, 0, progress=False)
    orders = [(ggmc.CustomOrder(in_turn, reversible=False), "has another distribution read backwards"),
              (Vectorised(ascending), "is said to be reversible, but read backwards")]  # fmt: skip
    for order, why in orders:
        with pytest.raises(NotExact, match=why):
            RandomWalk(0.5, guide=ggmc.Minibatch(20, order)).bind(logistic(100))
    assert ggmc.sample(noisy, RandomWalk(0.5, adjust=False), 20, 0, progress=False).num_draws == 20
