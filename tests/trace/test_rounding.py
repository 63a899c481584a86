"""The rounding error of the potential, against what it is in truth: float32 beside float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.trace.diagnostics import check
from ggmc.trace.rounding import rounding_error
from ggmc.trace.trace import Trace
from tests.support.traces import (
    F32,
    Gaussian,
    PredictiveRegression,
    Regression,
    regression_data,
    trace_of,
    white_noise,
)

EPS = float(np.finfo(np.float32).eps)


def lp_of(rows: np.ndarray, target: Any) -> np.ndarray:
    return -target.potential(torch.from_numpy(rows).flatten(0, 1)).view(rows.shape[:2]).numpy()


def regression_trace(kind: Callable[..., Regression], examples: int, mean: np.ndarray, sd: float) -> Trace:
    target = kind(*regression_data(examples, F32, len(mean) - 1))
    rows = (mean + sd * white_noise(2, 30, len(mean))).astype(np.float32)
    return trace_of(rows, target, lp=lp_of(rows, target))


def true_error(trace: Trace, kind: Callable[..., Regression]) -> float:
    """The standard deviation, over rows, of U as computed about U in float64."""
    assert isinstance(trace.target, Regression)
    exact = kind(*(part.double() for part in trace.target.data.slice(0, trace.target.num_data)))
    rows = trace.stacked_rows()
    return float((trace.target.potential(rows) - exact.potential(rows.double())).std())


@pytest.mark.parametrize("kind", [Regression, PredictiveRegression])
def test_a_sum_in_float64_is_not_said_to_be_rounded_in_float32(kind: Callable[..., Regression]) -> None:
    """|lp| · eps was said to be the error, and a warning came with every run."""
    trace = regression_trace(kind, 200_000, np.array([1.0, 1.0, 0.0]), 200_000**-0.5)  # about the posterior
    error, truth = rounding_error(trace), true_error(trace, kind)
    assert np.abs(trace.stats["lp"]).max() * EPS > 0.01
    assert truth < 1e-3
    assert truth / 5 < error < 5 * truth
    assert not any("float32" in message for message in check(trace, 0.8))


def test_the_prior_of_many_parameters() -> None:
    """As one number of float32 it is rounded once, as a whole; summed in float64, term by term."""
    mean = np.append(np.full(3000, 20.0), 12.0)  # so much noise that the data hardly matter
    as_one, by_terms = (regression_trace(kind, 10, mean, 0.1) for kind in (Regression, PredictiveRegression))
    found, truth = rounding_error(as_one), true_error(as_one, Regression)
    assert truth / 5 < found < 5 * truth
    assert found > 0.9 * EPS / 2 * (mean**2).sum() / 2
    assert any("The potential is computed in float32" in message for message in check(as_one))
    found, truth = rounding_error(by_terms), true_error(by_terms, PredictiveRegression)
    assert truth / 5 < found < 5 * truth
    assert not any("float32" in message for message in check(by_terms))


def test_one_number_of_float32_is_rounded_as_a_whole() -> None:
    rows = white_noise(4, 1000, 2).astype(np.float32)
    target = Gaussian(dtype=F32, constant=1e6)
    trace = trace_of(rows, target, lp=lp_of(rows, target))
    exact = Gaussian(constant=1e6).potential(trace.stacked_rows().double())
    worst = (target.potential(trace.stacked_rows()) - exact).abs().max().item()
    assert worst / 3 < rounding_error(trace) < 3 * worst


class Cancelling(Gaussian):
    """A small U that is the difference of two large numbers."""

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        square = (position**2).sum(-1)
        return (1e6 * square - 999_999.5 * square).double()


def test_an_error_that_the_size_of_u_does_not_show() -> None:
    rows = white_noise(4, 1000, 2).astype(np.float32)
    trace = trace_of(rows, Cancelling(dtype=F32), lp=lp_of(rows, Cancelling(dtype=F32)))
    exact = Gaussian().potential(trace.stacked_rows().double())
    truth = float((Cancelling(dtype=F32).potential(trace.stacked_rows()) - exact).std())
    assert np.abs(trace.stats["lp"]).max() * EPS < 1e-5
    assert truth / 5 < rounding_error(trace) < 5 * truth
    assert "The potential is computed in float32" in check(trace)[0]


def test_where_there_is_no_rounding_to_speak_of() -> None:
    assert rounding_error(trace_of(white_noise(), lp=-1e12)) == 0.0  # float64
    rows = white_noise(4, 1000, 2).astype(np.float32)
    assert rounding_error(trace_of(rows, Gaussian(dtype=F32))) < 1e-6
    large = Gaussian(dtype=F32, constant=1e6)
    assert rounding_error(trace_of(rows, large)) > 0.01
    assert rounding_error(trace_of(rows, large, lp=np.nan)) == 0.0  # U was never computed
    random = Gaussian(dtype=F32, constant=1e6)
    random.not_exact = "dropout"
    assert rounding_error(trace_of(rows, random)) == 0.0
    overflowing = Gaussian(dtype=F32, constant=np.inf)
    assert rounding_error(trace_of(rows, overflowing)) == 0.0


def test_half_precision_is_judged_by_size() -> None:
    rows = white_noise(2, 20, 2).astype(np.float16)
    found = rounding_error(trace_of(rows, Gaussian(dtype=torch.float16, constant=2000.0)))
    assert found == pytest.approx(2000 * 2.0**-11, rel=0.01)


def test_points_are_rows_of_all_chains_exact_and_equally_spaced() -> None:
    seen: list[Tensor] = []

    class Noted(Gaussian):
        def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
            seen.append(position.double())
            return super().potential(position)

    rows = white_noise(4, 20, 3).astype(np.float32)
    rows[0, -1, 0] = 0.0
    rounding_error(trace_of(rows, Noted({"theta": (3,)}, dtype=F32)))
    start, *points = seen
    assert torch.equal(start, torch.from_numpy(rows[:, -1]).double())
    steps = torch.diff(torch.stack(points), dim=0)
    assert steps.shape == (11, 4, 3)
    assert torch.equal(steps, steps[:1].expand_as(steps))  # to the last bit
    assert (steps != 0).all()
    assert ((torch.stack(points) - start).abs() <= 2e-4 * start.abs().clamp_min(1.0) * 2).all()


def test_a_run_that_keeps_predictions_only_can_be_diagnosed(tmp_path: Path) -> None:
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    target = ggmc.Posterior(torch.nn.Linear(2, 2), "categorical", ggmc.priors.Gaussian(1.0), x, (x[:, 0] > 0).long())
    out = ggmc.RunFolder(tmp_path / "run", predict_at=x[:2])
    trace = ggmc.sample(target, ggmc.HMC(0.1, 2), draws=5, warmup=0, chains=2, out=out, progress=False)
    assert rounding_error(trace) == 0.0
    assert trace.warnings == ["5 draws per chain are too few to judge convergence: draw at least 100."]
