"""Runs that are interrupted, extended, damaged or changed, and what resume makes of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import nn
from torch.distributions import constraints

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling import lock
from ggmc.sampling.checkpoint import Checkpoints
from ggmc.trace.zarr_store import ZarrStore
from tests.support.gaussians import gaussian
from tests.support.logistic import logistic
from tests.support.posteriors import NORMAL, X, Y

SHORT: dict[str, Any] = {"draws": 30, "warmup": 20, "chains": 2, "seed": 4, "progress": False}


def short(**changed: Any) -> dict[str, Any]:
    return SHORT | changed


def interrupted(target: Any, kernel: Any, path: Path, after: int, number: int = signal.SIGINT) -> None:
    """A run that a signal stops after so many trajectories."""

    def stop(moment: Any) -> None:
        if moment.iteration == after:
            os.kill(os.getpid(), number)

    ends = pytest.raises(SystemExit) if number == signal.SIGTERM else pytest.raises(KeyboardInterrupt)
    if number == signal.SIGINT and after > SHORT["warmup"]:
        trace = ggmc.sample(target, kernel, **SHORT, out=path, callback=stop)
        assert trace.num_draws == after - SHORT["warmup"]
        return
    with ends:
        ggmc.sample(target, kernel, **SHORT, out=path, callback=stop)


def posterior(views: Any = None) -> ggmc.Posterior:
    torch.manual_seed(0)
    return ggmc.Posterior(nn.Linear(2, 1), "gaussian", NORMAL, X, Y, vectorise=True)


def with_free_views() -> ggmc.Posterior:
    torch.manual_seed(0)
    images, labels = torch.rand(12, 1, 4, 4), torch.randint(2, (12,))
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    views = ggmc.nets.FreeViews(pad=1)
    return ggmc.Posterior(module, "categorical", NORMAL, images, labels, views=views)


def of_images() -> ggmc.Posterior:
    torch.manual_seed(0)
    images, labels = torch.rand(12, 1, 4, 4), torch.randint(2, (12,))
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    return ggmc.Posterior(module, "categorical", NORMAL, images, labels, vectorise=True)


VIEWS = ggmc.nets.GuideViews(pad=1)


def with_dropout() -> ggmc.Posterior:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5), nn.Linear(4, 1)).train()
    return ggmc.Posterior(module, "gaussian", NORMAL, X, Y)


def on_a_simplex() -> ggmc.Density:
    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return 2 * p["w"].log().sum() - p["sigma"]

    start = {"w": torch.full((3,), 1 / 3, dtype=torch.float64), "sigma": torch.ones((), dtype=torch.float64)}
    return ggmc.Density(log_prob, start, {"w": constraints.simplex, "sigma": constraints.positive})


def narrow() -> ggmc.Density:
    """With stiff directions that are no coordinates, for a mass of low rank."""
    return ggmc.Density(lambda x: -(x**2).sum() / 2 - 200 * (x[:4].sum() ** 2 + x[4:].sum() ** 2), torch.zeros(8))


CASES: list[tuple[Any, Any]] = [
    (lambda: gaussian(3), None),
    (lambda: gaussian(3), ggmc.GGMC(0.5, along=ggmc.schedule.Along(ggmc.schedule.Cosine(), either_way=True), steps=3)),
    (lambda: gaussian(3), ggmc.GGMC(0.5, adjust=False, monitor_every=4)),
    (lambda: gaussian(3), ggmc.SGNHT(0.1)),
    (lambda: logistic(120), ggmc.GGMC(guide=ggmc.Minibatch("auto"))),
    (lambda: logistic(120), ggmc.GGMC(guide=ggmc.ControlVariate(30, curvature="dense"))),
    (with_free_views, ggmc.GGMC(0.01, adjust=False)),
    (of_images, ggmc.GGMC(guide=ggmc.Minibatch(4, augment=VIEWS))),
    (of_images, ggmc.GGMC(0.05, steps=4, guide=ggmc.Minibatch(5, "iid", recut=True, augment=VIEWS))),
    (with_dropout, ggmc.SGHMC(0.01, guide=ggmc.Minibatch(4, "epoch"))),
    (on_a_simplex, ggmc.GGMC(mass="dense")),
    (narrow, ggmc.GGMC(mass="low_rank")),
    (lambda: logistic(120), ggmc.GGMC(mass="low_rank", guide=ggmc.Minibatch(30))),
    (lambda: gaussian(3), ggmc.GGMC(0.3, adjust=False, over=ggmc.schedule.Over(7, ggmc.schedule.Cosine(0.2)))),
    (lambda: logistic(120), ggmc.AMAGOLD(0.05, guide=ggmc.Minibatch(30), steps=8)),
    (lambda: logistic(120), ggmc.GGMC(guide=ggmc.Minibatch(30, recut=True), explain=0.3)),
    (posterior, None),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize(("after", "number"), [(7, signal.SIGINT), (33, signal.SIGINT), (28, signal.SIGTERM)])
def test_what_was_interrupted_goes_on_bit_for_bit(case: int, after: int, number: int, tmp_path: Path) -> None:
    make, kernel = CASES[case]
    whole = ggmc.sample(make(), kernel, **SHORT)
    interrupted(make(), kernel, tmp_path / "run", after, number)
    resumed = ggmc.resume(tmp_path / "run", make(), progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)
    for name in whole.stats:
        np.testing.assert_array_equal(resumed.stats[name], whole.stats[name])
    assert resumed.kernel == whole.kernel
    assert resumed.warnings == whole.warnings


def test_a_finished_run_is_extended(tmp_path: Path) -> None:
    ggmc.sample(gaussian(3), **SHORT, out=tmp_path / "run")
    longer = ggmc.resume(tmp_path / "run", gaussian(3), draws=45, progress=False)
    whole = ggmc.sample(gaussian(3), **short(draws=45))
    np.testing.assert_array_equal(np.asarray(longer.positions), whole.positions)
    again = ggmc.resume(tmp_path / "run", gaussian(3), draws=40, progress=False)
    assert again.num_draws == 45


def test_a_run_from_given_starts_goes_on(tmp_path: Path) -> None:
    start = torch.ones(2, 3, dtype=torch.float64)
    whole = ggmc.sample(gaussian(3), **SHORT, start=start)
    ggmc.sample(gaussian(3), **short(draws=10), start=start, out=tmp_path / "run")
    resumed = ggmc.resume(tmp_path / "run", gaussian(3), draws=30, progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)


def test_an_anchor_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = ggmc.GGMC(0.3, steps=3, guide=ggmc.ControlVariate(30))
    ggmc.sample(logistic(120), kernel, **SHORT, out=tmp_path / "run")

    def refuse(target: Any) -> Any:
        raise AssertionError("the anchor was searched for again")

    monkeypatch.setattr("ggmc.guides.control_variate.find_anchor", refuse)
    assert ggmc.resume(tmp_path / "run", logistic(120), draws=35, progress=False).num_draws == 35


# What differs


def test_another_target_is_refused_with_what_differs(tmp_path: Path) -> None:
    ggmc.sample(logistic(120), ggmc.HMC(0.1, 2), **SHORT, out=tmp_path / "run")
    before = np.asarray(ggmc.load(tmp_path / "run").positions)
    with pytest.raises(BadInput, match="its number of examples was 120, is 121"):
        ggmc.resume(tmp_path / "run", logistic(121), draws=40)
    changed = logistic(120)
    other = ggmc.DataDensity(
        lambda w: -(w**2).sum(), changed.log_likelihood, changed.data.slice(0, 120), torch.zeros_like(changed.start)
    )
    with pytest.raises(BadInput, match="its gradient's size at a fixed point was"):
        ggmc.resume(tmp_path / "run", other, draws=40)
    x, y = changed.data.slice(0, 120)
    moved = ggmc.DataDensity(changed.log_prior, changed.log_likelihood, (x.flip(0), y.flip(0)), changed.start)
    with pytest.raises(BadInput, match="the checksum of its data"):
        ggmc.load(tmp_path / "run", moved)
    with pytest.raises(BadInput, match="its tensors was"):
        ggmc.resume(tmp_path / "run", gaussian(2), draws=40)
    np.testing.assert_array_equal(np.asarray(ggmc.load(tmp_path / "run").positions), before)


def test_a_network_that_is_built_anew_is_the_same_target(tmp_path: Path) -> None:
    x, y = torch.randn(30, 2), torch.randint(2, (30,))

    def posterior(seed: int) -> ggmc.Posterior:
        torch.manual_seed(seed)
        return ggmc.Posterior(torch.nn.Linear(2, 2), "categorical", ggmc.priors.Gaussian(1.0), x, y)

    ggmc.sample(posterior(0), ggmc.HMC(0.1, 2), **SHORT, out=tmp_path / "run")
    assert ggmc.resume(tmp_path / "run", posterior(1), draws=35, progress=False).num_draws == 35


def test_another_kernel_is_refused_with_what_differs(tmp_path: Path) -> None:
    ggmc.sample(gaussian(3), ggmc.HMC(0.1, 2), **SHORT, out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"its step_size was 0\.1, is 0\.2"):
        ggmc.resume(tmp_path / "run", gaussian(3), kernel=ggmc.HMC(0.2, 2), draws=40)
    assert ggmc.resume(tmp_path / "run", gaussian(3), kernel=ggmc.HMC(0.1, 2), draws=40, progress=False)


def test_a_large_mass_is_stored_beside_the_settings_and_found_again(tmp_path: Path) -> None:
    size = 20_000
    target = ggmc.Density(lambda x: -(x**2).sum() / 2, torch.zeros(size, dtype=torch.float64))
    given = torch.linspace(1.0, 2.0, size, dtype=torch.float64)
    trace = ggmc.sample(target, ggmc.HMC(0.05, 2, mass=given), **SHORT, out=tmp_path / "run")
    assert (tmp_path / "run" / "zarr.json").stat().st_size < 50_000
    again = ggmc.load(tmp_path / "run")
    assert again.kernel == trace.kernel
    assert torch.equal(again.kernel.mass, given)
    assert ggmc.resume(tmp_path / "run", target, draws=32, progress=False).num_draws == 32
    with pytest.raises(BadInput, match=r"its mass was .*, is "):
        ggmc.resume(tmp_path / "run", target, kernel=ggmc.HMC(0.05, 2, mass=given.flip(0)), draws=40)
    trace.save(tmp_path / "saved")
    assert ggmc.load(tmp_path / "saved").kernel == trace.kernel
    (tmp_path / "run" / "ggmc-tensors.safetensors").unlink()
    assert ggmc.load(tmp_path / "run").kernel.step_size == 0.05  # what is left is read
    with pytest.raises(BadInput, match=r"tensor of shape \[20000\] is not stored with the kernel"):
        ggmc.resume(tmp_path / "run", target, draws=40)


@dataclass(frozen=True, eq=False)
class OwnHMC(ggmc.HMC):
    """A kernel of the user's own."""


