"""Where a run begins: the guide's advice, the mass, and sums that do not stop early while tuning."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.sampling.chains import Chains
from tests.support.logistic import logistic

F64 = torch.float64


def test_a_run_starts_where_the_guide_says() -> None:
    anchor = torch.full((3,), 30.0, dtype=F64)
    kernel = ggmc.GGMC(0.1, guide=ggmc.ControlVariate(10, anchor=anchor))
    assert torch.equal(Chains(logistic(), kernel, 4, 0, 0).state.position, anchor.expand(4, 3))


def test_a_run_starts_with_momenta_of_its_mass() -> None:
    kernel = ggmc.GGMC(0.1, mass=[1e-4, 1.0, 1e4], temperature=0.5)
    momentum = Chains(logistic(), kernel, 2000, 0, 0).state.momentum
    torch.testing.assert_close(momentum.var(0), torch.tensor([0.5e-4, 0.5, 0.5e4], dtype=F64), rtol=0.2, atol=0)


def test_while_tuning_no_sum_stops_early(monkeypatch: pytest.MonkeyPatch) -> None:
    target = logistic(bound=0.0)
    potential = target.potential
    limits: list[Tensor | None] = []

    def recorded(position: Tensor, limit: Tensor | None = None) -> Tensor:
        limits.append(limit)
        return potential(position, limit)

    chains = Chains(target, ggmc.GGMC(guide=ggmc.Minibatch(50, "iid"), steps=4), 4, 60, 0)
    monkeypatch.setattr(target, "potential", recorded)
    for _ in range(60):
        chains.advance()
    assert len(limits) >= 60
    assert all(limit is None for limit in limits), "log α of a stopped sum is not log α"
    assert not chains.warming
    limits.clear()
    chains.advance()
    assert limits
    assert all(limit is not None for limit in limits)
