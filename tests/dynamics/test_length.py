"""The number of steps of a trajectory, where it is drawn from a range."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import Tensor

from ggmc.dynamics import length
from ggmc.guides import GradientField


def test_every_length_of_a_range_is_as_likely_both_ends_included() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = Counter(length.draw((2, 4), generator) for _ in range(3000))
    assert set(drawn) == {2, 3, 4}
    deviation = (3000 * (1 / 3) * (2 / 3)) ** 0.5
    assert all(abs(number - 1000) < 6 * deviation for number in drawn.values())  # false failures: below 1e-8


def test_some_lengths_of_a_range_reach_from_end_to_end() -> None:
    assert length.some((5, 5)) == [5]
    assert length.some((2, 4)) == [2, 3, 4]
    assert length.some((3, 73)) == [3, 13, 23, 33, 43, 53, 63, 73]


def test_a_single_length_draws_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert length.draw((7, 7), generator) == 7
    assert torch.equal(generator.get_state(), before)


class Fixed(GradientField):
    """A field that has a length of its own."""

    def __init__(self, gradients: int, whole_sweeps: bool):
        super().__init__(order=None, sweep=4, whole_sweeps=whole_sweeps, default_steps=gradients)

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return position, None


@pytest.mark.parametrize(
    ("gradients", "whole_sweeps", "per_step", "steps"),
    [
        (8, True, 1, 8),  # two sweeps of four
        (8, True, 3, 4),  # a whole number of sweeps and of steps: twelve gradients
        (4, True, 2, 2),
        (5, False, 1, 5),
        (5, False, 2, 3),
    ],
)
def test_the_fields_own_length_is_kept(gradients: int, whole_sweeps: bool, per_step: int, steps: int) -> None:
    assert length.in_steps(None, Fixed(gradients, whole_sweeps), per_step) == (steps, steps)
