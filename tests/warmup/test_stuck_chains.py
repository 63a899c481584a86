"""Chains where there is next to no probability: moved, and said so; all others left alone."""

from __future__ import annotations

import torch

F64 = torch.float64


def test_a_chain_in_a_trap_joins_the_others_but_modes_of_equal_height_are_left_alone() -> None:
    rows = torch.arange(8.0, dtype=F64).reshape(4, 2)
    near = State(rows, rows, torch.tensor([0.0, 3.0, 5.0, 16.0], dtype=F64), rows)
    assert torch.equal(bring_back_lost_chains(near, 1.0).position, rows)
    lost = near._replace(potential=torch.tensor([0.0, 3.0, 5.0, 50.0], dtype=F64))
    back = bring_back_lost_chains(lost, 1.0)
    assert torch.equal(back.position[:3], rows[:3])
    assert torch.equal(back.position[3], rows[0])
    assert back.potential is not None
    assert back.potential.tolist() == [0.0, 3.0, 5.0, 0.0]
    assert torch.equal(bring_back_lost_chains(lost, 10.0).position, rows)


def test_a_lost_chain_becomes_the_best_one_in_every_respect() -> None:
    rows = torch.randn(3, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    state = State(rows[0], rows[1], torch.tensor([1.0, 0.0, 2.0, 500.0, 15.0], dtype=F64), rows[2])
    before: Any = state
    back: Any = bring_back_lost_chains(state, 1.0)
    assert all(torch.equal(x, y[[0, 1, 2, 1, 4]]) for x, y in zip(back[:4], before[:4], strict=True))
    hot: Any = bring_back_lost_chains(state, 100.0)
    assert all(map(torch.equal, hot[:4], before[:4]))


def test_chains_are_brought_back_between_early_windows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = Chains(gaussian(), ggmc.GGMC(), 4, 200, 0)
    called: list[int] = []

    def record(state: State, temperature: float) -> State:
        called.append(chains.warmup.iteration)
        return state

    monkeypatch.setattr("ggmc.warmup.warmup.bring_back_lost_chains", record)
    for _ in range(230):
        chains.advance()
    assert called
    assert set(called) <= set(chains.warmup.ends[1:-1])


def test_a_chain_in_a_trap_is_freed_by_warm_up(caplog: pytest.LogCaptureFixture) -> None:
    """A deep mode and a trap 60 above it: chains that start in the trap leave it, and the trace says nothing of it."""

    def log_prob(x: torch.Tensor) -> torch.Tensor:
        return torch.logaddexp(-(x**2) / 2, -60 - (x - 30) ** 2 / 2).sum()

    target = ggmc.Density(log_prob, torch.full((1,), 14.0, dtype=F64), jitter=4.0)
    trace = ggmc.sample(target, draws=200, warmup=300, chains=6, progress=False)
    assert "was left behind" in caplog.text
    assert np.abs(trace["theta"]).max() < 10
