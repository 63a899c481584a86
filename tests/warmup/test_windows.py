"""Windows: where they end, and what is gathered in each."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

import ggmc
from ggmc.sampling.chains import Chains
from ggmc.warmup.windows import windows
from tests.support.gaussians import gaussian

F64 = torch.float64


@pytest.mark.parametrize("iterations", [0, 1, 10, 20, 25, 50, 100, 333, 1000, 5000])
def test_windows_grow_and_leave_time_to_settle(iterations: int) -> None:
    ends = windows(iterations)
    assert ends == sorted(set(ends))
    assert ends[-1] <= iterations
    if iterations >= 50:
        lengths = [b - a for a, b in pairwise([0, *ends])]
        assert lengths == sorted(lengths)
        assert iterations - ends[-1] >= 0.09 * iterations


def test_each_window_has_moments_of_its_own_and_sees_chains_move() -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 200, 0)
    for i in range(1, chains.warmup.ends[-1]):
        chains.advance()
        window = chains.warmup.learnt.window
        assert window is not None
        moments = window.moments
        assert moments is not None
        assert moments.count == 4 * (i - max(end for end in [0, *chains.warmup.ends] if end <= i))
        assert moments.count < 40 or (moments.square_jumps > 0).all()
