from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ggmc.errors import BadInput
from ggmc.report.thinned import ThinnedRows, ThinnedStore, thinned
from ggmc.trace.record import NUMBERS_AT_ONCE
from ggmc.trace.store import Block
from tests.support.traces import trace_of, white_noise


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


def test_it_is_not_written_to() -> None:
    with pytest.raises(BadInput, match="only read"):
        ThinnedStore(trace_of(white_noise(draws=5)).store, 2).append(Block(np.zeros((1, 1, 1)), {}))
