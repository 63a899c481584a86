from __future__ import annotations

import pickle
import shutil
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributions import HalfNormal, Normal, constraints

import ggmc
from ggmc.targets import potential
from ggmc.targets.traced import Compiled

F64 = torch.float64
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")


def density() -> ggmc.Density:
    y = torch.randn(20, dtype=F64)

    def log_prob(p: Any) -> torch.Tensor:
        prior = Normal(0, 5).log_prob(p["mu"]) + HalfNormal(2).log_prob(p["sigma"])
        return prior + Normal(p["mu"], p["sigma"]).log_prob(y).sum()

    one = torch.ones((), dtype=F64)
    return ggmc.Density(log_prob, {"mu": one, "sigma": one}, {"sigma": constraints.positive})


def posterior(**options: Any) -> ggmc.Posterior:
    x, y = torch.randn(50, 3, dtype=F64), torch.randn(50, dtype=F64)
    net = ggmc.nets.MLP([3, 4, 1], nn.Tanh).double()
    return ggmc.Posterior(net, ggmc.likelihoods.Gaussian(HalfNormal(1.0)), ggmc.priors.Gaussian(1.0), x, y, **options)


def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled from now on."""
    seen: list[Any] = []
    build = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *a, **b: seen.append(a) or build(*a, **b))
    return seen


@needs_compiler
@pytest.mark.parametrize("make", [density, lambda: posterior(vectorise=True), posterior])
def test_compiled_and_plain_gradients_agree(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make()
    seen = compilations(monkeypatch)
    rows = target.starts(3, torch.Generator().manual_seed(0)) + 0.1
    potential, gradient = target.potential_and_gradient(rows)
    assert target.compile() is target
    for _ in range(2):
        again = target.potential_and_gradient(rows)
        assert torch.allclose(again[0], potential, rtol=1e-12, atol=0)
        assert torch.allclose(again[1], gradient, rtol=1e-10, atol=1e-10)
        assert not again[1].requires_grad
    assert len(seen) == 1
    assert torch.allclose(target.potential_and_gradient(rows[:1])[1], gradient[:1], rtol=1e-10, atol=1e-10)
    assert len(seen) == 2  # another number of chains


@needs_compiler
def test_chunks_and_minibatches_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    target = posterior(vectorise=True)
    rows = target.starts(2, torch.Generator().manual_seed(0)) + 0.1
    field = ggmc.Minibatch(20, "epoch").bind(target)
    tape = field.tape(3, 2, torch.Generator().manual_seed(0))
    assert tape is not None
    expected = [target.potential_and_gradient(rows)[1], *(field(rows, entry)[0] for entry in tape)]
    monkeypatch.setattr(potential, "CHUNK_MEMORY", target.data_sum.example_bytes * 2 * 30)
    seen = compilations(monkeypatch)
    target.compile()
    found = [target.potential_and_gradient(rows)[1], *(field(rows, entry)[0] for entry in tape)]
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)
    assert len(seen) == 3  # two chunks, and batches, which are padded to one size


@needs_compiler
def test_a_compiled_target_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = compilations(monkeypatch)
    scale = nn.Parameter(torch.ones(2, dtype=F64))  # of no concern to the sampler, but it asks for gradients
    target = ggmc.Density(lambda x: -((scale * x) ** 2).sum() / 2, torch.zeros(2, dtype=F64))
    ggmc.sample(target.compile(), draws=10, warmup=10, progress=False)
    number = len(seen)
    trace = ggmc.sample(target.compile(), draws=500, warmup=200, progress=False)
    assert len(seen) == number  # once is enough
    assert abs(trace["theta"].var() - 1) < 0.25


@needs_compiler
def test_a_singular_matrix_stays_a_rejection() -> None:
    def log_prob(x: torch.Tensor) -> torch.Tensor:
        return -torch.linalg.cholesky(torch.diag(x)).diagonal().log().sum() - x.sum()

    target = ggmc.Density(log_prob, torch.ones(2, dtype=F64), jitter=0.1).compile()
    rows = torch.tensor([[1.0, 2.0], [-1.0, 1.0]], dtype=F64)
    potential, gradient = target.potential_and_gradient(rows)
    assert potential[0].isfinite()
    assert potential[1] == torch.inf
    assert gradient[0].isfinite().all()


def test_what_cannot_be_compiled_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_compiler(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no C++ compiler\nand a long story")

    monkeypatch.setattr(torch, "compile", no_compiler)
    target, rows = density(), torch.ones(2, 2, dtype=F64)
    expected = target.potential_and_gradient(rows)
    target.compile()
    for number in (2, 2, 1):
        assert torch.equal(target.potential_and_gradient(rows[:number])[1], expected[1][:number])
    assert [record.getMessage() for record in caplog.records] == [
        "the gradient cannot be compiled, so it runs as it is: no C++ compiler"
    ]


def test_chains_that_run_one_after_another_are_not_compiled(caplog: pytest.LogCaptureFixture) -> None:
    target = posterior(vectorise=False)
    rows = target.starts(2, torch.Generator().manual_seed(0))
    expected = target.potential_and_gradient(rows)
    assert torch.equal(target.compile().potential_and_gradient(rows)[1], expected[1])
    assert "one after another, so it is not compiled" in caplog.text


@needs_compiler
def test_a_compiled_target_is_pickled_without_its_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    target = posterior(vectorise=True).compile()
    rows = target.starts(2, torch.Generator().manual_seed(0)) + 0.1
    gradient = target.potential_and_gradient(rows)[1]
    again = pickle.loads(pickle.dumps(target))
    seen = compilations(monkeypatch)
    assert torch.equal(again.potential_and_gradient(rows)[1], gradient)
    assert len(seen) == 1


@needs_compiler
def test_another_precision_is_another_program() -> None:
    """A program has the precision of its constants built in."""
    add_a_third = Compiled(lambda x: x + torch.full((2,), 1 / 3, dtype=x.dtype))
    for dtype in (F64, torch.float32, F64):
        zero = torch.zeros(2, dtype=dtype)
        torch.testing.assert_close(add_a_third(zero), torch.full((2,), 1 / 3, dtype=dtype), rtol=1e-15, atol=0)
