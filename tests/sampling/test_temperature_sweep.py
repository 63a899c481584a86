"""Sweeps over temperatures, and warm-ups that cool down."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.callbacks import Moment
from ggmc.trace.store import MemoryStore
from ggmc.warmup import Warmup
from tests.support.gaussians import gaussian
from tests.support.posteriors import QUICK

F64 = torch.float64


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
    table, traces = ggmc.tempering(target, [1.0, 0.1], x=x, y=y, draws=20, warmup=30, chains=2, progress=False)
    assert {"lppd", "accuracy", "ece"} <= set(table.columns)
    for temperature, trace in traces.items():
        assert table.loc[temperature, list(trace.score(x, y))].to_dict() == trace.score(x, y)


@pytest.mark.parametrize(
    ("temperatures", "options", "message"),
    [
        ([], {}, "at least one"),
        ([1.0, 1.0], {}, "different numbers"),
        ([0.0], {}, "temperature must be a positive number"),
        ([1.0], {"x": torch.zeros(3)}, "both x and y"),
        ([1.0], {"store": MemoryStore()}, "one store cannot keep several runs"),
    ],
)
def test_refusals(temperatures: list[float], options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ggmc.tempering(gaussian(), temperatures, **options)


def test_a_tempering_table_keeps_the_order_asked_for() -> None:
    target = ggmc.Density(lambda x: (x**2).sum() / -2 - 7, torch.zeros(2, dtype=F64))
    kernel = replace(ggmc.HMC(0.1, steps=1), temperature=3.0)
    table, traces = ggmc.tempering(target, [0.5, 2.0, 1.0], kernel, draws=8, warmup=0, chains=2, progress=False)
    assert list(table.index) == [0.5, 2.0, 1.0]
    for temperature, trace in traces.items():
        assert table.loc[temperature, "potential"] == -trace.stats["lp"].mean() > 7
        assert table.loc[temperature, "step_size"] == 0.1


def test_what_is_reported_now_and_then_is_tabulated_too() -> None:
    kernel = ggmc.GGMC(0.5, adjust=False, monitor_every=4)
    table, traces = ggmc.tempering(gaussian(), [1.0], kernel, draws=12, warmup=0, chains=2, progress=False)
    stats = traces[1.0].stats
    assert table.loc[1.0, "acceptance"] == stats["acceptance_rate"][:, 3::4].mean()
    assert table.loc[1.0, "potential"] == -stats["lp"][:, 3::4].mean()


def test_ctrl_c_stops_a_tempering_sweep() -> None:
    seen: list[int] = []

    def interrupt(moment: Any) -> None:
        seen.append(1)
        if len(seen) == 12:
            raise KeyboardInterrupt

    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    _, traces = ggmc.tempering(target, [1.0, 0.5], callback=interrupt, **QUICK)
    assert len(traces) == 1


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


def test_ctrl_c_before_the_first_draw_of_a_later_run_keeps_the_earlier_ones(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def interrupt(moment: Moment) -> None:
        seen.append(1)
        if len(seen) == 16 + 3:  # in the second run's warm-up
            raise KeyboardInterrupt

    table, traces = ggmc.tempering(gaussian(), [0.5, 1.0], callback=interrupt, **QUICK)
    assert list(traces) == list(table.index) == [1.0]
    assert traces[1.0].num_draws == 8
    assert "the temperatures done so far, 1.0" in caplog.text
    seen[:] = [1] * 16
    with pytest.raises(KeyboardInterrupt):
        ggmc.tempering(gaussian(), [0.5, 1.0], callback=interrupt, **QUICK)


def test_an_error_carries_the_traces_of_the_temperatures_done() -> None:
    seen: list[int] = []

    def fail(moment: Moment) -> None:
        seen.append(1)
        if len(seen) == 16 + 12:
            raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck") as caught:
        ggmc.tempering(gaussian(), [0.5, 1.0], callback=fail, **QUICK)
    traces = caught.value.traces  # pyright: ignore[reportAttributeAccessIssue]
    assert list(traces) == [1.0]
    assert caught.value.trace.num_draws == 4  # pyright: ignore[reportAttributeAccessIssue]
    assert any("temperatures [1.0]" in note for note in caught.value.__notes__)


def test_runs_of_a_sweep_do_not_repeat_each_other() -> None:
    """At (nearly) the same temperature and with one seed, each run has random numbers of its own."""
    kernel = ggmc.HMC(0.5, steps=3)
    _, traces = ggmc.tempering(gaussian(), [1.0, 0.999999], kernel, draws=20, warmup=0, chains=2, progress=False)
    noise = [trace.stats["kinetic_temperature"] for trace in traces.values()]
    assert abs(noise[0] - noise[1]).min() > 1e-4
