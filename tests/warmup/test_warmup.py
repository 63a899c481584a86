"""Tuning that needs no expert: what it finds on targets whose answer is known, with every kernel and guide."""

from __future__ import annotations

import math
from typing import Any

import arviz
import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.dynamics.mass import Dense
from ggmc.errors import BadInput
from ggmc.guides.base import GradientField
from ggmc.sampling.chains import Chains
from ggmc.targets.base import Advice
from ggmc.warmup import Warmup
from tests.support.gaussians import CORRELATED, normal
from tests.support.logistic import logistic

F64 = torch.float64


@pytest.fixture(scope="module")
def reference() -> ggmc.Trace:
    return ggmc.sample(logistic(400), draws=2000, progress=False)


def worst_error(trace: ggmc.Trace, reference: ggmc.Trace) -> float:
    worst = 0.0
    for i in range(3):
        ours, theirs = trace["theta"][..., i], reference["theta"][..., i]
        error = np.hypot(float(arviz.mcse(ours)), float(arviz.mcse(theirs)))
        worst = max(worst, abs(ours.mean() - theirs.mean()) / error)
    return worst


def test_defaults_on_a_correlated_and_badly_scaled_gaussian() -> None:
    trace = ggmc.sample(normal(CORRELATED), progress=False)
    assert trace.warnings == []
    assert isinstance(trace.kernel.mass, Dense)
    torch.testing.assert_close(torch.linalg.inv(trace.kernel.mass.matrix), CORRELATED, rtol=0.4, atol=0)
    covariance = np.cov(trace["theta"].reshape(-1, 2).T)
    np.testing.assert_allclose(covariance, CORRELATED.numpy(), rtol=0.15)
    assert trace.stats["acceptance_rate"].mean() > 0.7


@pytest.mark.parametrize(
    "kernel",
    [ggmc.GGMC(), ggmc.GGMC(steps=4, friction=0.3), ggmc.HMC(), ggmc.MALA(), ggmc.MALT(), ggmc.GGMC(scheme="O(ABA)O")],
    ids=str,
)
def test_every_kernel_tunes_itself(kernel: Any) -> None:
    trace = ggmc.sample(normal(CORRELATED), kernel, draws=2000, warmup=1000, progress=False)
    assert type(trace.kernel) is type(kernel)
    assert trace.kernel.step_size is not None
    wanted = 0.6 if isinstance(kernel, ggmc.MALA) else 0.8
    assert trace.stats["acceptance_rate"].mean() == pytest.approx(wanted, abs=0.25)
    assert not any("disagree" in message for message in trace.warnings)
    np.testing.assert_allclose(trace["theta"].std((0, 1)), np.sqrt(np.diag(CORRELATED.numpy())), rtol=0.15)


def test_what_was_given_is_kept() -> None:
    mass = torch.tensor([1.0, 1e-4], dtype=F64)
    trace = ggmc.sample(
        normal(CORRELATED), ggmc.GGMC(steps=3, mass=mass, friction=0.4), draws=50, warmup=100, progress=False
    )
    assert (trace.kernel.steps, trace.kernel.friction) == (3, 0.4)
    assert torch.equal(trace.kernel.mass.matrix, mass)
    given = ggmc.HMC(step_size=0.3, steps=4)
    assert ggmc.sample(normal(CORRELATED), given, draws=10, warmup=10, progress=False).kernel == given


def test_temperature_scales_the_spread_and_the_tuned_step_fits() -> None:
    trace = ggmc.sample(normal(CORRELATED), ggmc.GGMC(temperature=0.25, scheme="O(BAB)O"), progress=False)
    assert trace.warnings == []
    np.testing.assert_allclose(trace["theta"].std((0, 1)), 0.5 * np.sqrt(np.diag(CORRELATED.numpy())), rtol=0.15)
    assert trace.stats["kinetic_temperature"].mean() == pytest.approx(0.25, rel=0.1)
    assert 0.3 < trace.kernel.step_size < 2.5


@pytest.mark.parametrize("warmup", [1, 5, 19, 60])
def test_short_warm_ups_work(warmup: int) -> None:
    trace = ggmc.sample(normal(CORRELATED), draws=20, warmup=warmup, progress=False)
    assert trace.num_draws == 20
    assert math.isfinite(trace.kernel.step_size)


