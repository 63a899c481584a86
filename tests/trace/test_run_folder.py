"""Folders from elsewhere: what is not a run's own plain arrays is refused, and nothing is executed or written."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import torch
from numcodecs.zstd import Zstd
from safetensors.torch import save

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.checkpoint import Checkpoints, from_bytes, to_bytes
from ggmc.trace import lazy_arrays, zarr_arrays
from tests.support.gaussians import gaussian

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    ggmc.sample(gaussian(2), ggmc.HMC(0.5, 2), 10, 5, 2, out=path, progress=False)
    return path


@pytest.fixture
def run(whole_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole_run, tmp_path / "box" / "run")


def change(run: Path, how: Change) -> None:
    file = run / "zarr.json"
    root = json.loads(file.read_text())
    how(root)
    file.write_text(json.dumps(root))


def nodes(root: dict[str, Any]) -> dict[str, Any]:
    return root["consolidated_metadata"]["metadata"]


def theta(root: dict[str, Any]) -> dict[str, Any]:
    return nodes(root)["posterior/theta"]


def settings(root: dict[str, Any]) -> dict[str, Any]:
    return root["attributes"]["ggmc"]


MALICIOUS: dict[str, tuple[Change, str]] = {
    "a path out of the folder": (
        lambda root: nodes(root).update({"posterior/../../../secret": theta(root)}),
        "which no run of ggmc has",
    ),
    "an absolute path": (lambda root: nodes(root).update({"/etc/passwd": theta(root)}), "which no run of ggmc has"),
    "a name of dots": (lambda root: nodes(root).update({"posterior/..": theta(root)}), "cannot be stored"),
    "a group of another kind": (lambda root: nodes(root).update({"code/theta": theta(root)}), "no run of ggmc has"),
    "a parameter named as a path": (lambda root: settings(root)["layout"].update({"../x": [2]}), "cannot be stored"),
    "python objects": (lambda root: theta(root).update(data_type="object"), "which ggmc never writes"),
    "a codec that unpickles": (
        lambda root: theta(root)["codecs"].append({"name": "numcodecs.pickle"}),
        "which ggmc never writes",
    ),
    "zarr 2": (lambda root: theta(root).update(zarr_format=2), "which ggmc never writes"),
    "an absurd chunk": (
        lambda root: theta(root)["chunk_grid"]["configuration"].update(chunk_shape=[2, 10**12, 2]),
        "larger than any",
    ),
    "an absurd shape": (lambda root: theta(root).update(shape=[2, 10, 10**15]), "which ggmc never writes"),
    "a negative shape": (lambda root: theta(root).update(shape=[2, -10, 2]), "has the shape"),
    "a shape that is text": (lambda root: theta(root).update(shape="many"), "has the shape"),
    "another number of draws": (lambda root: theta(root).update(shape=[2, 11, 2]), "different numbers of draws"),
    "another format": (lambda root: settings(root).update(format=99), "is of format 99"),
    "no settings": (lambda root: root["attributes"].clear(), "does not describe a run"),
    "settings that are a list": (lambda root: root["attributes"].update(ggmc=[1]), "does not describe a run"),
    "other chunk names": (
        lambda root: theta(root)["chunk_key_encoding"].update(name="v2"),
        "where ggmc never writes them",
    ),
    "no compression": (lambda root: theta(root)["codecs"].pop(1), "which ggmc never writes"),
    "a fill value of text": (lambda root: theta(root).update(fill_value="x"), "does not describe a run"),
    "a layout that is absurd": (lambda root: settings(root)["layout"].update(theta=[10**15]), "the layout gives"),
    "a layout beyond the arrays": (lambda root: settings(root)["layout"].update(b=[2]), "posterior/b is missing"),
    "a layout of other shapes": (lambda root: settings(root)["layout"].update(theta=[3]), "has the shape"),
    "a kernel that is text": (lambda root: settings(root).update(kernel="HMC"), "its kernel is HMC"),
    "no kernel": (lambda root: settings(root).pop("kernel"), "does not describe a run"),
    "warnings that are numbers": (lambda root: settings(root).update(warnings=[1]), "its warnings is"),
    "a fingerprint of text": (
        lambda root: settings(root)["fingerprint"].update(potentials=["x"]),
        "its fingerprint is",
    ),
    "a thinning of zero": (lambda root: settings(root).update(thin=0), "its thin is 0"),
}


@pytest.mark.parametrize("kind", MALICIOUS)
def test_what_no_run_would_hold_is_refused(kind: str, run: Path) -> None:
    how, why = MALICIOUS[kind]
    (run.parents[1] / "secret").mkdir()
    change(run, how)
    before = sorted(run.parents[1].rglob("*"))
    with pytest.raises(BadInput, match=why):
        ggmc.load(run)
    with pytest.raises(BadInput, match=why):
        ggmc.resume(run, gaussian(2), draws=20)
    assert sorted(run.parents[1].rglob("*")) == before


def test_as_many_draws_as_are_claimed_must_be_there(run: Path) -> None:
    def claim(root: dict[str, Any]) -> None:
        for node in nodes(root).values():
            if node["node_type"] == "array":
                node["shape"][1] = 10**15

    change(run, claim)
    trace = ggmc.load(run)
    assert "are damaged" in trace.warnings[-1]
    assert trace.num_draws <= 1000


def test_a_damaged_chunk_that_is_full_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zarr_arrays, "LONGEST_CHUNK", 4)
    path = tmp_path / "run"
    whole = ggmc.sample(gaussian(2), ggmc.HMC(0.5, 2), 12, 5, 2, out=path, progress=False)  # three chunks, all full
    first = np.asarray(whole.positions[:, :8])
    last = path / "posterior" / "theta" / "c" / "0" / "2" / "0"
    last.write_bytes(last.read_bytes()[:-10])
    trace = ggmc.load(path)
    assert "the last 4 are damaged" in trace.warnings[-1]
    np.testing.assert_array_equal(np.asarray(trace.positions), first)


@pytest.mark.parametrize("where", ["posterior/theta/c/0/0/0", "posterior", "checkpoints"])
def test_links_are_refused(where: str, run: Path) -> None:
    place = run / where
    elsewhere = run.parent / "elsewhere"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    with pytest.raises(BadInput, match="is a link"):
        ggmc.load(run)


class Payload:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("executed"),)


def test_a_pickle_in_place_of_a_checkpoint_is_not_executed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in Checkpoints(run, 0).files():
        file.write_bytes(pickle.dumps(Payload()))
    with pytest.raises(BadInput, match="no checkpoint that can be read"):
        ggmc.resume(run, gaussian(2), draws=20)
    torch.save({"a": Payload()}, Checkpoints(run, 0).files()[0])
    with pytest.raises(BadInput, match="no checkpoint that can be read"):
        ggmc.resume(run, gaussian(2), draws=20)
    assert not (tmp_path / "executed").exists()


def test_checkpoints_that_are_not_whole_are_refused() -> None:
    content = to_bytes({"a": torch.arange(5), "b": [None, float("inf"), "text"], "c": {"d": torch.zeros(0)}})
    state = from_bytes(content)
    assert state["b"] == [None, float("inf"), "text"]
    assert torch.equal(state["a"], torch.arange(5))
    for cut in range(0, len(content), 7):
        with pytest.raises(BadInput):
            from_bytes(content[:cut])
    for place in range(len(content) - 40, len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        with pytest.raises(BadInput):
            from_bytes(bytes(changed))
    for other in (b"", b"\xff" * 100, save({"a": torch.zeros(2)}), save({}, {"ggmc": "1", "state": "{}"})):
        with pytest.raises(BadInput):
            from_bytes(other)


def test_json_that_is_nested_without_end(run: Path) -> None:
    file = run / "zarr.json"
    file.write_text(file.read_text()[:-1] + ', "x": ' + "[" * 10**5 + "]" * 10**5 + "}")
    with pytest.raises(BadInput, match="does not describe a run"):
        ggmc.load(run)


PLACES = ("zarr.json", "posterior/zarr.json", "posterior/theta/zarr.json", "posterior/theta/c/0/0/0", ".zgroup",
          "ggmc-tensors.safetensors", "checkpoints/0000000001.safetensors", ".lock")  # fmt: skip


@pytest.mark.parametrize("where", PLACES)
def test_pipes_are_refused_and_not_waited_for(where: str, run: Path) -> None:
    (run / where).unlink(missing_ok=True)
    os.mkfifo(run / where)
    for use in (ggmc.load, lambda path: ggmc.resume(path, gaussian(2), draws=20, progress=False)):
        with pytest.raises(BadInput, match=r"neither a file nor a folder|there is no run in"):
            use(run)


def own_node(run: Path, changed: dict[str, Any]) -> None:
    file = run / "posterior" / "theta" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": [2, 10, 3]},
        {"shape": [2, 10, 10**15]},
        {"data_type": "float32"},
        {"fill_value": "x"},
        {"codecs": [{"name": "numcodecs.pickle"}]},
        {"node_type": "group"},
        {"zarr_format": 2},
    ],
    ids=str,
)
def test_what_an_array_says_of_itself_is_not_relied_on(changed: dict[str, Any], run: Path) -> None:
    own_node(run, changed)
    resumed = ggmc.resume(run, gaussian(2), draws=20, progress=False)
    whole = ggmc.sample(gaussian(2), ggmc.HMC(0.5, 2), 20, 5, 2, progress=False)
    np.testing.assert_array_equal(np.asarray(resumed.positions), whole.positions)
    np.testing.assert_array_equal(np.asarray(ggmc.load(run).positions), whole.positions)


def test_a_chunk_that_unpacks_to_more_than_it_should_is_not_unpacked(run: Path) -> None:
    chunk = run / "posterior" / "theta" / "c" / "0" / "0" / "0"
    frame = b"\x28\xb5\x2f\xfd\xe0" + (2**45).to_bytes(8, "little") + b"\x01\x00\x00" * 4
    chunk.write_bytes(frame + google_crc32c.value(frame).to_bytes(4, "little"))
    assert "the last 10 are damaged" in ggmc.load(run).warnings[-1]
    with chunk.open("wb") as file:
        file.truncate(2**40)
    assert "the last 10 are damaged" in ggmc.load(run).warnings[-1]


def test_a_chunk_that_is_gone_is_not_read_as_zeros(run: Path) -> None:
    trace = ggmc.load(run)
    (run / "posterior" / "theta" / "c" / "0" / "0" / "0").unlink()
    with pytest.raises(BadInput, match=r"draws 0 to 10 of posterior/theta .* are damaged"):
        trace["theta"]


def test_files_that_claim_to_be_huge_are_not_read_into_memory(run: Path) -> None:
    newest = Checkpoints(run, 0).files()[-1]
    for place in (run / "ggmc-tensors.safetensors", newest):
        with place.open("wb") as file:
            file.truncate(2**40)
    assert ggmc.load(run).num_draws == 10
    resumed = ggmc.resume(run, gaussian(2), draws=12, progress=False)
    assert any(f"The checkpoint {newest.name} could not be read" in warning for warning in resumed.warnings)


KERNELS: list[dict[str, Any]] = [
    {"kernel": "os.system", "command": "touch executed"},
    {"kernel": ["HMC"]},
    {"kernel": "HMC", "no_such_setting": 1},
    {"kernel": "HMC", "step_size": {"type": "os.system"}},
    {"kernel": "HMC", "step_size": 0.5, "mass": {"tensor": [1.0, 1.0], "dtype": "Tensor"}},
    {"kernel": "HMC", "step_size": 0.5, "mass": {"tensor": [[1.0], 1.0], "dtype": "float64"}},
    {"kernel": "HMC", "step_size": 0.5, "mass": {"large": [1]}},
    {"kernel": "GGMC", "step_size": 0.5, "guide": {"type": "Surrogate", "log_prob": "os.system"}},
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_that_are_none_are_shown_and_not_made(kernel: dict[str, Any], run: Path) -> None:
    change(run, lambda root: settings(root).update(kernel=kernel, tuned_kernel=None))
    assert str(ggmc.load(run).kernel)
    with pytest.raises(BadInput):
        ggmc.resume(run, gaussian(2), draws=20)


@pytest.mark.parametrize(
    ("name", "value"),
    [("threads", 10**9), ("threads", 0), ("chains", "two"), ("draws", -1), ("checkpoint_every", -1.0), ("split", "x"),
     ("seed", None), ("part", [3]), ("ranks", "x"), ("target_accept", 7)],
)  # fmt: skip
def test_arguments_that_no_run_had(name: str, value: Any, run: Path) -> None:
    change(run, lambda root: settings(root)["settings"].update({name: value}))
    with pytest.raises(BadInput, match="does not say how its run was made"):
        ggmc.resume(run, gaussian(2), draws=20)


def rewrite(run: Path, how: Callable[[dict[str, Any]], object]) -> None:
    """Change the checkpoints, checksum included."""
    for file in Checkpoints(run, 0).files():
        state = from_bytes(file.read_bytes())
        how(state["states"][0])
        file.write_bytes(to_bytes(state))


def position(state: dict[str, Any]) -> dict[str, Any]:
    return state["chains"]["state"]


OTHERS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "more chains": (lambda s: position(s).update(position=torch.zeros(3, 2)), r"\[chains, parameters\] \[3, 2\]"),
    "a momentum of others": (lambda s: position(s).update(momentum=torch.zeros(2, 3)), "its momentum is"),
    "fewer digits": (lambda s: position(s).update(position=torch.zeros(2, 2)), "its position is torch.float32"),
    "potentials that are text": (lambda s: position(s).update(potential="low"), "its potential is str"),
    "no momentum": (lambda s: position(s).pop("momentum"), "KeyError: 'momentum'"),
    "no chains": (lambda s: s.pop("chains"), "KeyError: 'chains'"),
    "no draws": (lambda s: s.pop("drawn"), "does not say after how many draws"),
    "draws below zero": (lambda s: s.update(drawn=-1), "does not say after how many draws"),
    "other draws": (lambda s: s["chains"].update(drawn=1), "its chains have 1 draws"),
    "a generator of another kind": (lambda s: s["chains"].update(generator=torch.zeros(3)), "its generator is"),
    "a mass of others": (lambda s: s["chains"]["warmup"].update(mass=torch.ones(5)), "its mass is"),
    "a mass of low rank of others": (
        lambda s: s["chains"]["warmup"].update(mass={"diagonal": torch.ones(5, dtype=torch.float64)}),
        "its mass is torch.float64 .5., but",
    ),
    "an unfinished warm-up": (lambda s: s["chains"]["warmup"].update(iteration=2), "trajectories of warm-up"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_whole_checkpoint_that_does_not_fit_is_refused(kind: str, run: Path) -> None:
    how, why = OTHERS[kind]
    Checkpoints(run, 0).files()[0].unlink()  # from before the first draw
    rewrite(run, how)
    with pytest.raises(BadInput, match=why):
        ggmc.resume(run, gaussian(2), draws=20)
    assert ggmc.load(run).num_draws == 10


@pytest.mark.parametrize("size", [1, 8, 255, 256, 257, 2000, 65_791, 65_792, 1_000_000])
def test_a_chunk_says_how_long_it_is(size: int) -> None:
    for content in (bytes(size), bytes(i % 251 for i in range(size))):
        packed = bytes(Zstd(level=1).encode(content))
        assert lazy_arrays._unpacked_size(packed[: lazy_arrays.LONGEST_HEADER]) == size


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput, match="there is no run in"):
            ggmc.load(path)
        with pytest.raises(BadInput, match="there is no run in"):
            ggmc.resume(path, gaussian(2))
