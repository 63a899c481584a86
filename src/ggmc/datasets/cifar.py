"""CIFAR-10: 50,000 training and 10,000 test images of 32 × 32 pixels in ten classes.

Reference: A. Krizhevsky, Learning multiple layers of features from tiny images, 2009.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ggmc.datasets.archive import read_members
from ggmc.datasets.dataset import Dataset, image_dataset, image_scale
from ggmc.datasets.download import fetch
from ggmc.datasets.files import MIB, as_path, read_bytes, read_npz
from ggmc.datasets.pickles import read_batch
from ggmc.errors import BadInput
from ggmc.progress import wanted as bars_wanted

CIFAR10_MEAN = (0.49140, 0.48216, 0.44653)
"""The mean of red, green and blue over all 50,000 training images, between 0 and 1."""
CIFAR10_STD = (0.24703, 0.24349, 0.26159)
"""The standard deviation of red, green and blue over all pixels of the 50,000 training images."""

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
ARCHIVE = "cifar-10-python.tar.gz"
FOLDER = "cifar-10-batches-py"
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"
LARGEST_BATCH = 64 * MIB  # a batch has 30 MiB
LARGEST_DOWNLOAD = 256 * MIB  # the archive has 163 MiB


def cifar10(
    path: str | Path, *, download: bool = False, subset: int | None = None, seed: int = 0, progress: bool = True
) -> Dataset:
    """CIFAR-10, from the archive that its authors publish.

    Args:
        path: `cifar-10-python.tar.gz`, the folder `cifar-10-batches-py` that it unpacks to, or a folder that holds one
            of them. Or an .npz with `x_train`, `x_test` (uint8, [examples, 3, 32, 32]), `y_train` and `y_test`.
        download: If the folder `path` holds neither, fetch the archive (163 MiB) into it. It is kept only if its
            SHA-256 is right. Default False.
        subset: How many training images to keep, equally many of each class. Default: all.
        seed: Which images a subset has. Default 0.
        progress: Whether a download shows a progress bar. Default True.

    Returns:
        Images as uint8, labels as int64. `.normalised()` uses the channels' means and standard deviations over the
        whole training set, `CIFAR10_MEAN` and `CIFAR10_STD`, also for a subset.

    Example:
        >>> import pathlib, tempfile
        >>> import numpy as np
        >>> from ggmc import datasets
        >>> random = np.random.default_rng(0)
        >>> images = random.integers(256, size=(40, 3, 32, 32), dtype=np.uint8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder) / "small.npz"
        ...     np.savez(file, x_train=images, y_train=np.arange(40) % 10, x_test=images, y_test=np.arange(40) % 10)
        ...     data = datasets.cifar10(file, subset=20)
        >>> data
        Dataset('CIFAR-10', 20 training and 40 test examples of shape (3, 32, 32), 10 classes)
        >>> data.classes[int(data.y[0])], data.normalised().x.dtype
        ('airplane', torch.float32)
    """
    place = as_path(path)
    if not place.is_file():
        place = _found_in(place, download, progress)
    if place.suffix == ".npz":
        arrays = read_npz(place, ["x_train", "y_train", "x_test", "y_test"])
        for name, images in (("x_train", arrays[0]), ("x_test", arrays[2])):
            if images.dtype != np.uint8 or images.shape[1:] != (3, 32, 32):
                what = f"is {images.dtype} of shape {images.shape}"
                raise BadInput(f"{name} in {place} {what}: it must be uint8 of shape (examples, 3, 32, 32)")
    else:
        arrays = _from_batches(place)
    return image_dataset(arrays, CLASSES, "CIFAR-10", image_scale(CIFAR10_MEAN, CIFAR10_STD), subset, seed)


def _found_in(place: Path, download: bool, progress: bool) -> Path:
    """The folder of batches or the archive at a place, downloaded if need be."""
    if (place / BATCHES[0]).is_file():
        return place
    for inside in (place / FOLDER, place / ARCHIVE):
        if inside.exists():
            return inside
    if not download:
        raise BadInput(
            f"there is no CIFAR-10 at {place}: give {ARCHIVE}, the folder {FOLDER} or an .npz, or download=True "
            f"to fetch the archive into that folder"
        )
    if place.suffix in (".gz", ".npz") or (place.exists() and not place.is_dir()):
        raise BadInput(f"download=True puts {ARCHIVE} into a folder, and {place} does not name one: give a folder")
    with bars_wanted(progress):
        fetch(URL, place / ARCHIVE, sha256=SHA256, largest=LARGEST_DOWNLOAD)
    return place / ARCHIVE


def _from_batches(place: Path) -> list[np.ndarray]:
    """Training images and labels, test images and labels, of an archive or a folder."""
    if place.is_dir():
        contents = ((name, read_bytes(place / name, LARGEST_BATCH)) for name in (*BATCHES, TEST))
    else:
        contents = read_members(place, FOLDER, (*BATCHES, TEST), LARGEST_BATCH)
    found = {name: read_batch(content, f"{name} in {place}") for name, content in contents}
    x = np.concatenate([found[name][0] for name in BATCHES])
    y = np.concatenate([found[name][1] for name in BATCHES])
    return [x, y, *found[TEST]]