def test_a_narrow_valley_in_float32() -> None:
    """A correlation of 1 − 5e-6: what is inverted and factored is float64."""
    covariance = torch.tensor([[1.0, 0.999995], [0.999995, 1.0]], dtype=F64)
    precision = torch.linalg.inv(covariance).float()
    target = ggmc.Density(lambda x: -(x @ precision @ x) / 2, torch.zeros(2), jitter=0.001)
    trace = ggmc.sample(target, draws=50, warmup=500, progress=False)
    assert trace["theta"].dtype == np.float32
    assert math.isfinite(trace.kernel.step_size)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (ggmc.GGMC(temperature=0.0, adjust=False), "temperature 0 has no acceptance to tune a step size by"),
        (ggmc.GGMC(scheme="B(AOA)B"), r"steps cannot be tuned for the word 'B\(AOA\)B'"),
    ],
)
def test_what_cannot_be_tuned_is_refused(kernel: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        ggmc.sample(normal(CORRELATED), kernel, progress=False)


@pytest.mark.parametrize(
    "guide",
    [
        ggmc.Minibatch(100),
        ggmc.Minibatch(200, "epoch"),
        ggmc.Minibatch(200, "iid"),
        ggmc.Minibatch("auto"),
        ggmc.ControlVariate(50),
        ggmc.ControlVariate(50, "epoch", "diagonal"),
        ggmc.ControlVariate(50, "iid", "dense"),
        ggmc.ControlVariate("auto", curvature="dense"),
        ggmc.Surrogate(lambda w: -40 * (w**2).sum()),
    ],
    ids=lambda guide: str(guide).split("log_prob")[0],
)
def test_tuned_by_itself_every_guide_gives_the_same_posterior(guide: Any, reference: ggmc.Trace) -> None:
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=guide), draws=400, warmup=300, progress=False)
    assert worst_error(trace, reference) < 4.5
    assert 0.4 < trace.stats["acceptance_rate"].mean() < 0.99
    assert max(float(arviz.rhat(trace["theta"][..., i])) for i in range(3)) < 1.05


def test_a_guide_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = 0
    bind = ggmc.ControlVariate.bind

    def counted(self: Any, target: Any) -> Any:
        nonlocal bound
        bound += 1
        return bind(self, target)

    monkeypatch.setattr(ggmc.ControlVariate, "bind", counted)
    ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.ControlVariate(50)), draws=5, warmup=60, progress=False)
    assert bound == 1


@pytest.mark.parametrize("guide", [ggmc.Minibatch(100), ggmc.ControlVariate(50), ggmc.Minibatch(100, "iid")], ids=str)
def test_every_trajectory_of_warm_up_has_one_tape_of_its_own(monkeypatch: pytest.MonkeyPatch, guide: Any) -> None:
    target = logistic(400)
    warmup = Warmup(ggmc.GGMC(guide=guide, scheme="O(ABA)O"), target, 60)
    tapes: list[int] = []
    read: list[int] = []
    field = type(warmup.field)
    tape, call = GradientField.tape, field.__call__

    def noted(self: Any, entries: int, chains: int, generator: torch.Generator) -> Tensor | None:
        tapes.append(entries)
        return tape(self, entries, chains, generator)

    def counted(self: Any, position: Tensor, entry: Tensor | None) -> Any:
        read.append(1)
        return call(self, position, entry)

    monkeypatch.setattr(GradientField, "tape", noted)
    generator = torch.Generator().manual_seed(0)
    state = warmup.init(warmup.starts(4, generator), generator)
    state, _ = warmup.step(state, generator)
    monkeypatch.setattr(field, "__call__", counted)
    for _ in range(15):
        tapes.clear()
        read.clear()
        state, info = warmup.step(state, generator)
        assert tapes == [info.steps]
        assert len(read) == info.steps


@pytest.mark.parametrize(
    "guide", [ggmc.Minibatch("auto"), ggmc.ControlVariate("auto", curvature="dense"), ggmc.Minibatch(100)], ids=str
)
@pytest.mark.parametrize("trajectories", [15, 58, 75])
def test_a_stored_run_goes_on_bit_for_bit(guide: Any, trajectories: int) -> None:
    target = logistic(400)
    run = Chains(target, ggmc.GGMC(guide=guide), 3, warmup=70, seed=1)
    for _ in range(trajectories):
        run.advance()
    other = Chains(target, ggmc.GGMC(guide=guide), 3, warmup=70, seed=9, stored=run.state_dict())
    for _ in range(20):
        run.advance()
        other.advance()
    assert torch.equal(run.state.position, other.state.position)
    assert run.kernel == other.kernel


def _refuse() -> Any:
    raise AssertionError("a bar was shown")


def _silent(iterable: Any) -> Any:
    from tqdm import tqdm

    return tqdm(iterable, disable=True)


def test_without_progress_nothing_is_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ggmc.progress.tqdm", lambda iterable, **o: _refuse() if not o["disable"] else _silent(iterable)
    )
    ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.ControlVariate(50)), draws=5, warmup=40, progress=False)
    assert "anchor" not in capfd.readouterr().err


@pytest.mark.parametrize("steps", [None, 3])
def test_an_annealed_warm_up_decides_at_its_own_temperature(steps: int | None) -> None:
    target = ggmc.Density(lambda x: (x**2).sum() / -2, torch.zeros(5, dtype=F64))
    warmup = Warmup(ggmc.GGMC(steps=steps), target, 100, anneal=8.0)
    generator = torch.Generator().manual_seed(0)
    state = warmup.init(torch.ones(4, 5, dtype=F64), generator)
    for _ in range(3):
        temperature = warmup.temperature
        assert temperature > 6
        state, info = warmup.step(state, generator)
        assert torch.allclose(info.log_accept, -info.energy_error / temperature)


class Downhill(GradientField):
    """A field that states only what it must."""

    def __init__(self) -> None:
        super().__init__(order=None)

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return position, None


def test_a_field_without_a_tape_has_modest_defaults() -> None:
    field = Downhill()
    assert (field.deterministic, field.exact, field.epoch, field.default_steps) == (True, False, 1, 1)
    assert field.advice == Advice()
    assert (field.advice.mass, field.advice.starts, field.advice.acceptance) == (None, None, None)
    assert list(field.frozen()) == []
