from __future__ import annotations

import pytest
import torch
from torch import nn

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.sample import Chains
from tests.support.posteriors import (
    NORMAL,
    QUICK,
    X,
    Y,
)

F64 = torch.float64


def test_no_bar_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc import progress

    seen: list[bool] = []
    real = progress.bar
    monkeypatch.setattr(progress, "bar", lambda *a, **k: seen.append(progress._wanted.get()) or real(*a, **k))
    ggmc.sample(ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y), **QUICK)
    assert not any(seen)


def test_a_stored_run_with_another_annealing_is_refused() -> None:
    target = ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y, vectorise=True)
    runs = [Chains(target, ggmc.GGMC(), 2, 20, 0, anneal=anneal) for anneal in (None, 5.0)]
    with pytest.raises(BadInput, match="anneal"):
        runs[0].load_state_dict(runs[1].state_dict())
