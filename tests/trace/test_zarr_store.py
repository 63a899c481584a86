"""Draws on disk: as in memory, bit for bit, readable by others, also while they are written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pytest
import torch
import xarray
from torch.distributions import constraints

import ggmc
from ggmc.errors import BadInput
from ggmc.kernels.serialise import checksum
from ggmc.trace.store import Block
from ggmc.trace.zarr_arrays import new_array
from ggmc.trace.zarr_store import ZarrStore
from tests.support.gaussians import gaussian
from tests.support.posteriors import NORMAL, X, Y

F64 = torch.float64
OPTIONS: dict[str, Any] = {"draws": 60, "warmup": 40, "chains": 3, "seed": 2, "progress": False}


def options(**changed: Any) -> dict[str, Any]:
    return OPTIONS | changed


def constrained() -> ggmc.Density:
    def log_prob(p: dict[str, torch.Tensor]) -> torch.Tensor:
        return -(p["mu"] ** 2).sum() / 2 - p["sigma"] + 2 * p["w"].log().sum()

    start = {"mu": torch.zeros(3, dtype=F64), "sigma": torch.ones((), dtype=F64), "w": torch.full((2,), 0.5, dtype=F64)}
    return ggmc.Density(log_prob, start, {"sigma": constraints.positive, "w": constraints.simplex})


def horseshoe() -> ggmc.Posterior:
    torch.manual_seed(0)
    return ggmc.Posterior(torch.nn.Linear(2, 1), "gaussian", ggmc.priors.Horseshoe(), X, Y, vectorise=True)


def net() -> ggmc.Posterior:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    return ggmc.Posterior(module, ggmc.likelihoods.Gaussian(), NORMAL, X, Y, vectorise=True)


@pytest.mark.parametrize("make", [constrained, horseshoe, net])
def test_disk_and_memory_hold_the_same(make: Any, tmp_path: Path) -> None:
    usual = ggmc.sample(make(), **OPTIONS)
    kept = ggmc.sample(make(), **OPTIONS, out=tmp_path / "run")
    for trace in (kept, ggmc.load(tmp_path / "run"), ggmc.load(tmp_path / "run", make())):
        np.testing.assert_array_equal(np.asarray(trace.positions), usual.positions)
        for name, values in usual.draws.items():
            np.testing.assert_array_equal(trace[name], values)
        assert set(trace.stats) == set(usual.stats)
        for name, values in usual.stats.items():
            np.testing.assert_array_equal(trace.stats[name], values)
        assert trace.kernel == usual.kernel
        assert trace.warnings == usual.warnings
        assert (trace.num_chains, trace.num_draws) == (3, 60)


def test_values_that_are_rows_are_stored_once(tmp_path: Path) -> None:
    ggmc.sample(constrained(), **OPTIONS, out=tmp_path / "run")
    names = {group: sorted(p.name for p in (tmp_path / "run" / group).iterdir() if p.is_dir()) for group in GROUPS}
    assert names["posterior"] == ["mu", "sigma", "w"]
    assert names["unconstrained_posterior"] == ["sigma", "w"]


GROUPS = ("posterior", "unconstrained_posterior")


def test_others_read_it_without_this_library(tmp_path: Path) -> None:
    trace = ggmc.sample(constrained(), **OPTIONS, out=tmp_path / "run")
    program = (
        "import sys, xarray; tree = xarray.open_datatree(sys.argv[1], engine='zarr'); "
        "assert 'ggmc' not in sys.modules; "
        "print(tree['posterior']['mu'].dims, float(tree['posterior']['mu'].sum()), tree['sample_stats']['lp'].shape)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.startswith("('chain', 'draw', 'mu_dim_0')")
    assert f"{float(trace['mu'].sum())} (3, 60)" in out


def test_it_can_be_read_while_the_run_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(moment: Any) -> None:
        if moment.warming:
            return
        tree = xarray.open_datatree(tmp_path / "run", engine="zarr")
        drawn = 0 if "posterior" not in tree else tree["posterior"].sizes["draw"]
        if drawn:
            assert tree["sample_stats"].sizes["draw"] == drawn
            assert np.isfinite(tree["posterior"]["mu"].to_numpy()).all()
            assert ggmc.load(tmp_path / "run").num_draws == drawn
            assert arviz.from_datatree(tree)["posterior"]["mu"].shape == (3, drawn, 3)
        seen.append(drawn)

    folder = ggmc.RunFolder(tmp_path / "run", checkpoint_every=0)
    ggmc.sample(constrained(), ggmc.HMC(0.3, 3), 8, 2, 3, out=folder, progress=False, callback=look)
    assert seen == list(range(8))


def test_a_loaded_trace_predicts_as_the_original(tmp_path: Path) -> None:
    trace = ggmc.sample(net(), **OPTIONS, out=tmp_path / "run")
    other = ggmc.load(tmp_path / "run", net())
    np.testing.assert_array_equal(other.predict(X).mean, trace.predict(X).mean)
    assert other.score(X, Y) == trace.score(X, Y)
    np.testing.assert_array_equal(np.asarray(other.log_likelihood()), trace.log_likelihood())


READ_ELSEWHERE = """
import sys
import numpy as np
import ggmc
from tests.support.posteriors import X, Y
from tests.trace.test_zarr_store import net

