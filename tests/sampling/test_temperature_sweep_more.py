from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

import ggmc
from tests.support.posteriors import QUICK

F64 = torch.float64


def test_a_tempering_table_keeps_the_order_asked_for() -> None:
    target = ggmc.Density(lambda x: (x**2).sum() / -2 - 7, torch.zeros(2, dtype=F64))
    kernel = replace(ggmc.HMC(0.1, steps=1), temperature=3.0)
    table, traces = ggmc.tempering(target, [0.5, 2.0, 1.0], kernel, draws=8, warmup=0, chains=2, progress=False)
    assert list(table.index) == [0.5, 2.0, 1.0]
    for temperature, trace in traces.items():
        assert table.loc[temperature, "potential"] == -trace.stats["lp"].mean() > 7
        assert table.loc[temperature, "step_size"] == 0.1


def test_ctrl_c_stops_a_tempering_sweep() -> None:
    seen: list[int] = []

    def watch(moment: Any) -> None:
        seen.append(1)
        if len(seen) == 12:
            raise KeyboardInterrupt

    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    _, traces = ggmc.tempering(target, [1.0, 0.5], callback=watch, **QUICK)
    assert len(traces) == 1
