from __future__ import annotations

import logging
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import HalfNormal, Normal, constraints
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]

import ggmc
from ggmc.errors import NotExact
from ggmc.kernels import Kernel
from ggmc.targets import traced
from ggmc.targets.base import Target
from ggmc.targets.traced import CALLS_FIRST, LOOKS, Traced, half_the_digits, same

F64 = torch.float64


def density() -> ggmc.Density:
    y = torch.tensor([1.2, 0.7, 1.9], dtype=F64)

    def log_prob(p: Any) -> Tensor:
        prior = Normal(0, 5).log_prob(p["mu"]) + HalfNormal(2).log_prob(p["sigma"])
        return prior + Normal(p["mu"], p["sigma"]).log_prob(y).sum()

    one = torch.ones((), dtype=F64)
    return ggmc.Density(log_prob, {"mu": one, "sigma": one}, {"sigma": constraints.positive})


def singular() -> ggmc.Density:
    """Its Cholesky factor does not exist everywhere."""

    def log_prob(x: Tensor) -> Tensor:
        return -torch.linalg.cholesky(torch.diag(x)).diagonal().log().sum() - x.sum() - 0.1 * (x**2).sum()

    return ggmc.Density(log_prob, torch.full((2,), 0.1, dtype=F64), jitter=0.01)


def tall() -> ggmc.DataDensity:
    generator = torch.Generator().manual_seed(1)
    X = torch.randn(60, 3, generator=generator, dtype=F64)
    y = (X.sum(1) + torch.randn(60, generator=generator, dtype=F64) > 0).double()

    def log_likelihood(w: Tensor, batch: tuple[Tensor, Tensor]) -> Tensor:
        return -nn.functional.softplus(-(2 * batch[1] - 1) * (batch[0] @ w))

    start = torch.zeros(3, dtype=F64)
    return ggmc.DataDensity(lambda w: -(w**2).sum() / 2, log_likelihood, (X, y), start, bound=0.0)


def network() -> ggmc.Posterior:
    torch.manual_seed(0)
    x = torch.randn(40, 2)
    net = ggmc.nets.MLP([2, 4, 1], nn.Tanh)
    likelihood, prior = ggmc.likelihoods.Gaussian(0.3), ggmc.priors.Gaussian(1.0)
    return ggmc.Posterior(net, likelihood, prior, x, x.sum(1)[:, None], vectorise=True)