trace = ggmc.load(sys.argv[1], net())
score = trace.score(X, Y)
scores = {f"score {name}": score[name] for name in score}
np.savez(sys.argv[2], mean=trace.predict(X).mean, rows=trace.positions, **scores)
"""


@pytest.mark.parametrize("saved", [True, False])
def test_another_process_predicts_and_scores_to_the_last_bit(saved: bool, tmp_path: Path) -> None:
    trace = ggmc.sample(net(), **OPTIONS, out=None if saved else tmp_path / "run")
    if saved:
        trace.save(tmp_path / "run")
    command = [sys.executable, "-c", READ_ELSEWHERE, str(tmp_path / "run"), str(tmp_path / "found.npz")]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
    found = np.load(tmp_path / "found.npz")
    np.testing.assert_array_equal(found["mean"], trace.predict(X).mean)
    np.testing.assert_array_equal(found["rows"], np.asarray(trace.positions))
    for name, value in trace.score(X, Y).items():
        np.testing.assert_array_equal(found[f"score {name}"], value)


def test_saved_and_loaded(tmp_path: Path) -> None:
    trace = ggmc.sample(constrained(), **OPTIONS)
    trace.save(tmp_path / "run")
    other = ggmc.load(tmp_path / "run", constrained())
    np.testing.assert_array_equal(np.asarray(other.positions), trace.positions)
    np.testing.assert_array_equal(other["w"], trace["w"])
    assert other.kernel == trace.kernel
    assert other.attributes == trace.attributes
    assert other.warnings == trace.warnings
    with pytest.raises(BadInput, match="is not an empty folder"):
        trace.save(tmp_path / "run")


def test_how_the_draws_were_made_is_saved_with_them(tmp_path: Path) -> None:
    trace = ggmc.sample(constrained(), ggmc.HMC(0.3, 3), **options(draws=8, warmup=2))
    trace.remarks = ["Warm-up moved chain 1."]
    trace.save(tmp_path / "run")
    assert ggmc.load(tmp_path / "run").remarks == trace.remarks


def test_positions_are_read_in_parts(tmp_path: Path) -> None:
    usual = ggmc.sample(constrained(), **OPTIONS).positions
    rows = ggmc.sample(constrained(), **OPTIONS, out=tmp_path / "run").positions
    assert rows.shape == usual.shape
    for key in (
        np.s_[:, -1], np.s_[:, 3:17], np.s_[:, ::7], np.s_[1], np.s_[:, 5, 2], np.s_[:, 10:10], np.s_[:], np.s_[2, 4:9],
        np.s_[:, :, 1],
    ):  # fmt: skip
        np.testing.assert_array_equal(rows[key], usual[key])
    with pytest.raises(IndexError):
        rows[:, 60]
    assert len(rows) == 3


@pytest.mark.parametrize(("precision", "digits"), [("float32", 1e-7), ("bfloat16", 1e-2)])
def test_fewer_digits(precision: str, digits: float, tmp_path: Path) -> None:
    usual = ggmc.sample(constrained(), **OPTIONS)
    folder = ggmc.RunFolder(tmp_path / "run", precision=precision)
    kept = ggmc.sample(constrained(), **OPTIONS, out=folder)
    assert kept.positions.dtype == np.float32
    assert kept["mu"].dtype == np.float32
    assert kept.rows().dtype == F64
    np.testing.assert_allclose(kept["mu"], usual["mu"], rtol=digits, atol=digits)
    if precision == "bfloat16":
        assert (kept["mu"].view(np.uint32) & 0xFFFF == 0).all()
    assert (kept["mu"] != usual["mu"]).any()
    np.testing.assert_array_equal(kept.stats["lp"], usual.stats["lp"])


@pytest.mark.parametrize("thin", [3, 7])
def test_thinned_draws(thin: int, tmp_path: Path) -> None:
    usual = ggmc.sample(constrained(), **OPTIONS)
    kept = ggmc.sample(constrained(), **OPTIONS, out=ggmc.RunFolder(tmp_path / "run", thin=thin))
    np.testing.assert_array_equal(kept["mu"], usual["mu"][:, thin - 1 :: thin])
    longer = ggmc.resume(tmp_path / "run", constrained(), draws=101, progress=False)
    whole = ggmc.sample(constrained(), **options(draws=101))
    np.testing.assert_array_equal(longer["mu"], whole["mu"][:, thin - 1 :: thin])


def test_predictions_only(tmp_path: Path) -> None:
    usual = ggmc.sample(net(), **OPTIONS)
    folder = ggmc.RunFolder(tmp_path / "run", predict_at=X[:5])
    kept = ggmc.sample(net(), **OPTIONS, out=folder)
    expected = net().prediction_features(usual.stacked_rows(), X[:5]).unflatten(0, (3, 60)).numpy()
    np.testing.assert_allclose(kept["prediction"], expected, rtol=1e-12)
    assert not (tmp_path / "run" / "posterior").exists()
    assert kept.num_draws == 60
    assert not any("could not be diagnosed" in warning for warning in kept.warnings)
    with pytest.raises(BadInput, match="keeps predictions only"):
        kept.predict(X)
    with pytest.raises(BadInput, match=r"give its inputs, predict_at, again"):
        ggmc.resume(tmp_path / "run", net(), draws=70, progress=False)
    longer = ggmc.resume(tmp_path / "run", net(), draws=70, predict_at=X[:5], progress=False)
    assert longer["prediction"].shape == (3, 70, 5)


@pytest.mark.parametrize("thin", [1, 4])
def test_predictions_of_thinned_draws_go_on_where_they_were(thin: int, tmp_path: Path) -> None:
    out = ggmc.RunFolder(tmp_path / "run", thin=thin, predict_at=X[:5])
    kernel = ggmc.HMC(0.1, 3)
    ggmc.sample(net(), kernel, **options(draws=22, warmup=0), out=out)
    longer = ggmc.resume(tmp_path / "run", net(), draws=55, predict_at=X[:5], progress=False)
    whole = ggmc.sample(net(), kernel, **options(draws=55, warmup=0))
    expected = net().prediction_features(whole.stacked_rows(), X[:5]).unflatten(0, (3, 55)).numpy()
    np.testing.assert_allclose(longer["prediction"], expected[:, thin - 1 :: thin], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(longer.stats["lp"], whole.stats["lp"][:, thin - 1 :: thin])
    assert longer.num_draws == 55 // thin
    merged = ggmc.load([tmp_path / "run"])
    np.testing.assert_array_equal(merged["prediction"], longer["prediction"])


@pytest.mark.parametrize("thin", [1, 4])
def test_statistics_and_latents_are_thinned_with_their_draws(thin: int, tmp_path: Path) -> None:
    out = ggmc.RunFolder(tmp_path / "run", thin=thin, precision="float32")
    kept = ggmc.sample(horseshoe(), ggmc.HMC(0.01, 2), **options(warmup=0), out=out)
    usual = ggmc.sample(horseshoe(), ggmc.HMC(0.01, 2), **options(warmup=0))
    for name, values in usual.stats.items():
        np.testing.assert_array_equal(kept.stats[name], values[:, thin - 1 :: thin])
    for name, values in usual.draws.items():
        np.testing.assert_array_equal(kept[name], values[:, thin - 1 :: thin].astype(np.float32))
    np.testing.assert_array_equal(np.asarray(kept.positions), usual.positions[:, thin - 1 :: thin].astype(np.float32))


@pytest.mark.parametrize(("chains", "size", "length"), [(2, 5, 1000), (2, 1000, 262), (4, 10**6, 1)])
def test_a_chunk_has_four_mebibytes_or_a_thousand_draws(chains: int, size: int, length: int, tmp_path: Path) -> None:
    array = new_array(tmp_path, "posterior/theta", np.zeros((chains, 0, size)))
    assert array.chunks == (chains, length, size)


def test_a_run_that_keeps_draws_does_not_go_on_with_predictions_only(tmp_path: Path) -> None:
    ggmc.sample(net(), **OPTIONS, out=tmp_path / "run")
    with pytest.raises(BadInput, match="keeps draws, and not predictions only: leave predict_at out"):
        ggmc.resume(tmp_path / "run", net(), draws=70, predict_at=X[:5], progress=False)
    assert ggmc.load(tmp_path / "run").num_draws == 60


def test_what_made_the_run_is_stored(tmp_path: Path) -> None:
    ggmc.sample(constrained(), **OPTIONS, out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "zarr.json").read_text())["attributes"]["ggmc"]
    assert stored["settings"]["seed"] == 2
    assert stored["settings"]["draws"] == 60
    assert stored["kernel"]["scheme"] == "O(BAB)O"
    assert stored["tuned_kernel"]["step_size"] > 0
    assert {"ggmc", "torch", "numpy", "zarr", "python"} <= set(stored["versions"])
    assert len(stored["fingerprint"]["potentials"]) == 3
    assert "git" in stored


def test_blocks_wait_until_they_are_worth_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ggmc.trace import zarr_store

    settings: dict[str, Any] = {"format": 1, "warnings": [], "remarks": [], "attributes": {}, "kernel": {}}
    settings |= {"tuned_kernel": None, "settings": None, "fingerprint": {}}
    store = ZarrStore.create(ggmc.RunFolder(tmp_path / "run"), constrained(), settings, {})
    block = Block(np.zeros((2, 10, 5)), {"lp": np.zeros((2, 10))})
    store.append(block)
    assert ZarrStore.read(tmp_path / "run").num_draws == 0
    monkeypatch.setattr(zarr_store, "BUFFER", 0)
    store.append(block)
    assert ZarrStore.read(tmp_path / "run").num_draws == 20


def test_draws_of_which_readers_could_not_be_told_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"format": 1, "warnings": [], "remarks": [], "attributes": {}, "kernel": {}}
    settings |= {"tuned_kernel": None, "settings": None, "fingerprint": {}}
    store = ZarrStore.create(ggmc.RunFolder(tmp_path / "run"), gaussian(1), settings, {})
    rows = np.arange(10.0).reshape(2, 5, 1)
    store.append(Block(rows, {"lp": rows[..., 0]}))

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("ggmc.trace.zarr_store.write_atomically", full)
        with pytest.raises(OSError, match="No space left"):
            store.commit({}, {})
    assert ZarrStore.read(tmp_path / "run").num_draws == 0
    for more in (10.0, 20.0):
        store.append(Block(rows + more, {"lp": rows[..., 0] + more}))
        store.commit({}, {})
    again, expected = ZarrStore.read(tmp_path / "run"), np.concatenate([rows, rows + 10, rows + 20], 1)
    np.testing.assert_array_equal(np.asarray(again.rows()), expected)
    np.testing.assert_array_equal(again.stats()["lp"], expected[..., 0])


def test_large_tensors_of_every_commit_are_kept(tmp_path: Path) -> None:
    """One of the kernel as it was given, such as an anchor, and the mass that warm-up finds later."""
    given, found = ({checksum(tensor): tensor} for tensor in (torch.ones(3), torch.zeros(4)))
    settings: dict[str, Any] = {"format": 1, "warnings": [], "remarks": [], "attributes": {}, "fingerprint": {}}
    named = [{"large": name} for name in (*given, *found)]
    settings |= {"kernel": {"anchor": named[0]}, "tuned_kernel": {"mass": named[1]}, "settings": None}
    store = ZarrStore.create(ggmc.RunFolder(tmp_path / "run"), constrained(), settings, given)
    store.commit({}, given | found)
    assert set(ZarrStore.read(tmp_path / "run").tensors) == {*given, *found}


@pytest.mark.parametrize("name", ["a/b", "..", "", "__x", ".hidden", "zarr.json", "a\\b"])
def test_names_that_cannot_be_folders_are_refused_before_anything_is_drawn(name: str, tmp_path: Path) -> None:
    target = ggmc.Density(lambda p: -(p[name] ** 2).sum(), {name: torch.zeros(2, dtype=F64)})
    with pytest.raises(BadInput, match="cannot be stored on disk"):
        ggmc.sample(target, draws=5, warmup=5, out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    assert ggmc.sample(target, draws=5, warmup=5, progress=False).num_draws == 5
