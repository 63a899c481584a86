"""Runs that are not whole: a page nevertheless, which says so and trusts nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.trace.store import ALL, Block, Rows, Store
from ggmc.trace.trace import Trace
from ggmc.trace.zarr_arrays import LONGEST_CHUNK
from tests.support.pages import Page
from tests.support.traces import good_stats, trace_of, white_noise


def density() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2, dtype=torch.float64))


class Stop(Exception):
    pass


def stopped_after(trajectories: int) -> Any:
    def callback(moment: Any) -> None:
        if moment.iteration >= trajectories:
            raise Stop

    return callback


@pytest.mark.parametrize(("after", "words"), [(5, "There are no draws"), (210, "of 1,000 were made")])
def test_a_run_that_is_not_finished(tmp_path: Path, after: int, words: str) -> None:
    with pytest.raises(Stop):
        ggmc.sample(density(), warmup=10, out=tmp_path / "run", progress=False, callback=stopped_after(after))
    page = Page(ggmc.report.write(tmp_path / "run", tmp_path / "p.html"))
    assert words in page.text
    assert "Not trustworthy yet" in page.text
    assert "ggmc.resume" in page.text


def test_an_empty_trace_in_memory(tmp_path: Path) -> None:
    page = Page(ggmc.report.write(trace_of(np.zeros((4, 0, 1))), tmp_path / "p.html"))
    assert "There are no draws" in page.text
    assert "Not trustworthy yet" in page.text


@pytest.mark.parametrize("draws", [1, 2, 3, 9])
def test_very_few_draws(tmp_path: Path, draws: int) -> None:
    page = Page(ggmc.report.write(trace_of(white_noise(draws=draws)), tmp_path / "p.html"))
    assert "Not trustworthy yet" in page.text


def test_predictions_only(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=generator)
    y = (x[:, 0] > 0).long()
    target = ggmc.Posterior(torch.nn.Linear(2, 2), "categorical", ggmc.priors.Gaussian(1.0), x, y, vectorise=True)
    out = ggmc.RunFolder(tmp_path / "run", predict_at=x[:5])
    ggmc.sample(target, ggmc.HMC(0.2, 5), draws=60, warmup=0, out=out, progress=False)
    for given in (None, target):
        page = Page(ggmc.report.write(tmp_path / "run", tmp_path / "p.html", given, x_test=x, y_test=y))
        assert "10 of the predictions that the run kept" in page.text
        assert "kept predictions only, and no weights" in page.text
        assert "What could not be read or computed" not in page.text


class PredictionsOnly(Store):
    """White noise under the name of predictions, with good statistics and no positions."""

    keeps_rows = False

    def append(self, block: Block) -> None:
        raise NotImplementedError

    def rows(self) -> Rows:
        raise BadInput("no positions are kept")

    def stats(self) -> dict[str, np.ndarray]:
        return good_stats(4, 1000)

    def values(self, names: Any = None, draws: slice = ALL) -> dict[str, np.ndarray]:
        return {"prediction": white_noise(size=6)[:, draws]}


def test_predictions_alone_can_be_trusted(tmp_path: Path) -> None:
    page = Page(ggmc.report.write(Trace(PredictionsOnly(), ggmc.GGMC(0.1), None), tmp_path / "p.html"))
    assert "Trustworthy" in page.text
    assert "6 of the predictions that the run kept" in page.text


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


@pytest.mark.parametrize("group", ["posterior/x", "sample_stats/lp", "sample_stats/diverging"])
def test_a_damaged_chunk_in_the_middle(tmp_path: Path, group: str) -> None:
    trace_of(white_noise(draws=LONGEST_CHUNK + 10)).save(tmp_path / "run")
    files = sorted(file for file in (tmp_path / "run" / group / "c").rglob("*") if file.is_file())
    assert len(files) == 2
    damaged(files[0])
    page = Page(ggmc.report.write(tmp_path / "run", tmp_path / "p.html"))
    assert "Not trustworthy yet" in page.text
    assert "What could not be read or computed" in page.text


def test_a_damaged_chunk_at_the_end(tmp_path: Path) -> None:
    trace_of(white_noise(draws=LONGEST_CHUNK + 10)).save(tmp_path / "run")
    damaged(tmp_path / "run" / "sample_stats" / "lp" / "c" / "0" / "1")
    page = Page(ggmc.report.write(tmp_path / "run", tmp_path / "p.html"))
    assert "Not trustworthy yet" in page.text
    assert "the last 10 are damaged and are left out" in page.text


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
def test_statistics_without_numbers(tmp_path: Path, value: float) -> None:
    names = ("lp", "log_accept", "acceptance_rate", "energy_error", "kinetic_temperature")
    trace = trace_of(white_noise(), **dict.fromkeys(names, value))
    page = Page(ggmc.report.write(trace, tmp_path / "p.html"))
    assert "Not trustworthy yet" in page.text
    assert "potential was not recorded" in page.text


def test_some_statistics_without_numbers(tmp_path: Path) -> None:
    rates, logs = np.full((4, 1000), 0.8), np.full((4, 1000), -0.2)
    rates[1], logs[2, ::3], logs[3] = np.nan, -np.inf, np.nan
    trace = trace_of(white_noise(), acceptance_rate=rates, log_accept=logs, lp=np.where(rates > 0, -1.0, np.nan))
    page = Page(ggmc.report.write(trace, tmp_path / "p.html"))
    assert "334 of 4,000 had log α = −∞" in page.text
    assert "not known for 1,000 of 4,000 draws" in page.text


def test_a_potential_that_is_known_late_only(tmp_path: Path) -> None:
    lp = np.where(np.arange(1000) < 600, np.nan, -1.0)
    page = Page(ggmc.report.write(trace_of(white_noise(), lp=lp), tmp_path / "p.html"))
    assert "not known for 2,400 of 4,000 draws" in page.text
    assert "could not be" not in page.text


def test_a_target_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(white_noise())

    def fails(*_: Any) -> Any:
        raise RuntimeError("the disk is on fire")

    assert trace.target is not None
    monkeypatch.setattr(trace.target, "potential_and_gradient", fails)
    page = Page(ggmc.report.write(trace, tmp_path / "p.html"))
    assert "Temperatures could not be computed: the disk is on fire" in page.text
    assert "Not trustworthy yet" in page.text


def test_a_chain_that_went_to_infinity(tmp_path: Path) -> None:
    """SGHMC beyond its limit of stability: numbers whose squares are no numbers any more."""
    trace = ggmc.sample(density(), ggmc.SGHMC(2.5, steps=3), draws=150, warmup=0, progress=False)
    assert np.abs(trace["theta"]).max() > 1e150
    page = Page(ggmc.report.write(trace, tmp_path / "p.html"))
    assert "Not exact" in page.text