def test_a_kernel_of_ones_own_is_given_again(tmp_path: Path) -> None:
    whole = ggmc.sample(gaussian(3), OwnHMC(0.4, 2), **SHORT)
    ggmc.sample(gaussian(3), OwnHMC(0.4, 2), **short(draws=11), out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"Give a kernel of your own to ggmc\.resume"):
        ggmc.resume(tmp_path / "run", gaussian(3))
    resumed = ggmc.resume(tmp_path / "run", gaussian(3), draws=30, kernel=OwnHMC(0.4, 2), progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)
    assert ggmc.load(tmp_path / "run").kernel.step_size == 0.4


# Damage


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    whole = ggmc.sample(gaussian(3), **SHORT)
    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0)
    ggmc.sample(gaussian(3), **short(draws=12), out=folder)
    newest = Checkpoints(tmp_path / "run", 0).files()[-1]
    newest.write_bytes(newest.read_bytes()[:-20])
    resumed = ggmc.resume(tmp_path / "run", gaussian(3), draws=30, progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)
    assert any("could not be read" in warning and newest.name in warning for warning in resumed.warnings)
    for file in Checkpoints(tmp_path / "run", 0).files():
        file.write_bytes(b"nothing")
    with pytest.raises(BadInput, match="no checkpoint that can be read"):
        ggmc.resume(tmp_path / "run", gaussian(3), draws=40)
    assert ggmc.load(tmp_path / "run").num_draws == 30


