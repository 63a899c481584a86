"""Folders from elsewhere: what is not a run's own plain arrays is refused, and nothing is executed or written."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

import ggmc
from ggmc.errors import BadInput
from ggmc.sampling.checkpoint import Checkpoints, from_bytes, to_bytes
from ggmc.trace import zarr_arrays
from tests.support.gaussians import gaussian

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "box" / "run"
    ggmc.sample(gaussian(2), ggmc.HMC(0.5, 2), 10, 5, 2, out=path, progress=False)
    return path


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
    "a thinning of zero": (lambda root: settings(root).update(thin=0), "thin is 0"),
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


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BadInput, match="there is no run in"):
            ggmc.load(path)
        with pytest.raises(BadInput, match="there is no run in"):
            ggmc.resume(path, gaussian(2))
