"""UCI data in both layouts, with the splits of the literature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc import datasets
from ggmc.errors import BadInput
from tests.support.cifar_files import real

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 3)) * [1, 100, 1e-3] + [0, 2000, 5]
Y = 300 + 20 * RANDOM.normal(size=40)
ROWS = [np.random.default_rng(split).permutation(40) for split in range(3)]


def as_npz(folder: Path, **change: Any) -> Path:
    splits = {f"train_{k}": rows[:36] for k, rows in enumerate(ROWS)} | {
        f"test_{k}": r[36:] for k, r in enumerate(ROWS)
    }
    np.savez(folder / "plane.npz", **{"X": X, "y": Y, **splits, **change})  # pyright: ignore
    return folder


def as_text(folder: Path, **change: Any) -> Path:
    """As in the repository: rows as floats in the index files, the target between the features."""
    data = folder / "plane" / "data"
    data.mkdir(parents=True)
    contents: dict[str, Any] = {
        "data": np.column_stack([X[:, :1], Y, X[:, 1:]]),
        "index_features": np.array([0.0, 2.0, 3.0]),
        "index_target": np.array([1.0]),
        "n_splits": np.array([3]),
    }
    for k, rows in enumerate(ROWS):
        contents |= {f"index_train_{k}": rows[:36].astype(float), f"index_test_{k}": rows[36:].astype(float)}
    for name, values in (contents | change).items():
        if isinstance(values, str):
            (data / f"{name}.txt").write_text(values)
        elif values is not None:
            np.savetxt(data / f"{name}.txt", values)
    return folder


@pytest.mark.parametrize("layout", [as_npz, as_text])
@pytest.mark.parametrize("split", [0, 2])
def test_both_layouts(tmp_path: Path, layout: Any, split: int) -> None:
    data = datasets.uci("plane", layout(tmp_path), split)
    train, test = ROWS[split][:36], ROWS[split][36:]
    for tensor, array in ((data.x, X[train]), (data.y, Y[train]), (data.x_test, X[test]), (data.y_test, Y[test])):
        assert tensor.dtype is torch.float64
        np.testing.assert_allclose(tensor.numpy(), array, rtol=1e-15)
    assert data.classes == ()
    assert data.name == f"plane, split {split}"


def test_standardised_by_the_training_rows(tmp_path: Path) -> None:
    data = datasets.uci("plane", as_npz(tmp_path), split=1)
    given = data.normalised(dtype=torch.float64)
    torch.testing.assert_close(given.x.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-10, rtol=0)
    torch.testing.assert_close(given.x.std(0, correction=0), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(given.x_test, (data.x_test - data.x.mean(0)) / data.x.std(0, correction=0))
    torch.testing.assert_close(given.y_test, (data.y_test - data.y.mean()) / data.y.std(correction=0))
    single = data.normalised()
    assert single.x.dtype is single.y.dtype is torch.float32
    torch.testing.assert_close(single.x.double(), given.x, atol=1e-6, rtol=1e-6)


def test_rmse_in_its_own_units(tmp_path: Path) -> None:
    data = datasets.uci("plane", as_npz(tmp_path))
    given = data.normalised(dtype=torch.float64)
    scale = given.y_scale
    assert scale is not None
    guess = torch.zeros(4, 1, dtype=torch.float64)
    own = ggmc.metrics.rmse(scale.undo(guess)[:, 0], data.y_test)
    assert ggmc.metrics.rmse(guess[:, 0], given.y_test) * scale.std.item() == pytest.approx(own)


def test_a_constant_feature_is_left_at_zero(tmp_path: Path) -> None:
    constant = np.column_stack([X, np.full(40, 0.1)])
    given = datasets.uci("plane", as_npz(tmp_path, X=constant)).normalised()
    assert given.x[:, 3].abs().max() < 1e-12
    assert given.x.isfinite().all()


@pytest.mark.parametrize("layout", [as_npz, as_text])
@pytest.mark.parametrize("split", [3, 20])
def test_splits_that_are_not_there(tmp_path: Path, layout: Any, split: int) -> None:
    with pytest.raises(BadInput, match=f"has no split {split}: it has 0, 1, 2"):
        datasets.uci("plane", layout(tmp_path), split)


@pytest.mark.parametrize("split", [-1, 1.5, "0", True])
def test_splits_that_cannot_be(tmp_path: Path, split: Any) -> None:
    with pytest.raises(BadInput, match="split must be"):
        datasets.uci("plane", as_npz(tmp_path), split)


@pytest.mark.parametrize(
    "name", ["../plane", "/etc/passwd", "", "a/b", "a\\b", "plane\0", ".", "..", "plane.npz", 3, None]
)
def test_names_that_cannot_be(tmp_path: Path, name: Any) -> None:
    with pytest.raises(BadInput, match="name must be that of a data set"):
        datasets.uci(name, as_npz(tmp_path))


def test_names_that_are_not_there(tmp_path: Path) -> None:
    as_text(tmp_path)
    np.savez(tmp_path / "other.npz", X=X)
    with pytest.raises(BadInput, match=r"there is no data set 'yacht' in .*, which holds other, plane"):
        datasets.uci("yacht", tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="which holds nothing"):
        datasets.uci("yacht", tmp_path / "empty")
    with pytest.raises(BadInput, match=r"is not a folder: give the one that holds yacht.npz"):
        datasets.uci("yacht", tmp_path / "nowhere")


def changed(array: np.ndarray, place: Any, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": changed(X, (7, 1), np.nan)}, r"NaN or infinity in row 7 \(1 such rows\)"),
        ({"y": changed(Y, 3, np.inf)}, "NaN or infinity in row 3"),
        ({"y": Y[:-1]}, "one row each is needed"),
        ({"X": X[:, 0]}, "one row each is needed"),
        ({"X": X[:, :0]}, "one row each is needed"),
        ({"train_0": ROWS[0][:37]}, "in training and test"),
        ({"train_0": np.array([0, 1, 1])}, "each occur once"),
        ({"train_0": np.array([0, 40])}, "whole, from 0 to 39, got 40"),
        ({"test_0": np.array([-1])}, "from 0 to 39, got -1"),
        ({"test_0": np.array([0.5])}, "got 0.5"),
        ({"test_0": np.zeros(0, int)}, "must be whole"),
        ({"test_0": np.zeros((2, 2), int)}, "must be whole"),
        ({"X": np.array([["a"]])}, "array of numbers"),
    ],
)
def test_other_content(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        datasets.uci("plane", as_npz(tmp_path, **change))


def test_targets_as_a_column(tmp_path: Path) -> None:
    assert datasets.uci("plane", as_npz(tmp_path, y=Y[:, None])).y.shape == (36,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"data": "1 2 3\n4 five 6\n"},
            "data.txt must hold numbers, one row per line: could not convert string 'five'",
        ),
        ({"data": "1 2 3\n4 5\n"}, "data.txt must hold numbers"),
        ({"data": ""}, "data.txt is empty"),
        ({"data": "\n\n"}, "data.txt is empty"),
        ({"index_features": "0 2 9"}, "features in .* must be whole, from 0 to 3, got 9"),
        ({"index_features": "0 0"}, "features in .* must each occur once"),
        ({"index_features": None}, r"index_features.txt does not exist"),
        ({"index_target": "0 1"}, "names 2 columns: one target is supported"),
        ({"index_test_0": None}, r"index_test_0.txt does not exist"),
        ({"index_test_0": "nan"}, "got nan"),
    ],
)
def test_other_text(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        datasets.uci("plane", as_text(tmp_path, **change))


def test_real_sets() -> None:
    folder = real("uci")
    for name, features, splits in (("yacht", 6, 20), ("concrete", 8, 20), ("protein-tertiary-structure", 9, 5)):
        given = datasets.uci(name, folder, splits - 1).normalised()
        assert given.x.shape[1] == features
        assert len(given.x_test) == pytest.approx(len(given.x) / 9, rel=0.02)
        assert given.x.mean(0).abs().max() < 1e-4
        assert abs(given.y.std() - 1) < 1e-2
        with pytest.raises(BadInput, match=f"no split {splits}"):
            datasets.uci(name, folder, splits)
