"""The comparison of a guide with the exact gradient at a share of the kicks."""

from __future__ import annotations

import pytest
import torch

import ggmc
from ggmc.dynamics.guide_noise import Comparison

F64 = torch.float64
TIME = torch.tensor(0.1, dtype=F64)


def test_a_share_of_the_kicks_is_scaled_up() -> None:
    """A guide that is off by a constant: the noise error of a third of the kicks, times three, is that of all."""
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    found = []
    for share in (1.0, 0.34):
        compare = Comparison(target, 12, share, torch.Generator().manual_seed(0))
        for _ in range(12):
            compare(TIME, torch.zeros(2, 1, dtype=F64), torch.ones(2, 1, dtype=F64), torch.ones(2, 1, dtype=F64))
        found.append(compare.by_noise)
    torch.testing.assert_close(found[0], torch.full((2,), -1.2, dtype=F64))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("kicks", [11, 12])
def test_mirrored_kicks_are_compared_both_or_neither(kicks: int) -> None:
    """Noise that cancels on the way back adds up to nothing, whichever kicks are compared."""
    target = ggmc.Density(lambda x: -1e-300 * x.sum(), torch.zeros(1, dtype=F64))
    one = torch.ones(2, 1, dtype=F64)
    for seed in range(5):
        compare = Comparison(target, kicks, 0.34, torch.Generator().manual_seed(seed))
        for kick in range(kicks):
            compare(TIME, one, (kick - (kicks - 1) / 2) * one, one)
        assert compare.by_noise is not None
        torch.testing.assert_close(compare.by_noise, torch.zeros(2, dtype=F64))


def test_only_a_share_is_computed() -> None:
    calls = 0

    class Counting(ggmc.Density):
        def potential_and_gradient(self, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            nonlocal calls
            calls += 1
            return super().potential_and_gradient(position)

    target = Counting(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    one = torch.ones(2, 1, dtype=F64)
    compare = Comparison(target, 12, 0.34, torch.Generator().manual_seed(0))
    calls = 0
    for _ in range(12):
        compare(TIME, one, one, one)
    assert calls == 4


def test_each_chain_may_have_its_own_time() -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(1, dtype=F64))
    compare = Comparison(target, 1, 1.0, torch.Generator().manual_seed(0))
    one = torch.ones(2, 1, dtype=F64)
    compare(torch.tensor([0.1, 0.3], dtype=F64), 0 * one, one, one)
    torch.testing.assert_close(compare.by_noise, torch.tensor([-0.1, -0.3], dtype=F64))
