from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.callbacks import Moment
from ggmc.warmup import Warmup

F64 = torch.float64


def gaussian(size: int = 3) -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(size, dtype=F64))


@pytest.mark.parametrize("kernel", [None, ggmc.HMC(0.5, steps=4), ggmc.SGHMC(0.1, steps=10)])
def test_variances_follow_the_temperature(kernel: Any) -> None:
    table, traces = ggmc.tempering(gaussian(20), [1.0, 0.25], kernel, draws=400, warmup=200, progress=False)
    for temperature, trace in traces.items():
        assert trace.kernel.temperature == temperature
        ess = 400  # at least, of 32,000 numbers
        assert abs(trace["theta"].var() / temperature - 1) < 6 * (2 / ess) ** 0.5
    assert list(table.index) == [1.0, 0.25]
    assert {"acceptance", "step_size", "potential"} <= set(table.columns)


def test_each_run_begins_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("ggmc.sampling.temperature_sweep")
    begun: list[Any] = []
    original = module.sample

    def spy(*arguments: Any, **options: Any) -> ggmc.Trace:
        begun.append(options["start"])
        return original(*arguments, **options)

    monkeypatch.setattr(module, "sample", spy)
    _, traces = module.tempering(gaussian(), [0.5, 2.0], draws=20, warmup=20, chains=2, progress=False)
    assert begun[0] is None
    assert torch.equal(begun[1], traces[2.0].rows()[:, -1])


def test_test_data_are_scored() -> None:
    x, y = torch.randn(40, 2), torch.randint(2, (40,))
    target = ggmc.Posterior(torch.nn.Linear(2, 2), "categorical", ggmc.priors.Gaussian(1.0), x, y)
    table, _ = ggmc.tempering(target, [1.0, 0.1], x=x, y=y, draws=20, warmup=30, chains=2, progress=False)
    assert {"lppd", "accuracy", "ece"} <= set(table.columns)


@pytest.mark.parametrize(
    ("temperatures", "options", "message"),
    [
        ([], {}, "at least one"),
        ([1.0, 1.0], {}, "different numbers"),
        ([0.0], {}, "temperature must be a positive number"),
        ([1.0], {"x": torch.zeros(3)}, "both x and y"),
    ],
)
def test_refusals(temperatures: list[float], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ggmc.tempering(gaussian(), temperatures, **options)


# Annealing, given starts, watching


def test_annealing_goes_from_its_temperature_to_the_kernels_own() -> None:
    warmup = Warmup(ggmc.GGMC(temperature=0.5), gaussian(), 100, anneal=8.0)
    seen: list[float] = []
    for warmup.learnt.iteration in (0, 25, 49, 50, 99):
        seen.append(warmup.temperature)
    assert seen[:2] == pytest.approx([8.0, 2.0])
    assert 0.5 < seen[2] < 0.6
    assert seen[3:] == [0.5, 0.5]


@pytest.mark.parametrize("kernel", [ggmc.GGMC(), ggmc.HMC(0.3, steps=5), ggmc.SGHMC(0.1, steps=10)])
def test_an_annealed_warm_up_is_hot_and_leaves_the_target_as_it_is(kernel: Any) -> None:
    energies: list[float] = []

    def keep(moment: Moment) -> None:
        assert moment.state.potential is not None
        energies.append(moment.state.potential.mean().item())

    trace = ggmc.sample(gaussian(100), kernel, draws=200, warmup=200, progress=False, anneal=50.0, callback=keep)
    assert max(energies[:100]) > 500  # d/2 · 50 at most, where 50 is right at temperature 1
    assert trace.kernel.temperature == 1.0
    assert abs(trace["theta"].var() - 1) < 0.2


def test_a_given_start_is_where_chains_begin() -> None:
    start = torch.full((2, 3), 7.0, dtype=F64)
    trace = ggmc.sample(gaussian(), ggmc.HMC(1e-6, steps=1), draws=8, warmup=0, chains=2, progress=False, start=start)
    assert abs(trace["theta"] - 7).max() < 1e-3
    for wrong in (torch.zeros(3, 3), torch.zeros(3), [1.0]):
        with pytest.raises(BadInput, match="one for each chain"):
            ggmc.sample(gaussian(), chains=2, start=wrong)  # pyright: ignore[reportArgumentType]


def test_watchers_see_every_trajectory() -> None:
    seen: list[Moment] = []
    trace = ggmc.sample(gaussian(), draws=30, warmup=40, progress=False, callback=seen.append)
    assert [moment.iteration for moment in seen] == list(range(1, 71))
    assert [moment.warming for moment in seen] == [True] * 39 + [False] * 31
    assert seen[-1].step_size == trace.kernel.step_size
    assert torch.equal(seen[-1].state.position[:, 0], torch.from_numpy(trace["theta"][:, -1, 0]))


def test_tensorboard_gets_the_numbers(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    from ggmc.sampling.tensorboard import Logger

    with Logger(tmp_path, every=10) as logger:
        ggmc.sample(gaussian(), draws=30, warmup=40, progress=False, callback=logger)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert {"acceptance_rate", "potential", "kinetic_temperature/all", "kinetic_temperature/theta"} <= set(
        events.Tags()["scalars"]
    )
    assert [event.step for event in events.Scalars("potential")] == [10, 20, 30, 40, 50, 60, 70]
