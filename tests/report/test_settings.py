"""What was run, and how to run it again, by value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc
from ggmc.report.findings import find
from ggmc.report.settings import how_to_repeat, kernel_rows, run_pairs, shown
from tests.support.gaussians import gaussian
from tests.support.posteriors import NORMAL, X, Y
from tests.support.traces import trace_of, white_noise


def pairs(source: ggmc.Trace) -> dict[str, str]:
    return dict(run_pairs(find(source)))


def test_a_thinned_run_in_fewer_digits(tmp_path: Path) -> None:
    out = ggmc.RunFolder(tmp_path / "run", thin=5, precision="float32", attributes={"note": "Of a test."})
    ggmc.sample(gaussian(), ggmc.HMC(0.5, 3), draws=52, warmup=1234, chains=2, seed=7, out=out, progress=False)
    trace = ggmc.load(tmp_path / "run")
    found = pairs(trace)
    assert found["Draws"] == "10 of each chain; one in 5 was kept"
    assert found["Warm-up"] == "1,234 trajectories of each chain"
    assert (found["Chains"], found["Seed"], found["Note"]) == ("2", "7", "Of a test.")
    assert found["Kept"] == f"{tmp_path / 'run'} (float32)"
    assert found["Target"] == "Density: 2 numbers in 1 tensor"
    assert found["Begun"] == trace.attributes["created_at"][:19].replace("T", " ")
    assert len(found["Fingerprint"]) == 16
    ggmc.sample(gaussian(3), ggmc.HMC(0.5, 3), draws=8, warmup=0, out=tmp_path / "other", progress=False)
    assert found["Fingerprint"] != pairs(ggmc.load(tmp_path / "other"))["Fingerprint"]


def test_a_trace_in_memory() -> None:
    trace = trace_of(white_noise())
    trace.attributes = {"seed": 3, "tuning_steps": 20, "sampling_time": 200.0, "created_at": "2026-01-02T03:04:05.678"}
    found = pairs(trace)
    assert (found["Draws"], found["Kept"], found["Seed"]) == ("1,000 of each chain", "in memory", "3")
    assert (found["Time"], found["Begun"]) == ("3.3 min", "2026-01-02 03:04:05")
    assert found["Warm-up"] == "20 trajectories of each chain"
    ((why, code),) = how_to_repeat(find(trace), [])
    assert why.startswith("The run was not sampled into a folder, so only its final settings are known.")
    assert code == "ggmc.sample(target, ggmc.GGMC(step_size=0.1), draws=1000, chains=4, seed=3)"


def test_merged_runs_have_all_seeds_and_the_time_of_all() -> None:
    runs = [trace_of(white_noise(draws=50) + shift) for shift in (0.0, 0.1, 0.2)]
    for seed, run in enumerate(runs):
        run.attributes = {"seed": seed, "sampling_time": 60.0}
    merged = ggmc.merge([ggmc.merge(runs[:2]), runs[2]])
    found = pairs(merged)
    assert (found["Seeds"], found["Time"], found["Kept"]) == ("0, 1, 2", "3 min", "3 runs, merged")
    assert "Seed" not in found
    ((why, code),) = how_to_repeat(find(merged), [])
    assert why.startswith("These are 3 runs, merged. The final settings of the first")
    assert code.endswith("draws=50, chains=12, seed=0)")
    del runs[1].attributes["sampling_time"]
    assert pairs(ggmc.merge(runs))["Time"] == "–"


def test_what_warmup_found_stands_beside_what_was_asked(tmp_path: Path) -> None:
    kernel = ggmc.HMC(steps=(2, 4))
    ggmc.sample(gaussian(), kernel, draws=20, warmup=50, chains=2, out=tmp_path / "run", progress=False)
    trace = ggmc.load(tmp_path / "run")
    name, rows = kernel_rows(find(trace))
    found = {row[0]: row[1:] for row in rows}
    assert name == "HMC"
    assert found["step_size"] == [f"{trace.kernel.step_size:.6g}", "left to warm-up"]
    assert found["steps"] == ["(2, 4)", ""]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "True"),
        (None, "None"),
        (0.123456789, "0.123457"),
        (torch.tensor([[1.0, 2.5], [-3.0, 0.0]]), "tensor of 2 × 2, −3 to 2.5"),
        (torch.tensor(2.0), "tensor of 1, 2 to 2"),
        ({"tensor": [[1.0, 2.0, 3.0]], "dtype": "float64"}, "tensor of 1 × 3"),
        ("x" * 301, "x" * 149 + "…" + "x" * 150),
    ],
)
def test_settings_as_text(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_run_that_keeps_predictions_needs_their_inputs_to_go_on(tmp_path: Path) -> None:
    target = ggmc.Posterior(torch.nn.Linear(2, 1), "gaussian", NORMAL, X, Y, vectorise=True)
    out = ggmc.RunFolder(tmp_path / "run", predict_at=X[:5])
    ggmc.sample(target, ggmc.HMC(0.2, 5), draws=10, warmup=0, chains=2, out=out, progress=False)
    found = find(ggmc.load(tmp_path / "run"))
    code = how_to_repeat(found, [])[-1][1]
    assert code == f"ggmc.resume({str(tmp_path / 'run')!r}, target, draws=..., predict_at=...)"
    assert dict(run_pairs(found))["Kept"] == f"{tmp_path / 'run'} (predictions only)"
    assert dict(run_pairs(found))["Target"] == "Posterior: 3 numbers in 2 tensors, 12 examples"
