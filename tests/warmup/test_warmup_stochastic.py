"""Warm-up with minibatches and control variates: what it tunes, what it says, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import arviz
import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.guides import Field
from ggmc.guides.minibatch import MinibatchField
from ggmc.sampling.sample import Chains
from ggmc.warmup.mass import per_tensor
from ggmc.warmup.warmup import Warmup
from tests.targets.test_data_density import logistic

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


def test_the_batch_size_is_chosen_and_the_choice_explained() -> None:
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.Minibatch("auto")), draws=10, warmup=200, progress=False)
    size = trace.kernel.guide.size
    assert isinstance(size, int)
    why = trace.attributes["batch_size"]
    assert why.startswith(f"{size} examples")
    assert "farthest per pass over the data times acceptance" in why
    assert why.count("batches ") >= 3
    assert "batch_size" in trace.to_datatree()["posterior"].attrs


def test_minibatches_travel_whole_sweeps() -> None:
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.Minibatch(100)), draws=10, warmup=150, progress=False)
    assert trace.kernel.steps.split()[1] in ("sweep", "sweeps")
    assert (trace.stats["n_steps"] % 8 == 0).all()


def test_curvature_is_the_mass_where_none_is_given() -> None:
    guide = ggmc.ControlVariate(50, curvature="dense")
    field: Any = guide.bind(logistic(400))
    trace = ggmc.sample(logistic(400), ggmc.GGMC(guide=guide), draws=10, warmup=100, progress=False)
    torch.testing.assert_close(trace.kernel.mass.matrix, field.curvature)
    given = ggmc.GGMC(guide=guide, mass="diagonal")
    assert ggmc.sample(logistic(400), given, draws=10, warmup=100, progress=False).kernel.mass.matrix.dim() == 1


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
    tapes: list[int] = []
    read: list[int] = []
    tape, call = MinibatchField.tape, MinibatchField.__call__

    def noted(self: Any, gradients: int, chains: int, generator: torch.Generator) -> Tensor:
        tapes.append(gradients)
        return tape(self, gradients, chains, generator)

    def counted(self: Any, position: Tensor, entry: Tensor) -> Any:
        read.append(1)
        return call(self, position, entry)

    monkeypatch.setattr(MinibatchField, "tape", noted)
    target = logistic(400)
    warmup = Warmup(ggmc.GGMC(guide=guide, scheme="O(ABA)O"), target, 60)
    generator = torch.Generator().manual_seed(0)
    state = ggmc.GGMC(0.1, guide=guide).on(target, warmup.field)[0](warmup.starts(4, generator), generator)
    state, _ = warmup.step(state, generator)
    monkeypatch.setattr(MinibatchField, "__call__", counted)
    for _ in range(15):
        tapes.clear()
        read.clear()
        state, info = warmup.step(state, generator)
        assert tapes == [info.steps]
        assert len(read) == info.steps


def test_a_mass_per_tensor_is_the_size_of_its_gradients() -> None:
    start = {"a": torch.zeros(2, dtype=F64), "b": torch.zeros(3, dtype=F64)}
    target = ggmc.Density(lambda p: -(p["a"] ** 2).sum() / 2 - 50 * (p["b"] ** 2).sum(), start)
    mass: Any = per_tensor(target, torch.ones(4, 5, dtype=F64))
    torch.testing.assert_close(mass.matrix, torch.tensor([1, 1, 100, 100, 100], dtype=F64))
    trace = ggmc.sample(target, ggmc.HMC(mass="tensor"), draws=10, warmup=100, progress=False)
    assert trace.kernel.mass.matrix[0] == 1
    assert trace.kernel.mass.matrix[2] == trace.kernel.mass.matrix[4] > 5


@pytest.mark.parametrize(
    "guide", [ggmc.Minibatch("auto"), ggmc.ControlVariate("auto", curvature="dense"), ggmc.Minibatch(100)], ids=str
)
@pytest.mark.parametrize("trajectories", [15, 58, 75])
def test_a_stored_run_goes_on_bit_for_bit(guide: Any, trajectories: int) -> None:
    target = logistic(400)
    run = Chains(target, ggmc.GGMC(guide=guide), 3, warmup=70, seed=1)
    for _ in range(trajectories):
        run.advance()
    other = Chains(target, ggmc.GGMC(guide=guide), 3, warmup=70, seed=9)
    other.load_state_dict(run.state_dict())
    for _ in range(20):
        run.advance()
        other.advance()
    assert torch.equal(run.state.position, other.state.position)
    assert run.kernel == other.kernel


def test_without_progress_nothing_is_printed(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ggmc.progress.tqdm", lambda iterable, **o: _refuse() if not o["disable"] else _silent(iterable)
    )
    ggmc.sample(logistic(400), ggmc.GGMC(guide=ggmc.ControlVariate(50)), draws=5, warmup=40, progress=False)
    assert "anchor" not in capfd.readouterr().err


def _refuse() -> Any:
    raise AssertionError("a bar was shown")


def _silent(iterable: Any) -> Any:
    from tqdm import tqdm

    return tqdm(iterable, disable=True)


def test_a_field_without_a_tape_has_modest_defaults() -> None:
    field = Field()
    assert (field.deterministic, field.exact, field.epoch, field.default_steps) == (True, False, 1, 1)
    assert field.mass(1.0) is None
    assert field.starts(3, 1.0, torch.Generator()) is None
    assert list(field.frozen()) == []