def chunk(run: Path) -> Path:
    return run / "posterior" / "theta" / "c" / "0" / "0" / "0"


@pytest.mark.parametrize("how", ["cut short", "changed", "missing"])
def test_damaged_draws_are_left_out_and_it_is_said(how: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ggmc.sample(gaussian(3), **SHORT, out=ggmc.RunFolder(run, checkpoint_every=0))
    damage(how, run)
    trace = ggmc.load(run)
    assert "the last 30 are damaged" in trace.warnings[-1]
    with pytest.raises(BadInput, match=r"0 whole draws.*cannot be continued"):
        ggmc.resume(run, gaussian(3), draws=40)


def test_damaged_draws_are_made_again_where_a_checkpoint_is_from_before_them(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ggmc.sample(gaussian(3), **SHORT, out=run)  # its other checkpoint is the one from the beginning
    damage("cut short", run)
    resumed = ggmc.resume(run, gaussian(3), progress=False)
    whole = ggmc.sample(gaussian(3), **SHORT)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)
    assert any("are damaged" in warning for warning in resumed.warnings)


def damage(how: str, run: Path) -> None:
    file = chunk(run)
    content = bytearray(file.read_bytes())
    if how == "missing":
        file.unlink()
    elif how == "cut short":
        file.write_bytes(content[:-30])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)


