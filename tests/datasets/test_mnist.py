"""MNIST from its four files and from .npz."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from ggmc import datasets
from ggmc.datasets import mnist_files
from ggmc.datasets.mnist_files import FILES
from ggmc.errors import BadInput
from tests.support.cifar_files import real


def idx(values: np.ndarray, kind: int | None = None, shape: tuple[int, ...] | None = None) -> bytes:
    shape = values.shape if shape is None else shape
    kind = (2051 if values.ndim == 3 else 2049) if kind is None else kind
    return struct.pack(f">{1 + len(shape)}I", kind, *shape) + values.tobytes()


X = np.random.default_rng(0).integers(256, size=(30, 28, 28), dtype=np.uint8)
Y = np.arange(30, dtype=np.uint8) % 10
GOOD = (idx(X), idx(Y), idx(X[:10]), idx(Y[:10]))


def write(folder: Path, contents: tuple[bytes, ...] = GOOD, packed: bool = False) -> Path:
    for name, content in zip(FILES, contents, strict=True):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def check(data: datasets.Dataset) -> None:
    assert data.x.shape == (30, 1, 28, 28)
    assert (data.x[:, 0].numpy() == X).all()
    assert (data.x_test[:, 0].numpy() == X[:10]).all()
    assert data.y.tolist() == Y.tolist()
    assert data.y_test.tolist() == Y[:10].tolist()
    assert data.classes == tuple("0123456789")


@pytest.mark.parametrize("packed", [False, True])
def test_files(tmp_path: Path, packed: bool) -> None:
    check(datasets.mnist(write(tmp_path, packed=packed)))


@pytest.mark.parametrize("channels", [False, True])
def test_npz(tmp_path: Path, channels: bool) -> None:
    x = X[:, None] if channels else X
    np.savez(tmp_path / "a.npz", x_train=x, y_train=Y, x_test=x[:10], y_test=Y[:10])
    check(datasets.mnist(tmp_path / "a.npz"))


def test_normalised_and_subset(tmp_path: Path) -> None:
    data = datasets.mnist(write(tmp_path), subset=20)
    assert torch.bincount(data.y).tolist() == [2] * 10
    torch.testing.assert_close(data.normalised().x, (data.x / 255 - 0.1307) / 0.3081)


@pytest.mark.parametrize(
    ("number", "content", "words"),
    [
        (0, idx(X, kind=2049), "begins with 2049, and images begin with 2051"),
        (1, idx(Y, kind=2051), "begins with 2051, and labels begin with 2049"),
        (0, b"", "0 bytes are too few"),
        (1, b"\0\0\10", "3 bytes are too few"),
        (0, GOOD[0][:-1], "23519 values"),
        (0, GOOD[0] + b"a", "23521 values"),
        (0, idx(X, shape=(2**32 - 1, 28, 28)), "4294967295"),
        (0, idx(X, shape=(30, 784, 1)), r"\(30, 784, 1\)"),
        (0, idx(X[:0]), "training set of MNIST has 0 images"),
        (1, idx(Y[:9]), "30 images and labels of shape"),
        (3, idx(Y[:10] + 1), "has the label 10"),
    ],
)
def test_other_content(tmp_path: Path, number: int, content: bytes, words: str) -> None:
    contents = list(GOOD)
    contents[number] = content
    for packed in (False, True):
        folder = tmp_path / str(packed)
        folder.mkdir()
        with pytest.raises(BadInput, match=words):
            datasets.mnist(write(folder, tuple(contents), packed))


def test_damaged_gzip_and_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, packed=True) / f"{FILES[2]}.gz"
    whole = file.read_bytes()
    for content in (whole[:-1], whole[:100], b"", b"no gzip", whole[:-8] + bytes(8)):
        file.write_bytes(content)
        with pytest.raises(BadInput, match="damaged"):
            datasets.mnist(tmp_path)
    monkeypatch.setattr(mnist_files, "LARGEST_FILE", 100_000)
    file.write_bytes(gzip.compress(bytes(10**6)))
    with pytest.raises(BadInput, match="more than the 100000 bytes"):
        datasets.mnist(tmp_path)
    (tmp_path / FILES[2]).write_bytes(bytes(10**6))
    with pytest.raises(BadInput, match="at most 100000 are expected"):
        datasets.mnist(tmp_path)


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no MNIST at"):
        datasets.mnist(tmp_path / "nowhere")
    (write(tmp_path) / FILES[1]).unlink()
    with pytest.raises(BadInput, match=r"neither train-labels-idx1-ubyte nor train-labels-idx1-ubyte.gz"):
        datasets.mnist(tmp_path)


def test_npz_of_another_shape(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x_train=X[:, :8], y_train=Y, x_test=X, y_test=Y)
    with pytest.raises(BadInput, match=r"uint8 of shape \(examples, 28, 28\)"):
        datasets.mnist(tmp_path / "a.npz")


def test_real_images() -> None:
    data = datasets.mnist(real("mnist.npz"))
    assert torch.bincount(data.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    x = data.normalised().x
    assert abs(x.mean()) < 1e-3
    assert abs(x.std() - 1) < 1e-3
