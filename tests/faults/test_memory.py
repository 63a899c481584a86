"""Memory: a chunk that does not fit becomes smaller, and draws on disk take no memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ggmc
from ggmc.targets import potential
from ggmc.targets.potential import SumOverData
from tests.support.logistic import logistic


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
              torch.OutOfMemoryError("CUDA out of memory")], ids=lambda e: type(e).__name__
)  # fmt: skip
def test_a_chunk_that_does_not_fit_is_halved_and_the_sum_is_the_same(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(potential, "CHUNK_MEMORY", 64 * 1024)
    target = logistic(300)
    rows = 0.1 * torch.randn(2, target.layout.size, dtype=torch.float64)
    expected, slopes = target.potential_and_gradient(rows)
    alone = target.potential(rows)
    sizes: list[int] = []
    terms_of_row = target.data_sum._terms_of_row

    def limited(free: Any, batch: Any) -> torch.Tensor:
        sizes.append(len(batch[0]))
        if len(batch[0]) > 40:
            raise error
        return terms_of_row(free, batch)

    monkeypatch.setattr(target.data_sum, "_terms_of_row", limited)
    found, gradient = target.potential_and_gradient(rows)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient, slopes)
    torch.testing.assert_close(target.potential(rows), alone)
    assert max(sizes) > 40
    assert "chunks are half as large" in caplog.text
    sizes.clear()
    target.potential_and_gradient(rows)
    assert max(sizes) <= 40  # what was learnt is kept


def test_other_errors_are_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target = logistic(300)

    def fails(self: SumOverData, *_: Any) -> Any:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(SumOverData, "_stream_with_gradient", fails)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        target.potential_and_gradient(torch.zeros(2, target.layout.size, dtype=torch.float64))


PROGRAM = """
import resource, sys, torch, ggmc
target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(50_000))
ggmc.sample(target, ggmc.HMC(0.05, 1), int(sys.argv[1]), 0, chains=2, out=sys.argv[2], progress=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(draws: int, out: Path) -> int:
    """Kilobytes of memory that a run on disk takes at the most, in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, str(draws), str(out)]
    # The allocator gives freed memory back: what is measured is what the run holds, not what is kept for later.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**20)}
    return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_ten_times_the_draws_take_no_more_memory(tmp_path: Path) -> None:
    few, many = peak(120, tmp_path / "few"), peak(1200, tmp_path / "many")
    assert many < 1.05 * few
    assert ggmc.load(tmp_path / "many").num_draws == 1200