def test_what_was_written_after_the_last_checkpoint_is_made_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ggmc.sample(gaussian(3), **SHORT, out=run)
    kept = tmp_path / "kept"
    shutil.copytree(run / "checkpoints", kept)
    ggmc.resume(run, gaussian(3), draws=44, progress=False)
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(kept, run / "checkpoints")
    resumed = ggmc.resume(run, gaussian(3), draws=50, progress=False)
    whole = ggmc.sample(gaussian(3), **short(draws=50))
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)


# The folder


def test_two_runs_on_one_folder_are_refused(tmp_path: Path) -> None:
    ggmc.sample(gaussian(3), **SHORT, out=tmp_path / "run")
    with pytest.raises(BadInput, match=r"holds a run already: continue it with ggmc\.resume"):
        ggmc.sample(gaussian(3), **SHORT, out=tmp_path / "run")
    with FileLock(str(tmp_path / "run" / ".lock")), pytest.raises(BadInput, match="another run is writing to"):
        ggmc.resume(tmp_path / "run", gaussian(3), draws=40)
    assert ggmc.load(tmp_path / "run").num_draws == 30


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(BadInput, match="is not an empty folder"):
        ggmc.sample(gaussian(3), **SHORT, out=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"cannot be made|not an empty folder"):
        ggmc.sample(gaussian(3), **SHORT, out=tmp_path / "file")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_checkpoints_of_another_program_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    theirs = tmp_path / "checkpoints" / "epoch=3.ckpt"
    theirs.write_text("a network")
    with pytest.raises(BadInput, match="is not an empty folder"):
        ggmc.sample(gaussian(3), **SHORT, out=tmp_path)
    assert theirs.read_text() == "a network"


def test_what_a_run_left_that_was_killed_before_it_began_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name in (".zarr.json.123.partial", "checkpoints/.0000000000.safetensors.123.partial"):
        (tmp_path / name).write_text("half")
    (tmp_path / "checkpoints" / "0000000000.safetensors").write_text("of a run that never was")
    ggmc.sample(gaussian(3), **SHORT, out=tmp_path)
    assert not list(tmp_path.rglob("*.partial"))
    longer = ggmc.resume(tmp_path, gaussian(3), draws=40, progress=False)
    assert longer.num_draws == 40


def test_a_run_that_cannot_begin_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        ggmc.sample(gaussian(3), **SHORT, start=torch.full((2, 3), torch.nan), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_who_is_refused_the_lock_touches_nothing(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name in (".zarr.json.123.partial", "checkpoints/0000000000.safetensors", "ggmc-tensors.safetensors"):
        (tmp_path / name).write_text("of a run that is being made by another process")
    before = sorted(tmp_path.rglob("*"))
    with FileLock(str(tmp_path / ".lock")), pytest.raises(BadInput, match="another run is writing to"):
        ggmc.sample(gaussian(3), **SHORT, out=tmp_path)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / ".lock"])


