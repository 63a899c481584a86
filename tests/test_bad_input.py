"""Bad inputs: each is refused with its cause, and leaves all that was made before it as it was."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput
from ggmc.guides import batches
from ggmc.sampling.callbacks import Moment
from ggmc.targets import data
from ggmc.trace.store import Block, MemoryStore
from tests.support import bad_inputs, bad_inputs_after, earlier_work
from tests.support.bad_inputs import KERNELS, SAMPLE, TARGETS
from tests.support.bad_inputs_after import BAYES, OPTIM, RUNS, TRACES
from tests.support.collecting import Loop
from tests.support.earlier_work import SHORT, Case, World, line, normal, quartic
from tests.support.posteriors import Examples

TABLES = {
    "targets": TARGETS,
    "kernels": KERNELS,
    "sample": SAMPLE,
    "runs": RUNS,
    "traces": TRACES,
    "bayes": BAYES,
    "optim": OPTIM,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("earlier"))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{name}: {case.name}") for name, table in TABLES.items() for case in table]
)
def test_a_bad_input_is_refused_and_nothing_is_lost(world: World, case: Case) -> None:
    before = world.snapshot()
    with pytest.raises(case.error, match=case.message) as caught:
        case.call(world)
    assert type(caught.value) is case.error
    assert world.snapshot() == before


def test_every_public_name_has_a_bad_input() -> None:
    tables = "".join(map(inspect.getsource, (bad_inputs, bad_inputs_after, earlier_work)))
    not_called_by_users = {"Prediction", "STAGES", "Trace"}
    assert [n for n in ggmc.__all__ if n not in not_called_by_users and not re.search(rf"\b{n}\b", tables)] == []


# What goes wrong only while a run goes on


LONG: dict[str, Any] = SHORT | {"draws": 60}
KERNEL = ggmc.HMC(0.3, 1)
MADE = 30  # draws before it goes wrong


class Fails(Exception):
    """A user's own error."""


class Trouble:
    """A log density that is well until it is told otherwise.

    Args:
        what: What it then does with its value.
    """

    def __init__(self, what: Any):
        self._what, self.now = what, False

    def __call__(self, x: Tensor) -> Tensor:
        return self._what(quartic(x)) if self.now else quartic(x)

    def after(self, moment: Moment) -> None:
        self.now = moment.iteration >= SHORT["warmup"] + MADE


def fail(_: object) -> Any:
    raise Fails("the solver did not converge")


def fail_late(moment: Moment) -> None:
    if moment.iteration == SHORT["warmup"] + MADE:
        fail(moment)


@pytest.fixture(scope="module")
def undisturbed() -> np.ndarray:
    target = ggmc.Density(quartic, torch.zeros(2, dtype=torch.float64))
    return ggmc.sample(target, KERNEL, **LONG).positions


def trace_of(error: pytest.ExceptionInfo[Fails]) -> ggmc.Trace:
    assert f"The {MADE} draws per chain made before this are in the exception's `trace`." in error.value.__notes__
    return vars(error.value)["trace"]


@pytest.mark.usefixtures("unrecorded")
@pytest.mark.parametrize("on_disk", [False, True])
def test_an_error_of_the_density_keeps_the_draws(on_disk: bool, undisturbed: np.ndarray, tmp_path: Path) -> None:
    trouble = Trouble(fail)
    target = ggmc.Density(trouble, torch.zeros(2, dtype=torch.float64))
    out = tmp_path / "run" if on_disk else None
    with pytest.raises(Fails, match="did not converge") as error:
        ggmc.sample(target, KERNEL, **LONG, out=out, callback=trouble.after)
    np.testing.assert_array_equal(trace_of(error).positions[:], undisturbed[:, :MADE])
    if out is not None:
        np.testing.assert_array_equal(ggmc.load(out).positions[:], undisturbed[:, :MADE])
        trouble.now = False
        resumed = ggmc.resume(out, target, progress=False)
        np.testing.assert_array_equal(resumed.positions[:], undisturbed)


@pytest.mark.usefixtures("unrecorded")
def test_a_density_that_turns_nan_is_rejected_from_there_on(undisturbed: np.ndarray) -> None:
    trouble = Trouble(lambda value: value * torch.nan)
    target = ggmc.Density(trouble, torch.zeros(2, dtype=torch.float64))
    trace = ggmc.sample(target, KERNEL, **LONG, callback=trouble.after)
    np.testing.assert_array_equal(trace.positions[:, :MADE], undisturbed[:, :MADE])
    assert (trace.positions[:, MADE:] == trace.positions[:, MADE - 1 : MADE]).all()
    assert trace.stats["diverging"][:, MADE:].all()
    assert "60 of 120 trajectories diverged" in trace.warnings[0]


@pytest.mark.parametrize("on_disk", [False, True])
def test_an_error_of_the_callback_keeps_the_draws(on_disk: bool, undisturbed: np.ndarray, tmp_path: Path) -> None:
    target = ggmc.Density(quartic, torch.zeros(2, dtype=torch.float64))
    out = tmp_path / "run" if on_disk else None
    with pytest.raises(Fails) as error:
        ggmc.sample(target, KERNEL, **LONG, out=out, callback=fail_late)
    np.testing.assert_array_equal(trace_of(error).positions[:], undisturbed[:, :MADE])
    if out is not None:
        resumed = ggmc.resume(out, target, progress=False)
        np.testing.assert_array_equal(resumed.positions[:], undisturbed)


class FullDisk(MemoryStore):  # pyright: ignore[reportGeneralTypeIssues]
    """Has room for one block."""

    def append(self, block: Block) -> None:
        if self.num_draws:
            raise Fails("no space left on device")
        super().append(block)


