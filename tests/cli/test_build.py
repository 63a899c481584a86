"""What a study describes, by value: its data, its sampler, and what its seed decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc
from ggmc.cli.build import Built, build
from ggmc.cli.study.read import read
from tests.support.command import study


def built(folder: Path, text: str) -> Built:
    return build(read(study(folder, text)))


def test_data_are_normalised_by_their_training_rows_alone(tmp_path: Path) -> None:
    made: Any = built(tmp_path, '[data]\nsource = "diabetes"\nsubset = 40')
    x, y = made.target.data.slice(0, 40)
    for values in (x, y):
        torch.testing.assert_close(values.mean(0), torch.zeros_like(values[0]), atol=1e-5, rtol=0)
        torch.testing.assert_close(values.std(0), torch.ones_like(values[0]), atol=1e-5, rtol=0)
    assert (made.x_test.mean(0).abs() > 1e-3).all()


@pytest.mark.parametrize(("name", "euler"), [("sghmc", True), ("amagold", False), ("ggmc", False), ("sgnht", False)])
def test_learning_rate_and_momentum_mean_what_they_mean_for_the_sampler(name: str, euler: bool, tmp_path: Path) -> None:
    rates = f'[kernel]\nname = "{name}"\nlearning_rate = 0.01\nmomentum = 0.9'
    made: Any = built(tmp_path, f'[data]\nsource = "digits"\nsubset = 100\n{rates}')
    expected = ggmc.from_learning_rate(0.01, 0.9, 100, euler=euler)
    assert (made.kernel.step_size, made.kernel.friction) == expected


def test_the_seed_is_that_of_the_network(tmp_path: Path) -> None:
    starts = [built(tmp_path, f'[data]\nsource = "diabetes"\n[run]\nseed = {seed}').target.start for seed in (1, 1, 2)]
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