def test_a_run_that_was_made_while_the_lock_was_waited_for_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = lock.locked

    def late(path: Path) -> Any:
        monkeypatch.setattr(lock, "locked", usual)
        ggmc.sample(gaussian(3), **SHORT, out=path)  # another process, quicker than this one
        return usual(path)

    monkeypatch.setattr(lock, "locked", late)
    with pytest.raises(BadInput, match="holds a run already"):
        ggmc.sample(gaussian(3), **short(seed=9), out=tmp_path / "run")
    longer = ggmc.resume(tmp_path / "run", gaussian(3), draws=40, progress=False)
    np.testing.assert_array_equal(np.asarray(longer.positions), ggmc.sample(gaussian(3), **short(draws=40)).positions)


def test_links_in_a_new_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "theirs")
    with pytest.raises(BadInput, match="is not an empty folder"):
        ggmc.sample(gaussian(3), **SHORT, out=tmp_path / "run")
    assert not list((tmp_path / "theirs").iterdir())


def test_a_folder_that_is_removed_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    def remove(moment: Any) -> None:
        if moment.iteration == 30:
            shutil.rmtree(tmp_path / "run")

    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0)
    with pytest.raises(FileNotFoundError, match="No such file"):
        ggmc.sample(gaussian(3), **SHORT, out=folder, callback=remove)


@pytest.mark.parametrize("failing", [9, 20, 33, 70])
def test_a_write_that_fails_once_doubles_nothing(failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ggmc.sample(gaussian(3), **SHORT)
    usual, writes = ZarrStore._extend, 0

    def once(self: ZarrStore, group: str, name: str, new: np.ndarray) -> None:
        nonlocal writes
        writes += 1
        if writes == failing:
            raise OSError(28, "No space left on device")
        usual(self, group, name, new)

    monkeypatch.setattr(ZarrStore, "_extend", once)
    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0)
    with pytest.raises(OSError, match="No space left") as error:
        ggmc.sample(gaussian(3), **SHORT, out=folder)
    kept = error.value.trace  # pyright: ignore[reportAttributeAccessIssue]
    for trace in (kept, ggmc.load(tmp_path / "run")):  # what waited was written at the second try
        number = trace.num_draws
        np.testing.assert_array_equal(np.asarray(trace.positions), whole.positions[:, :number])
        np.testing.assert_array_equal(trace.stats["lp"], whole.stats["lp"][:, :number])
    resumed = ggmc.resume(tmp_path / "run", gaussian(3), progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)


def test_a_full_disk_loses_no_more_than_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ggmc.sample(gaussian(3), **SHORT)
    usual, commits = ZarrStore.commit, 0

    def full(self: ZarrStore, settings: Any, tensors: Any) -> None:
        nonlocal commits
        commits += 1
        if commits > 25:
            raise OSError(28, "No space left on device")
        usual(self, settings, tensors)

    monkeypatch.setattr(ZarrStore, "commit", full)
    with pytest.raises(OSError, match="No space left") as error:
        ggmc.sample(gaussian(3), **SHORT, out=ggmc.RunFolder(tmp_path / "run", checkpoint_every=0))
    assert any("ggmc.resume goes on" in note for note in error.value.__notes__)
    monkeypatch.setattr(ZarrStore, "commit", usual)
    resumed = ggmc.resume(tmp_path / "run", gaussian(3), progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)


def test_the_number_of_threads_is_stored_and_used_again(tmp_path: Path) -> None:
    ggmc.sample(gaussian(3), **SHORT, out=tmp_path / "run")
    file = tmp_path / "run" / "zarr.json"
    root = json.loads(file.read_text())
    root["attributes"]["ggmc"]["settings"]["threads"] = 2
    file.write_text(json.dumps(root))
    seen: list[int] = []
    before = torch.get_num_threads()
    ggmc.resume(
        tmp_path / "run", gaussian(3), draws=31, progress=False, callback=lambda m: seen.append(torch.get_num_threads())
    )
    assert seen == [2]
    assert torch.get_num_threads() == before
