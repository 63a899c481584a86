"""Windows: where they end, and what is gathered in each."""

from __future__ import annotations

import copy
from itertools import pairwise

import pytest
import torch
from torch.utils._pytree import tree_flatten

import ggmc
from ggmc.dynamics.mass import Diagonal
from ggmc.dynamics.state import Info, State
from ggmc.sampling.chains import Chains
from ggmc.warmup.learnt import Learnt
from ggmc.warmup.step_size import DualAveraging
from ggmc.warmup.windows import Window, windows
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


def test_a_restored_window_goes_on_where_the_stored_one_was() -> None:
    generator = torch.Generator().manual_seed(0)

    def state() -> State:
        position = torch.randn(4, 2, dtype=F64, generator=generator)
        return State(position, position, (position**2).sum(1))

    first, then = state(), state()
    settled = torch.tensor([True, False, True, True])
    window = Window.opened(first, 0.5, "dense", True, settled, states=True)
    none, all_of_them = torch.zeros(4, dtype=F64), torch.ones(4, dtype=torch.bool)
    info = Info(none, all_of_them, ~all_of_them, none, none, 1)
    window.add(first, torch.zeros_like(first.position), info)
    window.paths.add(torch.randn(3, 4, 2, dtype=F64, generator=generator), torch.ones(3, 4, dtype=F64))
    again = Window.restored(copy.deepcopy(window.state_dict()), torch.device("cpu"))
    for each in (window, again):
        each.add(then, first.position, info)
    assert window.accepted == 8
    assert window.moments is not None
    assert window.moments.count == 6  # of two draws, those of the three settled chains
    stored, resumed = (tree_flatten(each.state_dict()) for each in (window, again))
    assert stored[1] == resumed[1]
    for one, other in zip(stored[0], resumed[0], strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_nothing_learnt_is_forgotten_when_stored() -> None:
    dual = DualAveraging.around(0.3, 0.8)
    dual.update(0.5)
    mass = Diagonal(torch.tensor([2.0, 3.0], dtype=F64))
    learnt = Learnt(mass, 7, 33, 1.5, -4.0, dual, Window(0.5), {"batch_size": "ten"}, ["A chain was moved."])
    unlike = Learnt(Diagonal(torch.ones(2, dtype=F64)), 10)
    for name, value in vars(learnt).items():
        assert value != vars(unlike)[name], name  # nothing here is as it is at first
    again = Learnt.restored(copy.deepcopy(learnt.state_dict()), torch.zeros(2, dtype=F64))
    assert str(again.state_dict()) == str(learnt.state_dict())
