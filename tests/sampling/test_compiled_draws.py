"""Draws by the block are those of single trajectories, however they are put together."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor

import ggmc
from ggmc.errors import NotExact
from ggmc.sampling import compiled_draws as module
from ggmc.sampling.chains import Chains, info_of
from ggmc.sampling.compiled_draws import CompiledDraws
from ggmc.sampling.run import AtOnce
from tests.support.invariance import FALSE_FAILURE_RATE, features, funnel, quartic, skewed

F64 = torch.float64
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
DENSE = torch.tensor([[2.0, 0.8], [0.8, 1.0]], dtype=F64)


def tilted() -> ggmc.Density:
    return ggmc.Density(lambda w: -(w**4 / 4 + w).sum() - (w[0] * w[1]).sin(), torch.zeros(2, dtype=F64))


def two_tensors() -> ggmc.Density:
    start = {"a": torch.zeros(2, dtype=F64), "b": torch.zeros((), dtype=F64)}
    return ggmc.Density(lambda p: -(p["a"] ** 2).sum() / 2 - (p["b"] - p["a"].sum()) ** 2, start)


KERNELS: dict[str, Any] = {
    "ends": ggmc.GGMC(0.4, 0.7, (1, 5), "O(BAB)O"),
    "one length": ggmc.GGMC(0.4, 0.7, 3, "O(BAB)O", mass=DENSE),
    "HMC": ggmc.HMC(0.9, (2, 4), mass=torch.tensor([2.0, 0.5], dtype=F64)),
    "cold": ggmc.GGMC(0.4, 0.7, 3, "O(BAB)O", temperature=0.3),
    "MALA": ggmc.MALA(0.5),
}


def chains_of(target: Any, kernel: Any, compile: bool = True, chains: int = 3) -> Chains:
    return Chains(target, kernel, chains, 0, 0, compile=compile)


@pytest.mark.parametrize("name", ["ends", "one length", "HMC", "cold"])
def test_they_are_those_of_single_trajectories(name: str) -> None:
    one, other = chains_of(tilted(), KERNELS[name]), chains_of(tilted(), KERNELS[name], compile=False)
    assert one.several_at_once
    assert not other.several_at_once
    draws = one.several(25)
    for number in range(25):
        info = other.advance()
        single = other.draw(info)
        torch.testing.assert_close(draws.position[number], single.position[0], rtol=1e-9, atol=1e-9)
        assert set(draws.stats) == set(single.stats)
        for stat, values in single.stats.items():
            torch.testing.assert_close(
                draws.stats[stat][number], values[0], rtol=1e-7, atol=1e-7, equal_nan=True, msg=stat
            )
        assert info_of(draws, number).steps == info.steps
        assert torch.equal(info_of(draws, number).accepted, info.accepted)
    torch.testing.assert_close(one.state.momentum, other.state.momentum, rtol=1e-9, atol=1e-9)
    assert one.state.trajectories == other.state.trajectories == 25
    assert one.drawn == 25


def test_they_are_the_same_to_the_last_bit_however_put_together() -> None:
    whole = chains_of(tilted(), KERNELS["ends"]).several(30)
    parts = chains_of(tilted(), KERNELS["ends"])
    pieces = [parts.several(n) for n in (1, 4, 10, 15)]
    assert torch.equal(torch.cat([piece.position for piece in pieces]), whole.position)
    for name, stat in whole.stats.items():
        assert torch.equal(torch.cat([piece.stats[name] for piece in pieces]).nan_to_num(-9), stat.nan_to_num(-9)), name
    singles = chains_of(tilted(), KERNELS["ends"])
    for number in range(30):
        info = singles.advance()
        assert torch.equal(singles.draw(info).position[0], whole.position[number])


def test_names_of_tensors_and_data() -> None:
    draws = chains_of(two_tensors(), ggmc.HMC(0.3, 3)).several(4)
    assert draws.stats["kinetic_temperatures"].shape == (4, 3, 2)


def test_an_end_that_is_not_finite_is_rejected() -> None:
    target = ggmc.Density(lambda x: x.log().sum() - x.sum(), torch.ones(2, dtype=F64), jitter=0.1)  # nan below 0
    one, other = (chains_of(target, ggmc.HMC(1.5, 3), compile) for compile in (True, False))
    draws = one.several(40)
    for number in range(40):
        info = other.advance()
        assert torch.equal(info_of(draws, number).accepted, info.accepted)
        assert torch.equal(info_of(draws, number).diverging, info.diverging)
    assert bool(draws.stats["diverging"].any())
    assert bool(draws.position.isfinite().all())


def test_a_singular_matrix_is_a_rejection() -> None:
    def log_prob(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(torch.diag(x)).diagonal().log().sum() - x.sum()

    target = ggmc.Density(log_prob, torch.ones(2, dtype=F64), jitter=0.1)
    one, other = (chains_of(target, ggmc.HMC(0.8, 4), compile) for compile in (True, False))
    for _ in range(30):
        info, expected = one.advance(), other.advance()
        assert torch.equal(info.accepted, expected.accepted)
    torch.testing.assert_close(one.state.position, other.state.position, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "kernel",
    [
        ggmc.MALT(0.3, 0.7, 3),
        ggmc.GGMC(0.4, 0.7, 3),
        ggmc.GGMC(0.4, 0.7, 3, "O(BAB)O", adjust=False),
        ggmc.SGNHT(0.1, steps=2),
        ggmc.GGMC(0.4, 0.7, 3, "O(ABA)O"),
        ggmc.GGMC(0.4, 0.7, 3, "O(BAB)O", guide=ggmc.Surrogate(lambda w: -(w**2).sum())),
    ],
)
def test_other_kernels_make_single_trajectories(kernel: Any) -> None:
    run = chains_of(tilted(), kernel)
    assert not run.several_at_once
    assert run.advance().work.shape == (3,)


def test_a_density_that_changes_ends_the_run() -> None:
    factor = {"now": 1.0}
    target = ggmc.Density(lambda x: -(x**2).sum() * factor["now"], torch.zeros(2, dtype=F64))
    run = chains_of(target, ggmc.HMC(0.3, 3))
    run.several(3)
    factor["now"] = 3.0
    with pytest.raises(NotExact, match="no longer give what single ones give"):
        run.several(3)


def test_a_mass_that_changes_while_sampling_is_refused() -> None:
    run = chains_of(tilted(), KERNELS["one length"])
    run.several(3)
    sampler = run._sampler
    assert sampler is not None
    sampler.parameters.mass.tensors()[0].mul_(2.0)
    with pytest.raises(NotExact):
        run.several(3)


def test_long_trajectories_in_which_rounding_grows_are_no_change() -> None:
    target = ggmc.Density(lambda x: -(x**4).sum() - 8 * (x[0] * x[1]) ** 2, torch.zeros(2, dtype=F64))
    chains_of(target, ggmc.HMC(0.15, 1000)).several(3)


def test_progress_is_counted_and_callbacks_see_each_trajectory() -> None:
    seen: list[int] = []
    target = tilted()

    def callback(moment: Any) -> None:
        seen.append(moment.iteration)

    trace = ggmc.sample(target, KERNELS["ends"], 30, 0, progress=False, compile=True, callback=callback)
    assert seen == list(range(1, 31))
    plain = ggmc.sample(target, KERNELS["ends"], draws=30, warmup=0, progress=True, compile=True)
    assert torch.equal(torch.as_tensor(trace["theta"]), torch.as_tensor(plain["theta"]))


def test_as_many_at_once_as_take_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("ggmc.sampling.run.time.perf_counter", lambda: now[0])
    at_once, seen = AtOnce(50), []
    for seconds in (0, 0, 0, 0, 0, 0, 0, 1.0, 1.0, 0):
        with at_once.timed():
            now[0] += seconds
        seen.append(at_once.number)
    assert seen == [2, 4, 8, 16, 32, 50, 50, 25, 12, 24]
    with AtOnce(1).timed():
        pass


CASES: dict[str, Any] = {"quartic": quartic, "skewed": skewed, "cold": lambda: quartic(0.5), "2d": funnel}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("bug", [None, "no flip", "stale potential"])
def test_exact_draws_stay_exact_and_planted_bugs_are_found(name: str, bug: str | None, monkeypatch: Any) -> None:
    """As in tests/exactness, with the test itself compiled."""
    case = CASES[name]()
    if bug is not None and name != "quartic":
        pytest.skip("one target suffices for a bug")
    if bug == "no flip":
        monkeypatch.setattr("ggmc.dynamics.state.State.flip", lambda self: self)
    if bug == "stale potential":
        monkeypatch.setattr(module, "_of", _with_stale_potential)
        monkeypatch.setattr(CompiledDraws, "_check", lambda *_: None)  # which would see it at once
    number = 30_000
    kernel = ggmc.GGMC(0.8, 0.5, (1, 6), "O(BAB)O", temperature=case.temperature)
    run = Chains(
        case.target, kernel, number, 0, 0, start=case.exact(number, torch.Generator().manual_seed(1)), compile=True
    )
    assert run.several_at_once
    before = features(run.state)
    run.several(12)
    after = features(run.state)
    limit = stats.norm.isf(FALSE_FAILURE_RATE / 2 / len(before))
    wrong = {}
    for name in before:
        moved = after[name] - before[name]
        z = (moved.mean() / (moved.std() / number**0.5)).item()
        if not abs(z) < limit:
            wrong[name] = z
    assert bool(wrong) == (bug is not None), wrong


def _with_stale_potential(state: Any) -> list[Tensor]:
    """The potential is never carried on."""
    return [state.position, state.momentum, state.gradient, torch.zeros_like(state.potential)]
