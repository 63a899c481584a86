"""sample(): seeds, interruptions, errors that lose nothing, and runs that go on bit for bit."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.chains import BLOCK, Chains

F64 = torch.float64


def gaussian(d: int = 2) -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(d, dtype=F64))


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
        "print('ready', flush=True)\n"
        "trace = ggmc.sample(target, ggmc.MALA(0.5), draws=10**6, warmup=0, progress=False)\n"
        "print('drawn', trace.num_draws, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"ready"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        answer = process.stdout.read().split()
    assert answer[0] == b"drawn"
    assert 0 < int(answer[1]) < 10**6


def test_control_c_with_nothing_drawn_comes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        quick(_stopping(KeyboardInterrupt(), 30), ggmc.MALA(0.5), draws=1000, warmup=100)


def test_an_error_comes_through_with_the_draws_so_far() -> None:
    with pytest.raises(RuntimeError, match="disk on fire") as caught:
        quick(_stopping(RuntimeError("disk on fire"), 200), ggmc.MALA(0.5), draws=1000, warmup=10)
    trace = caught.value.trace  # pyright: ignore[reportAttributeAccessIssue]
    assert 150 < trace.num_draws < 200
    assert "draws per chain made before this" in caught.value.__notes__[0]
    whole = quick(kernel=ggmc.MALA(0.5), draws=trace.num_draws, warmup=10)
    assert np.array_equal(trace["theta"], whole["theta"])


@pytest.mark.parametrize(
    "kernel", [ggmc.GGMC(), ggmc.GGMC(scheme="O(BAB)O", mass="dense"), ggmc.MALA(), ggmc.HMC(0.5, (1, 4))]
)
@pytest.mark.parametrize("after", [0, 3, 33, 60, 99, 100, 130])
def test_a_stored_run_goes_on_bit_for_bit(kernel: Any, after: int) -> None:
    target = gaussian(3)
    chains = Chains(target, kernel, chains=4, warmup=100, seed=7)
    for _ in range(after):
        chains.advance()
    stored = io.BytesIO()
    torch.save(chains.state_dict(), stored)
    stored.seek(0)
    other = Chains(target, kernel, chains=4, warmup=100, seed=99)
    other.load_state_dict(torch.load(stored, weights_only=True))
    for _ in range(150 - after):
        here, there = chains.advance(), other.advance()
        assert torch.equal(here.log_accept, there.log_accept)
    assert torch.equal(chains.state.position, other.state.position)
    assert torch.equal(chains.state.momentum, other.state.momentum)
    assert chains.kernel == other.kernel


def test_after_warm_up_everything_is_frozen() -> None:
    chains = Chains(gaussian(3), ggmc.GGMC(scheme="O(BAB)O"), chains=4, warmup=100, seed=0)
    for _ in range(100):
        chains.advance()
    frozen = chains.kernel
    learnt = {k: v for k, v in chains.warmup.state_dict().items() if k != "paths"}
    for _ in range(50):
        chains.advance()
    assert chains.kernel is frozen
    after = {k: v for k, v in chains.warmup.state_dict().items() if k != "paths"}
    assert str(after) == str(learnt)


def test_blocks_are_handed_out_as_they_fill() -> None:
    chains = Chains(gaussian(), ggmc.MALA(0.5), chains=2, warmup=0, seed=0)
    lengths = []
    for block in chains.blocks(2 * BLOCK + 7):
        lengths.append(block.stats["lp"].shape[1])
        assert chains.drawn == sum(lengths)
    assert lengths == [BLOCK, BLOCK, 7]


def test_progress_shows_acceptance_and_divergences(capsys: pytest.CaptureFixture[str]) -> None:
    quick(progress=True)
    shown = capsys.readouterr().err
    assert "sampling" in shown
    assert "acceptance" in shown
    assert "divergences" in shown
    quick(progress=False)
    assert capsys.readouterr().err == ""


def test_divergences_are_counted_and_do_not_stop_the_chain() -> None:
    def walled(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x[0] > -1, -(x**2).sum() / 2, -torch.inf)

    target = ggmc.Density(walled, torch.zeros(2, dtype=F64), jitter=0.5)
    trace = quick(target, ggmc.HMC(0.8, 3), draws=200)
    assert trace.stats["diverging"].sum() > 10
    assert (trace["theta"][..., 0] > -1).all()
    assert not trace.stats["is_accepted"][trace.stats["diverging"]].any()
    assert any("diverged" in message for message in trace.warnings)


def test_one_chain_works() -> None:
    assert quick(chains=1)["theta"].shape == (1, 30, 2)


def test_a_snapshot_in_memory_stays_what_it_was() -> None:
    target = gaussian(3)
    chains = Chains(target, ggmc.GGMC(), chains=4, warmup=100, seed=7)
    for _ in range(10):
        chains.advance()
    snapshot = chains.state_dict()
    one, two = (Chains(target, ggmc.GGMC(), chains=4, warmup=100, seed=9) for _ in range(2))
    for run in (one, two):  # loaded one after the other has run: neither changes what the other loads
        run.load_state_dict(snapshot)
        for _ in range(110):
            run.advance()
    for _ in range(110):
        chains.advance()
    assert torch.equal(one.state.position, two.state.position)
    assert torch.equal(one.state.position, chains.state.position)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"warmup": 50}, "warmup_iterations 100, but this one has 50"),
        ({"kernel": ggmc.HMC()}, "the stored run has kernel"),
        ({"chains": 3}, r"\[4, 2\], but this one has \[3, 2\]"),
        ({"target": gaussian(3)}, r"\[4, 2\], but this one has \[4, 3\]"),
    ],
)
def test_the_state_of_another_run_is_refused(other: dict[str, Any], why: str) -> None:
    settings = {"target": gaussian(), "kernel": ggmc.GGMC(), "chains": 4, "warmup": 100, "seed": 0}
    stored = Chains(**settings).state_dict()
    with pytest.raises(BadInput, match=why):
        Chains(**(settings | other)).load_state_dict(stored)


def test_a_failed_diagnosis_loses_no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> list[str]:
        raise RuntimeError("no luck")

    monkeypatch.setattr("ggmc.trace.diagnostics.check", fails)
    trace = quick()
    assert trace.num_draws == 30
    assert "no luck" in trace.warnings[0]


def test_numpy_whole_numbers_are_whole_numbers() -> None:
    assert quick(draws=np.int64(7), chains=np.int32(2))["theta"].shape == (2, 7, 2)


def test_a_resumed_run_draws_what_was_missing() -> None:
    one, other = (Chains(gaussian(), ggmc.HMC(0.8, 3), 4, 5, seed) for seed in (0, 1))
    for _ in range(60):
        one.advance()
    other.load_state_dict(one.state_dict())
    assert other.drawn == 55
    assert sum(block.stats["lp"].shape[1] for block in other.blocks(60)) == 5