def test_an_error_of_the_store_keeps_what_it_had(undisturbed: np.ndarray) -> None:
    target = ggmc.Density(quartic, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(Fails, match="no space left") as error:
        ggmc.sample(target, KERNEL, **LONG, store=FullDisk())
    np.testing.assert_array_equal(vars(error.value)["trace"].positions, undisturbed[:, :50])
    assert any("did not keep the last 10 of 60 draws" in note for note in error.value.__notes__)


class Disk:
    """Examples that can be read until the disk fails.

    Args:
        world: Gives the examples.
    """

    def __init__(self, world: World):
        self._world, self.failed = world, False

    def __call__(self, i: int) -> tuple[Tensor, Tensor]:
        if self.failed and i >= 6:
            fail(i)
        return self._world.x[i], self._world.y[i]

    def after(self, moment: Moment) -> None:
        self.failed = moment.iteration >= SHORT["warmup"] + MADE


@pytest.mark.parametrize("guide", [ggmc.Exact(), ggmc.Minibatch(4)])
def test_data_that_cannot_be_read_keep_the_draws(
    guide: Any, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (data, batches):  # so that examples are read whenever they are needed
        monkeypatch.setattr(module, "IN_MEMORY", 0)
    disk, kernel = Disk(world), ggmc.GGMC(0.1, guide=guide)
    target = ggmc.DataDensity(normal, line, Examples(disk), torch.zeros(2, dtype=torch.float64))
    whole = ggmc.sample(target, kernel, **LONG).positions
    with pytest.raises(Fails) as error:
        ggmc.sample(target, kernel, **LONG, out=tmp_path / "run", callback=disk.after)
    np.testing.assert_array_equal(trace_of(error).positions[:], whole[:, :MADE])
    disk.failed = False
    resumed = ggmc.resume(tmp_path / "run", target, progress=False)
    np.testing.assert_array_equal(resumed.positions[:], whole)


def test_data_that_cannot_be_read_at_all_say_so(world: World) -> None:
    disk = Disk(world)
    disk.failed = True
    with pytest.raises(Fails):
        world.data_density(data=Examples(disk))


def test_an_error_of_the_total_loss_keeps_draws_and_trajectory() -> None:
    loop = Loop()
    loop.advance(2)
    loop.optimiser.begin_trajectory()
    for _ in range(2):
        loop.gradient(slice(0, 20))
        loop.optimiser.step()
    with pytest.raises(Fails):
        loop.optimiser.end_trajectory(lambda: fail(None), reject=True)
    assert loop.draws.done == 2
    loop.draws.add(loop.optimiser.end_trajectory(loop.total_loss, reject=True))
    assert loop.draws.trace().num_draws == 3


def test_a_collector_that_cannot_go_on_lets_go_of_its_folder(tmp_path: Path) -> None:
    with_draws = Loop(out=tmp_path / "loop")
    kept = with_draws.run(3).rows()
    with_draws.draws.close()
    with pytest.raises(BadInput, match="begun with also=") as error:
        Loop(out=tmp_path / "loop", also={})
    assert error.value  # alive, and with it all that its traceback holds
    assert torch.equal(Loop(out=tmp_path / "loop", seed=1).draws.trace().rows(), kept)


def test_weights_that_are_nan_are_no_draw() -> None:
    loop = Loop()
    loop.advance(2)
    kept = loop.draws.trace().rows()
    with torch.no_grad():
        loop.net.weight[0, 1] = torch.nan
    with pytest.raises(BadInput, match=r"weight\[0, 1\] is not finite, so this is no draw: .* a smaller lr"):
        loop.draws.add()
    assert loop.draws.done == 2
    assert torch.equal(loop.draws.trace().rows(), kept)


@pytest.mark.usefixtures("unrecorded")
def test_a_sweep_that_fails_keeps_the_temperatures_done() -> None:
    trouble = Trouble(fail)
    target = ggmc.Density(trouble, torch.zeros(2, dtype=torch.float64))
    seen: list[int] = []

    def later(moment: Moment) -> None:
        seen.append(moment.iteration)
        trouble.now = len(seen) > 20  # in the second run of 12 trajectories

    with pytest.raises(Fails) as error:
        ggmc.tempering(target, [1.0, 0.5], KERNEL, **SHORT, callback=later)
    assert [(t, trace.num_draws) for t, trace in vars(error.value)["traces"].items()] == [(1.0, 8)]
    assert vars(error.value)["trace"].num_draws == 5


def test_temperatures_may_be_a_tensor() -> None:
    target = ggmc.Density(quartic, torch.zeros(2, dtype=torch.float64))
    given: Any = torch.tensor([1.0, 0.5])
    assert list(ggmc.tempering(target, given, KERNEL, **SHORT).table.index) == [1.0, 0.5]


def test_fewer_draws_than_there_are_take_none_away(world: World, undisturbed: np.ndarray, tmp_path: Path) -> None:
    ggmc.sample(world.density, KERNEL, **LONG, out=tmp_path / "run")
    again = ggmc.resume(tmp_path / "run", world.density, draws=10, progress=False)
    np.testing.assert_array_equal(again.positions[:], undisturbed)


def test_a_start_that_has_a_gradient_is_a_start(world: World) -> None:
    start = torch.zeros(2, 2, dtype=torch.float64)
    with_gradient = world.sample(start=start.clone().requires_grad_())
    np.testing.assert_array_equal(with_gradient.positions, world.sample(start=start).positions)
