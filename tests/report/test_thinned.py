from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggmc.errors import BadInput
from ggmc.kernels import GGMC
from ggmc.report.findings import find
from ggmc.report.thinned import ThinnedRows, ThinnedStore, thinned
from ggmc.trace.record import NUMBERS_AT_ONCE
from ggmc.trace.store import ALL, Block, Rows, Store
from ggmc.trace.trace import Trace
from tests.support.traces import good_stats, trace_of, white_noise


class Counting:
    """Rows [1, draws, 1] that note how many draws lie between the first and the last of each call, as a store reads."""

    def __init__(self, draws: int):
        self.shape, self.dtype, self.spans = (1, draws, 1), np.dtype(float), [0]

    def __getitem__(self, key: Any) -> Any:
        _, draws = key
        if isinstance(draws, slice):
            self.spans.append(draws.stop - draws.start)
            return np.arange(draws.start, draws.stop, draws.step, dtype=float)[None, :, None]
        return np.array([[float(draws)]])


@pytest.mark.parametrize("every", [2, 7, 100_000])
def test_memory_is_bounded_however_long_the_run(every: int) -> None:
    rows = Counting(3 * NUMBERS_AT_ONCE + 5)
    few = ThinnedRows(rows, every)
    np.testing.assert_array_equal(few[0, :, 0], np.arange(0, rows.shape[1], every))
    assert max(rows.spans) <= NUMBERS_AT_ONCE


def test_indices() -> None:
    rows = white_noise(chains=3, draws=50, size=2)
    few = ThinnedRows(rows, 7)
    for key in (np.s_[:], np.s_[1], np.s_[:, 2], np.s_[:, -1], np.s_[:, 1:6:2], np.s_[0, :, 1], np.s_[:, 3:3]):
        np.testing.assert_array_equal(few[key], rows[:, ::7][key])


def test_values_are_those_of_the_thinned_draws() -> None:
    trace = trace_of(white_noise(draws=95))
    few, every = thinned(trace, 20)
    assert every == 5
    np.testing.assert_array_equal(few["x"], trace["x"][:, ::5])
    np.testing.assert_array_equal(few.stats["lp"], trace.stats["lp"][:, ::5])
    assert thinned(trace, 95) == (trace, 1)


class Predictions(Store):
    """A store that keeps predictions and no positions, as folders with `predict_at` do."""

    keeps_rows = False

    def append(self, block: Block) -> None:
        raise NotImplementedError

    def rows(self) -> Rows:
        raise NotImplementedError

    def stats(self) -> dict[str, np.ndarray]:
        return good_stats(2, 97)

    def values(self, names: Any = None, draws: slice = ALL) -> dict[str, np.ndarray]:
        return {"prediction": white_noise(2, 97, 3)[:, draws]}


def test_predictions_without_positions_are_thinned_too() -> None:
    trace = Trace(Predictions(), GGMC(0.1), None)
    few, every = thinned(trace, 20)
    assert (every, few.num_draws, few.store.keeps_rows) == (5, 20, False)
    np.testing.assert_array_equal(few["prediction"], white_noise(2, 97, 3)[:, ::5])
    for draws in (slice(None), slice(2, 7), slice(4, None, 2)):
        some = few.store.values(None, draws)
        assert some is not None
        np.testing.assert_array_equal(some["prediction"], white_noise(2, 97, 3)[:, ::5][:, draws])
    found = find(trace)
    assert found.measured is not None
    assert found.measured.names == ["prediction[0]", "prediction[1]", "prediction[2]"]


def test_what_goes_with_the_draws_stays() -> None:
    trace = trace_of(white_noise(draws=95))
    trace.attributes, trace.warnings, trace.remarks = {"seed": 3}, ["beware"], ["moved"]
    few, _ = thinned(trace, 20)
    assert (few.attributes, few.warnings, few.remarks) == ({"seed": 3}, ["beware"], ["moved"])
    assert (few.kernel, few.target) == (trace.kernel, trace.target)


def test_it_is_not_written_to() -> None:
    with pytest.raises(BadInput, match="only read"):
        ThinnedStore(trace_of(white_noise(draws=5)).store, 2).append(Block(np.zeros((1, 1, 1)), {}))
