"""Several runs as one trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import constraints

import ggmc
from ggmc.errors import BadInput
from ggmc.trace.store import Block, MemoryStore


def target(width: float = 1.0) -> ggmc.Density:
    start = {"a": torch.zeros(2, dtype=torch.float64), "b": torch.ones((), dtype=torch.float64)}
    return ggmc.Density(lambda p: -(p["a"] ** 2).sum() / (2 * width**2) - p["b"], start, {"b": constraints.positive})


def sampled(seed: int, draws: int = 120, **options: Any) -> ggmc.Trace:
    return ggmc.sample(target(), draws=draws, warmup=100, chains=2, seed=seed, progress=False, **options)


@pytest.mark.parametrize("on_disk", [False, True])
def test_chains_stand_side_by_side(on_disk: bool, tmp_path: Path) -> None:
    runs = [sampled(seed, draws, out=tmp_path / str(seed) if on_disk else None) for seed, draws in ((0, 120), (1, 150))]
    merged = ggmc.load([tmp_path / "0", tmp_path / "1"], target()) if on_disk else ggmc.merge(runs)
    assert (merged.num_chains, merged.num_draws) == (4, 120)
    for name in ("a", "b"):
        np.testing.assert_array_equal(merged[name], np.concatenate([run[name][:, :120] for run in runs]))
    rows = np.concatenate([np.asarray(run.positions)[:, :120] for run in runs])
    np.testing.assert_array_equal(np.asarray(merged.positions), rows)
    np.testing.assert_array_equal(merged.positions[1:3, -1, 1], rows[1:3, -1, 1])
    np.testing.assert_array_equal(merged.positions[:, 5:50:7], rows[:, 5:50:7])
    np.testing.assert_array_equal(merged.positions[2], rows[2])
    np.testing.assert_array_equal(merged.stats["lp"], np.concatenate([run.stats["lp"][:, :120] for run in runs]))
    assert merged.stacked_rows(thin=10).shape == (48, 3)
    assert "Trace 1 has 30 draws per chain more than the shortest, which are not used." in merged.warnings
    assert merged.to_arviz().posterior.sizes["chain"] == 4
    assert len(merged.attributes["runs"]) == 2
    assert merged.summary().shape[0] == 3


def test_chains_that_disagree_only_with_those_of_the_other_run_are_noticed() -> None:
    def at(centre: float, seed: int) -> ggmc.Trace:
        there = torch.full((1,), centre, dtype=torch.float64)
        both = ggmc.Density(lambda x: torch.logsumexp(torch.cat([-((x - 9) ** 2), -((x + 9) ** 2)]), 0), there)
        return ggmc.sample(both, draws=300, warmup=300, chains=2, seed=seed, progress=False)

    def worst(trace: ggmc.Trace) -> float:
        found = re.search(r"worst R̂ = ([0-9.]+)", " ".join(trace.warnings))
        return 1.0 if found is None else float(found[1])

    runs = [at(9.0, 0), at(-9.0, 1)]
    assert max(map(worst, runs)) < 1.1
    assert worst(ggmc.merge(runs)) > 1.5


def test_how_draws_were_made_is_not_forgotten() -> None:
    runs = [sampled(0), sampled(1)]
    runs[1].remarks = ["Warm-up moved chain 1."]
    assert ggmc.merge(runs).warnings[0] == "Trace 1: Warm-up moved chain 1."


def test_a_merged_trace_can_be_saved(tmp_path: Path) -> None:
    merged = ggmc.merge([sampled(0), sampled(1)])
    merged.save(tmp_path / "saved")
    again = ggmc.load(tmp_path / "saved")
    np.testing.assert_array_equal(again["b"], merged["b"])
    assert again.warnings == merged.warnings


def test_settings_and_statistics_are_those_that_all_have() -> None:
    """The kernel, target and attributes are the first one's; a statistic that one run lacks is left out."""
    runs = [sampled(0), sampled(1)]
    runs[0].stats = {**runs[0].stats}
    store = MemoryStore([Block(runs[0].positions, {**runs[0].stats, "noise_error": runs[0].stats["lp"]})])
    first = ggmc.Trace(store, runs[0].kernel, runs[0].target, {"seed": 0, "label": "a"})
    runs[1].attributes["label"] = "b"
    merged = ggmc.merge([first, runs[1]])
    assert set(merged.stats) == set(runs[1].stats)
    assert "noise_error" not in merged.stats
    with pytest.raises(KeyError):
        merged.stats["noise_error"]
    assert (merged.kernel, merged.target) == (first.kernel, first.target)
    assert (merged.attributes["seed"], merged.attributes["label"]) == (0, "a")
    assert [one["label"] for one in merged.attributes["runs"]] == ["a", "b"]  # pyright: ignore


def test_thinned_runs_of_which_one_was_made_longer(tmp_path: Path) -> None:
    for seed in range(2):
        out = ggmc.RunFolder(tmp_path / str(seed), thin=3, precision="float32")
        ggmc.sample(target(), ggmc.HMC(0.3, 3), 20, 0, chains=2, seed=seed, out=out, progress=False)
    ggmc.resume(tmp_path / "1", target(), draws=40, progress=False)
    merged = ggmc.load([tmp_path / "0", tmp_path / "1"], target())
    whole = [ggmc.sample(target(), ggmc.HMC(0.3, 3), 20, 0, chains=2, seed=seed, progress=False) for seed in range(2)]
    expected = np.concatenate([run["b"][:, 2::3] for run in whole])
    assert expected.shape == (4, 6)
    np.testing.assert_array_equal(merged["b"], expected.astype(np.float32))
    lp = np.concatenate([run.stats["lp"][:, 2::3] for run in whole])
    np.testing.assert_array_equal(merged.stats["lp"], lp)
    assert any("Trace 1 has 7 draws per chain more" in warning for warning in merged.warnings)
    assert merged.rows().dtype == torch.float64


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    one = sampled(0, out=tmp_path / "one")
    with pytest.raises(BadInput, match="begin with the same draws: give each run a seed of its own"):
        ggmc.merge([one, sampled(0)])
    with pytest.raises(BadInput, match="merge needs traces, at least one, got"):
        ggmc.merge([])
    other = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2, dtype=torch.float64))
    another = ggmc.sample(other, draws=20, warmup=50, progress=False)
    with pytest.raises(BadInput, match=r"rows of one length, got lengths \[2, 3\]"):
        ggmc.merge([one, another])
    ggmc.sample(target(2.0), draws=20, warmup=50, progress=False, out=tmp_path / "wide")
    with pytest.raises(BadInput, match=r"is a run of another target than .*one: its potential at a fixed point was"):
        ggmc.load([tmp_path / "one", tmp_path / "wide"])
    with pytest.raises(BadInput, match="cannot be written to"):
        ggmc.merge([one, sampled(1)]).store.append(None)  # pyright: ignore[reportArgumentType]