RUNS: dict[str, tuple[Any, Kernel]] = {
    "density": (density, ggmc.HMC()),
    "a factor that fails": (singular, ggmc.HMC(0.6, steps=5)),
    "all data": (tall, ggmc.GGMC()),
    "minibatches": (tall, ggmc.GGMC(guide=ggmc.Minibatch(13))),
    "control variates": (tall, ggmc.GGMC(guide=ggmc.ControlVariate(13))),
    "surrogate": (tall, ggmc.HMC(guide=ggmc.Surrogate(lambda w: -((w - 0.5) ** 2).sum() * 3))),
    "network": (network, ggmc.GGMC(guide=ggmc.Minibatch(10))),
}


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("name", RUNS)
def test_recorded_and_plain_runs_give_the_same_draws_bit_for_bit(
    name: str, chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, kernel = RUNS[name]
    used: list[int] = []
    record = traced.program_of

    def counted(*arguments: Any) -> Any:
        used.append(1)
        return record(*arguments)

    monkeypatch.setattr(traced, "program_of", counted)
    recorded = ggmc.sample(make(), kernel, draws=40, warmup=40, chains=chains, progress=False)
    assert used
    monkeypatch.setattr(traced, "CALLS_FIRST", -1)
    plain = ggmc.sample(make(), kernel, draws=40, warmup=40, chains=chains, progress=False)
    assert np.array_equal(recorded.positions, plain.positions)
    for statistic in ("lp", "log_accept", "work"):
        assert np.array_equal(recorded.stats[statistic], plain.stats[statistic], equal_nan=True)


def called(function: Traced, times: int) -> list[Tensor]:
    return [function(torch.tensor([[float(i), 1.0]]))[0] for i in range(1, times + 1)]


def test_a_function_is_recorded_after_some_calls_of_one_form() -> None:
    calls: list[int] = []
    function = Traced("f", lambda x: (calls.append(1), (x**2,))[1])
    called(function, CALLS_FIRST)
    assert function.programs == 1
    before = len(calls)
    called(function, LOOKS)
    assert len(calls) == before + LOOKS  # compared
    before = len(calls)
    found = called(function, 7)
    assert len(calls) == before  # not called any more
    assert found[2].tolist() == [[9.0, 1.0]]
    for _ in range(CALLS_FIRST):
        function(torch.ones(3, 2))
    assert function.programs == 2
    assert function(torch.ones(3, 2, dtype=F64))[0].dtype == F64


def test_a_branch_that_torch_cannot_see_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    def branches(x: Tensor) -> tuple[Tensor]:
        return (x**2 if x.detach().numpy()[0, 0] > 3 else -x,)

    with caplog.at_level(logging.INFO, "ggmc"):
        function = Traced("f", branches)
        for value, expected in ((1.0, -1.0), (5.0, 25.0)):
            for _ in range(50):
                assert function(torch.tensor([[value]]))[0].item() == expected
    assert function.programs == 0
    (record,) = caplog.records
    assert record.getMessage() == (
        "f runs as it is, which is slower than a record of its operations: its operations depend on values"
    )


def test_a_record_that_has_shown_to_be_wrong_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a branch lies beyond the points of the first comparison, and is met before the record is relied on."""
    records: list[int] = []
    record = traced.program_of
    monkeypatch.setattr(traced, "program_of", lambda *a: records.append(1) or record(*a))
    function = Traced("f", lambda x: (x**2 if x.detach().numpy()[0, 0] < 1e6 else -x,))
    called(function, CALLS_FIRST)
    for value, expected in ((1e7, -1e7), (3.0, 9.0)):
        for _ in range(3 * CALLS_FIRST):
            assert function(torch.tensor([[value, 1.0]]))[0][0, 0].item() == expected
    assert (len(records), function.programs) == (1, 0)


def test_a_function_that_fails_far_away_is_recorded_all_the_same() -> None:
    """The points beside the first are up to ten away, where this factor does not exist."""
    function = Traced("f", lambda x: (torch.linalg.cholesky(torch.diag_embed(x)).diagonal(dim1=-2, dim2=-1),))
    called(function, CALLS_FIRST)
    assert function.programs == 1
    for _ in range(LOOKS + 1):
        assert function(torch.tensor([[4.0, 9.0]]))[0].tolist() == [[2.0, 3.0]]
    with pytest.raises(LinAlgError):
        function(torch.tensor([[-4.0, 9.0]]))


def test_what_a_function_reads_may_change_between_two_runs() -> None:
    scale = [1.0]
    target = ggmc.Density(lambda x: -scale[0] * (x**2).sum() / 2, torch.zeros(1, dtype=F64))
    kernel = ggmc.HMC(0.3, steps=5)
    first = ggmc.sample(target, kernel, draws=400, warmup=0, progress=False)
    scale[0] = 100.0
    kernel = ggmc.HMC(0.03, steps=5)
    second = ggmc.sample(target, kernel, draws=400, warmup=0, progress=False)
    assert 0.7 < first["theta"].std() < 1.3
    assert 0.07 < second["theta"][:, 100:].std() < 0.13


def test_what_changes_within_a_run_is_refused() -> None:
    scale = [1.0]
    function = Traced("f", lambda x: (scale[0] * x,))
    called(function, CALLS_FIRST + LOOKS)
    scale[0] = 2.0
    with pytest.raises(NotExact, match="f no longer gives what it gave before") as caught:
        called(function, 200)
    assert [condition.number for condition in caught.value.conditions] == [5]
    function = Traced("f", lambda x: (scale[0] * x,))
    called(function, CALLS_FIRST + LOOKS)
    scale[0] = 2.0 * (1 + 1e-7)  # not another function, but not the same to the last bit
    assert torch.allclose(torch.stack(called(function, 200))[:, 0, 0], 2.0 * torch.arange(1.0, 201.0))
    assert function.programs == 0


def test_a_run_by_hand_compares_again() -> None:
    """`kernel.bind` begins a run too."""
    scale = [1.0]
    target = ggmc.Density(lambda x: -scale[0] * (x**2).sum() / 2, torch.zeros(1, dtype=F64))
    rows = torch.ones(2, 1, dtype=F64)
    for _ in range(100):
        target.potential_and_gradient(rows)
    scale[0] = 3.0
    ggmc.HMC(0.1, steps=2).bind(target)
    assert target.potential_and_gradient(rows)[1].tolist() == [[3.0], [3.0]]


def test_gradients_through_a_value_are_not_recorded() -> None:
    target: Target = tall()
    assert isinstance(target, ggmc.DataDensity)
    batch = tuple(leaf[None].expand(2, *leaf.shape) for leaf in target.data.slice(0, 60))
    rows, weights = torch.ones(2, 3, dtype=F64), torch.ones(2, 60, dtype=F64)
    first = target.batch_hessian_products(rows, batch, weights, rows)
    for _ in range(3 * CALLS_FIRST):
        target.potential(rows)
        assert torch.equal(target.batch_hessian_products(rows, batch, weights, rows), first)


def test_programs_stay_in_their_process() -> None:
    target = density()
    rows = target.starts(2, torch.Generator().manual_seed(0))
    for _ in range(3 * CALLS_FIRST):
        expected = target.potential_and_gradient(rows)
    with pytest.raises((AttributeError, pickle.PicklingError)):  # the log density is a local function
        pickle.dumps(target)
    again = pickle.loads(pickle.dumps(network()))
    rows = again.starts(2, torch.Generator().manual_seed(0))
    expected = again.potential_and_gradient(rows)
    for _ in range(3 * CALLS_FIRST):
        assert same(again.potential_and_gradient(rows), expected)
    assert same(pickle.loads(pickle.dumps(again)).potential_and_gradient(rows), expected)


def test_equal_results_may_hold_nan() -> None:
    nan = torch.tensor([1.0, torch.nan, torch.inf])
    assert same((nan,), (nan.clone(),))
    assert not same((nan,), (torch.tensor([1.0, 2.0, torch.inf]),))
    assert not same((nan,), (torch.tensor([1.0, torch.nan, -torch.inf]),), 1e-3)
    assert same((torch.ones(2),), (torch.ones(2) * (1 + 1e-6),), 1e-5)
    assert not same((torch.ones(2),), (torch.ones(2, dtype=F64),))
    assert half_the_digits((torch.ones(2, dtype=F64),)) == 2.0**-26
    assert half_the_digits((torch.ones(2, dtype=F64), torch.ones(2))) == pytest.approx(2.0**-11.5)
