"""Runs in TensorBoard."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.callbacks import Moment
from ggmc.trace.diagnostics import kinetic_temperature, kinetic_temperatures
from tests.support.gaussians import gaussian


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


def test_the_numbers_written_are_those_of_the_moments(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    start = {"a": torch.zeros(2, dtype=torch.float64), "b": torch.zeros(3, dtype=torch.float64)}
    target = ggmc.Density(lambda p: -(p["a"] ** 2).sum() / 2 - (p["b"] ** 2).sum(), start)
    seen: list[Moment] = []

    with ggmc.tensorboard.Logger(tmp_path) as logger:

        def both(moment: Moment) -> None:
            seen.append(moment)
            logger(moment)

        ggmc.sample(target, ggmc.HMC(0.4, 3, mass=[1.0, 2.0, 3.0, 4.0, 5.0]), 10, 5, progress=False, callback=both)
    events = EventAccumulator(str(tmp_path))
    events.Reload()

    def written(name: str) -> list[float]:
        return [event.value for event in events.Scalars(name)]

    expected: dict[str, list[float]] = {
        "acceptance_rate": [m.acceptance for m in seen],
        "energy_error": [m.info.energy_error.mean().item() for m in seen],
        "diverging": [0.0] * 15,
        "step_size": [0.4] * 15,
        "potential": [m.state.potential.mean().item() for m in seen if m.state.potential is not None],
        "kinetic_temperature/all": [kinetic_temperature(m.state.momentum, m.mass).mean().item() for m in seen],
    }
    for i, name in enumerate(("a", "b")):
        expected[f"kinetic_temperature/{name}"] = [
            kinetic_temperatures(m.state.momentum, m.mass, m.layout)[:, i].mean().item() for m in seen
        ]
    assert set(events.Tags()["scalars"]) == set(expected)
    for name, values in expected.items():
        assert written(name) == pytest.approx(values, rel=1e-5, abs=1e-6), name


def test_what_a_logger_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="every must be a whole number of at least 1, got 0"):
        ggmc.tensorboard.Logger(tmp_path, every=0)
    original = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return original(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install ggmc\[tensorboard\]"):
        ggmc.tensorboard.Logger(tmp_path)
