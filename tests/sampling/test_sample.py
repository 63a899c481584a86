"""sample(): seeds, settings, interruptions, and errors that lose nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.callbacks import Moment
from ggmc.sampling.run import BLOCK
from ggmc.trace.store import Block, MemoryStore, Store
from tests.support.gaussians import gaussian
from tests.support.posteriors import NORMAL, QUICK, X, Y

F64 = torch.float64


def quick(target: Any = None, kernel: Any = None, **options: Any) -> ggmc.Trace:
    settings = {"draws": 30, "warmup": 40, "chains": 3, "progress": False} | options
    return ggmc.sample(target or gaussian(), kernel, **settings)


def test_the_same_seed_gives_the_same_draws_and_another_seed_others() -> None:
    one, same, other = quick(seed=1), quick(seed=1), quick(seed=2)
    assert np.array_equal(one["theta"], same["theta"])
    assert np.array_equal(one.stats["log_accept"], same.stats["log_accept"])
    assert not np.array_equal(one["theta"], other["theta"])


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    quick()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("draws", [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_exactly_as_many_draws_as_asked_for(draws: int) -> None:
    trace = quick(kernel=ggmc.MALA(0.5), draws=draws, chains=2)
    assert trace["theta"].shape == (2, draws, 2)
    assert all(stat.shape == (2, draws) for stat in trace.stats.values())


@pytest.mark.parametrize("warmup", [0, 7])
def test_a_trace_is_a_loop_by_hand(warmup: int) -> None:
    """Draw by draw across several blocks, after the warm-up and at a temperature that is not 1."""
    kernel, target, draws = ggmc.GGMC(0.9, steps=(1, 3), temperature=0.5), gaussian(), 2 * BLOCK + 7
    trace = quick(target, kernel, warmup=warmup, draws=draws, seed=4)
    generator = torch.Generator().manual_seed(4)
    init, step = kernel.bind(target)
    state = init(target.starts(3, generator), generator)
    for i in range(-warmup, draws):
        state, info = step(state, generator)
        if i < 0:
            continue
        assert np.array_equal(trace["theta"][:, i], state.position.numpy())
        assert state.potential is not None
        assert np.array_equal(trace.stats["lp"][:, i], -state.potential.numpy())
        assert np.array_equal(trace.stats["is_accepted"][:, i], info.accepted.numpy())
        for name in ("log_accept", "energy_error", "work", "diverging"):
            assert np.array_equal(trace.stats[name][:, i], getattr(info, name).numpy()), name
        assert (trace.stats["n_steps"][:, i] == info.steps).all()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"draws": 0}, "draws must be a whole number of at least 1, got 0"),
        ({"chains": 0}, "chains must be a whole number of at least 1, got 0"),
        ({"warmup": -1}, "warmup must be a whole number of at least 0, got -1"),
        ({"draws": 1.5}, "draws must be a whole number"),
        ({"target_accept": 1.0}, "target_accept must lie between 0 and 1"),
        ({"warmup": 0}, "step_size=None is tuned in warm-up, but warmup is 0"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        quick(**options)


def test_what_is_not_a_target_or_a_kernel_is_refused() -> None:
    with pytest.raises(BadInput, match=r"target must be a target such as ggmc\.Density"):
        ggmc.sample(lambda x: x)  # pyright: ignore[reportArgumentType]
    for kernel in (ggmc.HMC, "hmc"):
        with pytest.raises(BadInput, match=r"kernel must be a kernel such as ggmc\.HMC\(\)"):
            ggmc.sample(gaussian(), kernel)  # pyright: ignore[reportArgumentType]


def test_numpy_whole_numbers_are_whole_numbers() -> None:
    assert quick(draws=np.int64(7), chains=np.int32(2))["theta"].shape == (2, 7, 2)


def test_one_chain_works() -> None:
    assert quick(chains=1)["theta"].shape == (1, 30, 2)


def test_a_given_start_is_where_chains_begin() -> None:
    start = torch.full((2, 3), 7.0, dtype=F64)
    trace = ggmc.sample(gaussian(3), ggmc.HMC(1e-6, steps=1), draws=8, warmup=0, chains=2, progress=False, start=start)
    assert abs(trace["theta"] - 7).max() < 1e-3
    for wrong in (torch.zeros(3, 3), torch.zeros(3), [1.0]):
        with pytest.raises(BadInput, match="one for each chain"):
            ggmc.sample(gaussian(3), chains=2, start=wrong)  # pyright: ignore[reportArgumentType]


def test_divergences_are_counted_and_do_not_stop_the_chain() -> None:
    def walled(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x[0] > -1, -(x**2).sum() / 2, -torch.inf)

    target = ggmc.Density(walled, torch.zeros(2, dtype=F64), jitter=0.5)
    trace = quick(target, ggmc.HMC(0.8, 3), draws=200)
    assert trace.stats["diverging"].sum() > 10
    assert (trace["theta"][..., 0] > -1).all()
    assert not trace.stats["is_accepted"][trace.stats["diverging"]].any()
    assert any("diverged" in message for message in trace.warnings)


def test_no_bar_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc import progress

    seen: list[bool] = []
    real = progress.bar
    monkeypatch.setattr(progress, "bar", lambda *a, **k: seen.append(progress._wanted.get()) or real(*a, **k))
    ggmc.sample(ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y), **QUICK)
    assert not any(seen)


class _Stops:
    """A target that raises after some evaluations."""

    def __init__(self, error: BaseException, after: int):
        self.error, self.left = error, after

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return -(x**2).sum() / 2


def _stopping(error: BaseException, after: int) -> ggmc.Density:
    return ggmc.Density(_Stops(error, after), torch.zeros(2, dtype=F64))


@pytest.mark.usefixtures("unrecorded")
def test_control_c_returns_what_was_drawn(caplog: pytest.LogCaptureFixture) -> None:
    trace = quick(_stopping(KeyboardInterrupt(), 200), ggmc.MALA(0.5), draws=1000, warmup=10)
    assert 150 < trace.num_draws < 200
    assert "Interrupted" in caplog.text
    whole = quick(kernel=ggmc.MALA(0.5), draws=trace.num_draws, warmup=10)
    assert np.array_equal(trace["theta"], whole["theta"])


def test_a_real_control_c_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(
        "import signal, torch, ggmc\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it\n"
        "target = ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2, dtype=torch.float64))\n"
        "def tell(moment):\n"
        "    if moment.iteration == 60:  # some draws have been made\n"
        "        print('ready', flush=True)\n"
        "trace = ggmc.sample(target, ggmc.MALA(0.5), draws=10**6, warmup=0, progress=False, callback=tell)\n"
        "print('drawn', trace.num_draws, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        process.send_signal(signal.SIGINT)
        answer = process.stdout.read().split()
    assert answer[0] == b"drawn"
    assert 0 < int(answer[1]) < 10**6


def test_control_c_with_nothing_drawn_comes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        quick(_stopping(KeyboardInterrupt(), 30), ggmc.MALA(0.5), draws=1000, warmup=100)


@pytest.mark.usefixtures("unrecorded")
def test_an_error_comes_through_with_the_draws_so_far() -> None:
    with pytest.raises(RuntimeError, match="disk on fire") as caught:
        quick(_stopping(RuntimeError("disk on fire"), 200), ggmc.MALA(0.5), draws=1000, warmup=10)
    trace = caught.value.trace  # pyright: ignore[reportAttributeAccessIssue]
    assert 150 < trace.num_draws < 200
    assert "draws per chain made before this" in caught.value.__notes__[0]
    whole = quick(kernel=ggmc.MALA(0.5), draws=trace.num_draws, warmup=10)
    assert np.array_equal(trace["theta"], whole["theta"])


def test_a_failed_diagnosis_loses_no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> list[str]:
        raise RuntimeError("no luck")

    monkeypatch.setattr("ggmc.trace.diagnostics.check", fails)
    trace = quick()
    assert trace.num_draws == 30
    assert "no luck" in trace.warnings[0]


def test_an_error_from_a_callback_comes_through_with_the_draws_so_far() -> None:
    def fail(moment: Moment) -> None:
        if moment.iteration == 10 + BLOCK + 7:
            raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk") as caught:
        quick(kernel=ggmc.MALA(0.5), draws=1000, warmup=10, callback=fail)
    trace = caught.value.trace  # pyright: ignore[reportAttributeAccessIssue]
    assert trace.num_draws == BLOCK + 7  # the draw that the callback failed on is one of them
    whole = quick(kernel=ggmc.MALA(0.5), draws=BLOCK + 7, warmup=10)
    assert np.array_equal(trace["theta"], whole["theta"])


def test_an_error_in_warm_up_has_no_trace() -> None:
    def fail(moment: Moment) -> None:
        raise RuntimeError("no disk")

    with pytest.raises(RuntimeError, match="no disk") as caught:
        quick(callback=fail)
    assert "trace" not in vars(caught.value)
    assert "__notes__" not in vars(caught.value)


class _Full(Store):
    """A store that keeps some blocks and then fails."""

    def __init__(self, room: int, error: BaseException):
        self.memory, self.room, self.error = MemoryStore(), room, error

    def append(self, block: Block) -> None:
        if self.room == 0:
            raise self.error
        self.room -= 1
        self.memory.append(block)

    def rows(self) -> np.ndarray:
        return self.memory.rows()

    def stats(self) -> dict[str, np.ndarray]:
        return self.memory.stats()


def test_a_store_that_fails_loses_nothing_silently() -> None:
    with pytest.raises(OSError, match="no space left") as caught:
        quick(kernel=ggmc.MALA(0.5), draws=1000, store=_Full(2, OSError("no space left")))
    trace = caught.value.trace  # pyright: ignore[reportAttributeAccessIssue]
    assert trace.num_draws == 2 * BLOCK
    notes = " ".join(caught.value.__notes__)
    assert f"The {2 * BLOCK} draws per chain made before this" in notes
    assert f"did not keep the last {BLOCK} of {3 * BLOCK} draws" in notes


def test_a_store_that_fails_at_once_says_that_all_is_lost() -> None:
    with pytest.raises(OSError, match="no space left") as caught:
        quick(kernel=ggmc.MALA(0.5), draws=1000, store=_Full(0, OSError("no space left")))
    assert "trace" not in vars(caught.value)
    assert f"did not keep the last {BLOCK} of {BLOCK} draws" in " ".join(caught.value.__notes__)


def test_control_c_inside_the_store_returns_what_it_kept(caplog: pytest.LogCaptureFixture) -> None:
    trace = quick(kernel=ggmc.MALA(0.5), draws=1000, store=_Full(1, KeyboardInterrupt()))
    assert trace.num_draws == BLOCK
    assert f"returning the {BLOCK} draws per chain made so far, of 1000" in caplog.text


# Going on from another run


@pytest.mark.parametrize(
    "kernel", [ggmc.HMC(0.8, 3), ggmc.SGHMC(0.1, steps=3), ggmc.GGMC()], ids=lambda k: type(k).__name__
)
def test_going_on_with_the_default_seed_does_not_repeat_the_draws(kernel: Any) -> None:
    first = quick(kernel=kernel, draws=100)
    second = quick(kernel=kernel, draws=100, start=first.rows()[:, -1])
    third = quick(kernel=kernel, draws=100, start=second.rows()[:, -1])
    # The noise itself is not repeated, at the same place in the run or shifted.
    runs = [trace.stats["kinetic_temperature"] for trace in (first, second, third)]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert not np.isin(runs[one], runs[other]).any()
        correlation = np.corrcoef(runs[one].ravel(), runs[other].ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(runs[0].size / 10)


def test_the_same_start_and_seed_give_the_same_draws_and_others_do_not() -> None:
    start = torch.ones(3, 2, dtype=F64)
    one, same, other = (quick(start=start, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one.positions, same.positions)
    assert not np.array_equal(one.positions, other.positions)
    assert one.attributes["seed"] == 5
    moved = quick(start=start + 1e-9, seed=5)
    assert not np.isclose(one.positions, moved.positions).all()


# What is said of a hopeless step


@pytest.mark.parametrize("kernel", [ggmc.HMC(10.0, steps=5), ggmc.GGMC(10.0), ggmc.MALA(10.0)])
def test_a_far_too_long_step_is_named_plainly(kernel: Any) -> None:
    trace = quick(gaussian(20), kernel, draws=100)
    assert len(trace.warnings) >= 1
    said = trace.warnings[0]
    assert "No trajectory was accepted" in said or "diverged" in said
    assert "h = 10 is far too long" in said
    assert not any("target_accept" in message or "nan" in message for message in trace.warnings)


def test_what_is_stored_with_the_draws(tmp_path: Path) -> None:
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(2))
    out = ggmc.RunFolder(tmp_path / "run", attributes={"seed": 99, "label": "mine"})
    before = datetime.now(UTC)
    trace = ggmc.sample(target, ggmc.HMC(0.5, 2), draws=3, warmup=7, chains=2, seed=5, out=out, progress=False)
    for found in (trace.attributes, ggmc.load(tmp_path / "run").attributes):
        assert (found["seed"], found["tuning_steps"], found["dtype"]) == (5, 7, "float32")
        assert found["label"] == "mine"
        assert before <= datetime.fromisoformat(found["created_at"]) <= datetime.now(UTC)
        assert 0 < found["sampling_time"] < 60


def test_a_thinning_that_would_keep_nothing_is_refused(tmp_path: Path) -> None:
    for thin, draws in ((4, 3), (4, 4)):
        out = ggmc.RunFolder(tmp_path / str(draws), thin=thin)
        if thin > draws:
            with pytest.raises(BadInput, match="thin=4 would keep none of 3 draws"):
                ggmc.sample(gaussian(), ggmc.HMC(0.5, 2), draws, 0, out=out, progress=False)
        else:
            assert ggmc.sample(gaussian(), ggmc.HMC(0.5, 2), draws, 0, out=out, progress=False).num_draws == 1
