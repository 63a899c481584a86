"""MNIST: 60,000 training and 10,000 test images of 28 × 28 pixels, handwritten digits.

Reference: Y. LeCun, L. Bottou, Y. Bengio and P. Haffner, Gradient-based learning applied to document recognition, 1998.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ggmc.datasets.dataset import Dataset, image_dataset, image_scale
from ggmc.datasets.files import MIB, as_path, damaged, read_bytes, read_npz
from ggmc.errors import BadInput

MNIST_MEAN = (0.1307,)
"""The mean over all pixels of the 60,000 training images, between 0 and 1."""
MNIST_STD = (0.3081,)
"""The standard deviation over all pixels of the 60,000 training images."""

CLASSES = tuple("0123456789")
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
IMAGES, LABELS = 2051, 2049  # the numbers that such files begin with
LARGEST_FILE = 64 * MIB  # the training images have 45 MiB


def mnist(path: str | Path, *, subset: int | None = None, seed: int = 0) -> Dataset:
    """MNIST, from the four files that its authors publish.

    Args:
        path: A folder with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
            `t10k-labels-idx1-ubyte`, each as it is or with `.gz`. Or an .npz with `x_train`, `x_test` (uint8,
            [examples, 28, 28]), `y_train` and `y_test`.
        subset: How many training images to keep, equally many of each class. Default: all.
        seed: Which images a subset has. Default 0.

    Returns:
        Images as uint8 [examples, 1, 28, 28], labels as int64. `.normalised()` uses the mean and standard deviation of
        the whole training set, `MNIST_MEAN` and `MNIST_STD`, also for a subset.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from ggmc import datasets
        >>> images = np.random.default_rng(0).integers(256, size=(20, 28, 28), dtype=np.uint8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "small.npz"
        ...     np.savez(file, x_train=images, y_train=np.arange(20) % 10, x_test=images, y_test=np.arange(20) % 10)
        ...     datasets.mnist(file)
        Dataset('MNIST', 20 training and 20 test examples of shape (1, 28, 28), 10 classes)
    """
    place = as_path(path)
    if place.is_dir():
        x, y, x_test, y_test = (_idx(_either(place, name), "images" in name) for name in FILES)
    elif place.is_file() and place.suffix == ".npz":
        x, y, x_test, y_test = read_npz(place, ["x_train", "y_train", "x_test", "y_test"])
    else:
        raise BadInput(f"there is no MNIST at {place}: give a folder with {', '.join(FILES)}, or an .npz")
    for images in (x, x_test):
        if images.dtype != np.uint8 or images.shape[1:] not in ((28, 28), (1, 28, 28)):
            what = f"has images of type {images.dtype} and shape {images.shape}"
            raise BadInput(f"{place} {what}: they must be uint8 of shape (examples, 28, 28)")
    arrays = (x.reshape(-1, 1, 28, 28), y, x_test.reshape(-1, 1, 28, 28), y_test)
    return image_dataset(arrays, CLASSES, "MNIST", image_scale(MNIST_MEAN, MNIST_STD), subset, seed)


def _either(folder: Path, name: str) -> Path:
    """A file as it is or packed."""
    for file in (folder / name, folder / f"{name}.gz"):
        if file.exists():
            return file
    raise BadInput(f"{folder} holds neither {name} nor {name}.gz: MNIST needs {', '.join(FILES)}")


def _idx(file: Path, images: bool) -> np.ndarray:
    """The images or labels of a file: its kind and its sizes, four bytes each, then one byte per value."""
    content = read_bytes(file, LARGEST_FILE)
    kind, dimensions = (IMAGES, 3) if images else (LABELS, 1)
    if len(content) < 4 * (1 + dimensions):
        raise damaged(file, f"{len(content)} bytes are too few")
    first, *shape = (int(number) for number in np.frombuffer(content, ">u4", 1 + dimensions))
    if first != kind:
        raise damaged(file, f"it begins with {first}, and {'images' if images else 'labels'} begin with {kind}")
    values = np.frombuffer(content, np.uint8, offset=4 * (1 + dimensions))
    if (images and shape[1:] != [28, 28]) or len(values) != shape[0] * (784 if images else 1):
        raise damaged(file, f"it says to be of shape {tuple(shape)}, and has {len(values)} values")
    return values.reshape(shape)
