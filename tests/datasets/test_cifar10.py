"""CIFAR-10 from every form in which it comes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ggmc
from ggmc import datasets
from ggmc.datasets.cifar import ARCHIVE, BATCHES, FOLDER, TEST
from ggmc.datasets.pickles import read_batch
from ggmc.errors import BadInput
from tests.support.cifar_files import archive, batch, batches, images, real


def unpacked(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, content in batches().items():
        (folder / name).write_bytes(content)
    return folder


def check(data: datasets.Dataset) -> None:
    expected = np.concatenate([images(10, seed) for seed in range(5)])
    assert data.x.dtype is torch.uint8
    assert data.y.dtype is torch.int64
    assert (data.x.numpy() == expected).all()
    assert data.y.tolist() == list(range(10)) * 5
    assert (data.x_test.numpy() == images(10, 5)).all()
    assert data.y_test.tolist() == list(range(10))
    assert data.classes[3] == "cat"
    assert data.name == "CIFAR-10"


def test_the_archive(tmp_path: Path) -> None:
    check(datasets.cifar10(archive(tmp_path / "other-name.tar.gz")))


def test_a_folder_with_the_archive(tmp_path: Path) -> None:
    archive(tmp_path / ARCHIVE)
    check(ggmc.datasets.cifar10(str(tmp_path)))


def test_the_unpacked_folder_and_one_that_holds_it(tmp_path: Path) -> None:
    check(datasets.cifar10(unpacked(tmp_path / FOLDER)))
    check(datasets.cifar10(tmp_path))


def test_what_is_there_is_not_downloaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(tmp_path / ARCHIVE)
    monkeypatch.setattr("urllib.request.urlopen", None)
    check(datasets.cifar10(tmp_path, download=True))


def test_npz(tmp_path: Path) -> None:
    x = np.concatenate([images(10, seed) for seed in range(5)])
    y = np.arange(50, dtype=np.uint8) % 10
    np.savez_compressed(tmp_path / "a.npz", x_train=x, y_train=y, x_test=images(10, 5), y_test=y[:10], other=y)
    check(datasets.cifar10(tmp_path / "a.npz"))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_batches_that_python_3_wrote(protocol: int) -> None:
    x = images(12).reshape(12, 3072)
    content = {b"data": x, b"labels": [1] * 12, b"filenames": [b"a.png", b"b.png"] * 6, b"batch_label": b"one"}
    for found in (content, {key.decode(): value for key, value in content.items()}):
        back, labels = read_batch(pickle.dumps(found, protocol), "a batch")
        assert (back == images(12)).all()
        assert labels.tolist() == [1] * 12


def test_batches_in_the_order_of_columns() -> None:
    x = np.asfortranarray(images(12).reshape(12, 3072))
    assert (read_batch(pickle.dumps({"data": x, "labels": [0] * 12}, 2), "a batch")[0] == images(12)).all()


def test_a_batch_as_large_as_the_real_ones() -> None:
    content = {b"data": np.zeros((10_000, 3072), np.uint8), b"labels": [9] * 10_000, b"filenames": [b"a"] * 10_000}
    assert len(read_batch(pickle.dumps(content, 2), "a batch")[0]) == 10_000


def test_subsets_are_balanced_and_seeded(tmp_path: Path) -> None:
    file = archive(tmp_path / ARCHIVE, each=40)
    some = datasets.cifar10(file, subset=50, seed=1)
    assert torch.bincount(some.y).tolist() == [5] * 10
    assert len(some.x_test) == 40
    assert torch.equal(some.x, datasets.cifar10(file, subset=50, seed=1).x)
    assert not torch.equal(some.x, datasets.cifar10(file, subset=50, seed=2).x)
    uneven = torch.bincount(datasets.cifar10(file, subset=53).y)
    assert sorted(uneven.tolist()) == [5] * 7 + [6] * 3
    everything = datasets.cifar10(file)
    assert torch.equal(datasets.cifar10(file, subset=200).x, everything.x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subset": 60}, "at most 50"),
        ({"subset": 0}, "subset must be"),
        ({"subset": 2.5}, "subset must be"),
        ({"subset": 10, "seed": -1}, "seed must be"),
    ],
)
def test_subsets_that_cannot_be(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        datasets.cifar10(archive(tmp_path / ARCHIVE), **options)


def test_normalised_as_usual(tmp_path: Path) -> None:
    data = datasets.cifar10(archive(tmp_path / ARCHIVE))
    given = data.normalised()
    mean = torch.tensor(datasets.CIFAR10_MEAN)[:, None, None]
    std = torch.tensor(datasets.CIFAR10_STD)[:, None, None]
    for before, after in ((data.x, given.x), (data.x_test, given.x_test)):
        torch.testing.assert_close(after, (before / 255 - mean) / std)
    assert torch.equal(given.y, data.y)
    torch.testing.assert_close(given.x_scale.undo(given.x).round().to(torch.uint8), data.x)
    assert data.normalised(dtype=torch.float64).x.dtype is torch.float64


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        ("nowhere", {}, "download=True"),
        ("nowhere.tar.gz", {"download": True}, "give a folder"),
        ("", {}, "path must be"),
        (3, {}, "path must be"),
        ("a\0b", {}, "path must be"),
    ],
)
def test_paths_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any, options: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=words):
        datasets.cifar10(path, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_batch_that_is_missing(tmp_path: Path) -> None:
    folder = unpacked(tmp_path / FOLDER)
    (folder / BATCHES[2]).unlink()
    with pytest.raises(BadInput, match="data_batch_3 does not exist"):
        datasets.cifar10(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (batch(images(2), [0, 10]), "labels that are not whole numbers from 0 to 9"),
        (batch(images(2), [0]), "2 images and 1 labels"),
        (batch(np.zeros((2, 3, 32, 31), np.uint8), [0, 1]), "rows are of 3072 bytes"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.int32), "labels": [0, 0]}, 2), "not one of bytes"),
        (pickle.dumps({"data": np.zeros(6144, np.uint8), "labels": [0, 0]}, 2), "two dimensions"),
        (pickle.dumps({"data": np.zeros((0, 3072), np.uint8), "labels": []}, 4), "rows are of 3072 bytes"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [True]}, 2), "labels that are not whole"),
        (pickle.dumps({"data": [1], "labels": [1]}, 2), "needs an array 'data'"),
        (pickle.dumps([1, 2], 2), "it is a list"),
        (b"", "is damaged"),
    ],
)
def test_batches_with_other_content(tmp_path: Path, content: bytes, words: str) -> None:
    folder = unpacked(tmp_path / FOLDER)
    (folder / TEST).write_bytes(content)
    with pytest.raises(BadInput, match=words):
        datasets.cifar10(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_train": np.zeros((4, 32, 32, 3), np.uint8)}, r"\(examples, 3, 32, 32\)"),
        ({"x_train": np.zeros((4, 3, 32, 32))}, "must be uint8"),
        ({"y_train": np.array([0, 1, 2, 10])}, "has the label 10: labels are 0 to 9"),
        ({"y_train": np.array([0, 1, 2, -1])}, "has the label -1"),
        ({"y_train": np.zeros(3, int)}, "one whole number for each image"),
        ({"y_test": np.zeros(4)}, "one whole number for each image"),
        ({"y_test": np.array(["a"] * 4)}, "array of numbers"),
        ({"y_test": np.array([None] * 4)}, "array of numbers"),
        ({"x_test": np.zeros((0, 3, 32, 32), np.uint8), "y_test": np.zeros(0, int)}, "the test set"),
    ],
)
def test_npz_with_other_content(tmp_path: Path, change: dict[str, np.ndarray], words: str) -> None:
    x, y = np.zeros((4, 3, 32, 32), np.uint8), np.zeros(4, np.uint8)
    np.savez(tmp_path / "a.npz", **{"x_train": x, "y_train": y, "x_test": x, "y_test": y, **change})  # pyright: ignore
    with pytest.raises(BadInput, match=words):
        datasets.cifar10(tmp_path / "a.npz")


def test_npz_without_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=np.zeros(1), x_held_out=np.zeros(1))
    with pytest.raises(BadInput, match=r"no array 'y_train', only x_held_out, x_train: it needs x_train, y_train"):
        datasets.cifar10(tmp_path / "a.npz")


def test_real_images() -> None:
    data = datasets.cifar10(real("cifar10_20k.npz"))
    assert torch.bincount(data.y).tolist() == [2000] * 10
    assert data.x_test.shape == (1017, 3, 32, 32)
    given = datasets.cifar10(real("cifar10_20k.npz"), subset=5000).normalised()
    assert torch.bincount(given.y).tolist() == [500] * 10
    assert given.x.mean((0, 2, 3)).abs().max() < 0.03
    assert (given.x.std((0, 2, 3)) - 1).abs().max() < 0.03
