"""Dataset: training and test examples as tensors; Scale: what normalisation subtracts and divides by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ggmc.errors import BadInput, require_count


@dataclass(frozen=True, eq=False)
class Scale:
    """A mean and a standard deviation, in the units of the values that they normalise.

    Args:
        mean: What is subtracted: a tensor that broadcasts over examples.
        std: What is divided by: finite and above 0, in the shape of `mean`.

    Example:
        >>> import torch
        >>> from ggmc import datasets
        >>> scale = datasets.Scale(mean=torch.tensor(10.0), std=torch.tensor(2.0))
        >>> scale.apply(torch.tensor([8.0, 12.0]))
        tensor([-1.,  1.])
        >>> scale.undo(torch.tensor([-1.0, 1.0]))
        tensor([ 8., 12.])
    """

    mean: Tensor
    std: Tensor

    def __post_init__(self) -> None:
        for name, value in (("mean", self.mean), ("std", self.std)):
            if not isinstance(value, Tensor) or not value.is_floating_point() or not value.isfinite().all():
                raise BadInput(f"the {name} of a Scale must be a tensor of finite real numbers, got {value!r}")
        if self.mean.shape != self.std.shape:
            shapes = f"{tuple(self.mean.shape)} and {tuple(self.std.shape)}"
            raise BadInput(f"mean and std of a Scale must have the same shape, got {shapes}")
        if (self.std <= 0).any():
            raise BadInput(f"the std of a Scale must be above 0, got {self.std.min().item()}: use 1 where it is 0")

    def apply(self, values: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """(values − mean) / std.

        Args:
            values: What to normalise, one row per example. It is not changed.
            dtype: Of the result. Default float32.
        """
        if not dtype.is_floating_point:
            raise BadInput(f"normalised values are real numbers, got dtype={dtype}: use torch.float32 or torch.float64")
        # Small differences of large numbers are taken before digits are dropped.
        exact = torch.float64 if values.is_floating_point() else torch.promote_types(dtype, torch.float32)
        mean, std = (each.to(values.device, exact) for each in (self.mean, self.std))
        return values.to(exact, copy=True).sub_(mean).div_(std).to(dtype)

    def undo(self, values: Tensor | np.ndarray) -> Tensor:
        """values · std + mean: normalised values in their own units again.

        Args:
            values: What was normalised, such as predictions.
        """
        given = torch.as_tensor(values)
        mean, std = (each.to(given) for each in (self.mean, self.std))
        return given * std + mean


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test examples, and how they are usually normalised.

    Args:
        x: Training inputs, one row per example, as in the file: images are uint8 [examples, channels, height, width].
        y: Training outcomes, one per example: class numbers as int64, or real numbers.
        x_test: Test inputs.
        y_test: Test outcomes.
        classes: The names of the classes, in the order of their numbers; empty for regression.
        name: What the data are called.
        x_scale: What `normalised` subtracts from inputs and divides them by.
        y_scale: The same for outcomes that are real numbers, None for classes. An error of normalised predictions times
            `y_scale.std` is the error in the data's own units.
        is_normalised: Whether `normalised` made it.

    Example:
        >>> import torch
        >>> from ggmc import datasets
        >>> x = torch.randint(256, (20, 1, 4, 4), dtype=torch.uint8)
        >>> y = torch.arange(20) % 2
        >>> scale = datasets.Scale(torch.full((1, 1, 1), 127.5), torch.full((1, 1, 1), 127.5))
        >>> data = datasets.Dataset(x, y, x, y, ("even", "odd"), "noise", scale)
        >>> data
        Dataset('noise', 20 training and 20 test examples of shape (1, 4, 4), 2 classes)
        >>> data.normalised().x.dtype
        torch.float32
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: tuple[str, ...]
    name: str
    x_scale: Scale
    y_scale: Scale | None = None
    is_normalised: bool = False

    def __post_init__(self) -> None:
        for part, x, y in (("training", self.x, self.y), ("test", self.x_test, self.y_test)):
            if not isinstance(x, Tensor) or not isinstance(y, Tensor) or not x.dim() or not y.dim():
                raise BadInput(f"the {part} examples must be tensors with one row each, got {type(x)} and {type(y)}")
            if len(x) != len(y) or not len(x):
                raise BadInput(
                    f"{self.name} has {len(x)} {part} inputs and {len(y)} {part} outcomes: one each is needed"
                )
        if self.x.shape[1:] != self.x_test.shape[1:]:
            shapes = f"{tuple(self.x.shape[1:])} and {tuple(self.x_test.shape[1:])}"
            raise BadInput(f"training and test inputs of {self.name} have different shapes, {shapes}")

    def __repr__(self) -> str:
        kind = f"{len(self.classes)} classes" if self.classes else "regression"
        if self.is_normalised:
            kind += ", normalised"
        shape = tuple(self.x.shape[1:])
        sizes = f"{len(self.x)} training and {len(self.x_test)} test examples"
        return f"Dataset({self.name!r}, {sizes} of shape {shape}, {kind})"

    def normalised(self, scale: Scale | None = None, dtype: torch.dtype = torch.float32) -> Dataset:
        """The same examples with inputs, and outcomes that are real numbers, shifted and scaled.

        Args:
            scale: For the inputs, in the units of `x`, in place of `x_scale`.
            dtype: Of all real numbers. Default float32.
        """
        if self.is_normalised:
            raise BadInput(f"{self.name} is normalised already: call normalised() once, on what was read")
        x_scale, y_scale = scale or self.x_scale, self.y_scale
        return replace(
            self,
            x=x_scale.apply(self.x, dtype),
            x_test=x_scale.apply(self.x_test, dtype),
            y=y_scale.apply(self.y, dtype) if y_scale else self.y,
            y_test=y_scale.apply(self.y_test, dtype) if y_scale else self.y_test,
            x_scale=x_scale,
            is_normalised=True,
        )


def standardising(values: Tensor) -> Scale:
    """The mean and standard deviation (ddof = 0) of each column; a column that is constant is divided by 1.

    Args:
        values: One row per example.
    """
    std = values.std(0, correction=0)
    # Rounding leaves a constant column with a tiny spread instead of none.
    constant = values.amax(0) == values.amin(0)
    return Scale(values.mean(0), torch.where(constant, torch.ones_like(std), std))


def image_scale(mean: Sequence[float], std: Sequence[float]) -> Scale:
    """The scale of images of bytes, from a mean and a standard deviation of each channel between 0 and 1.

    Args:
        mean: One per channel.
        std: One per channel.
    """
    first, second = (torch.tensor(list(each), dtype=torch.float64)[:, None, None] * 255 for each in (mean, std))
    return Scale(first, second)


def image_dataset(
    arrays: Sequence[np.ndarray], classes: tuple[str, ...], name: str, scale: Scale, subset: int | None, seed: int
) -> Dataset:
    """Checked arrays of images and labels as a data set.

    Args:
        arrays: Training images and labels, test images and labels, as the file has them.
        classes: The names of the classes.
        name: What the data are called.
        scale: For the images.
        subset: How many training examples to keep, or None for all.
        seed: Which ones.
    """
    x, y, x_test, y_test = arrays
    for part, images, labels in (("training", x, y), ("test", x_test, y_test)):
        if labels.dtype.kind not in "iu" or labels.ndim != 1 or len(labels) != len(images) or not len(images):
            what = f"{len(images)} images and labels of shape {labels.shape} and type {labels.dtype}"
            raise BadInput(f"the {part} set of {name} has {what}: it needs one whole number for each image")
        if labels.min() < 0 or labels.max() >= len(classes):
            wrong = labels[(labels < 0) | (labels >= len(classes))][0]
            raise BadInput(f"the {part} set of {name} has the label {wrong}: labels are 0 to {len(classes) - 1}")
    y, y_test = y.astype(np.int64), y_test.astype(np.int64)
    if subset is not None:
        kept = balanced(y, len(classes), subset, seed)
        x, y = x[kept], y[kept]
    x, y, x_test, y_test = (torch.from_numpy(np.array(part)) for part in (x, y, x_test, y_test))
    return Dataset(x, y, x_test, y_test, classes, name, scale)


def balanced(labels: np.ndarray, classes: int, number: int, seed: int) -> np.ndarray:
    """The rows of a random subset with equally many examples of each class, in their order in the file.

    Args:
        labels: The class of each example.
        classes: How many classes there are.
        number: How many rows; what classes do not divide evenly goes to some of them, one each.
        seed: Which rows.
    """
    require_count("subset", number)
    require_count("seed", seed, 0)
    generator = torch.Generator().manual_seed(seed)
    share, rest = divmod(number, classes)
    one_more = set(torch.randperm(classes, generator=generator)[:rest].tolist())
    rows: list[np.ndarray] = []
    for label in range(classes):
        own = np.flatnonzero(labels == label)
        wanted = share + (label in one_more)
        if wanted > len(own):
            raise BadInput(
                f"subset={number} needs {wanted} examples of class {label}, and there are {len(own)}: "
                f"use at most {classes * int(np.bincount(labels, minlength=classes).min())}"
            )
        rows.append(own[torch.randperm(len(own), generator=generator)[:wanted].numpy()])
    return np.sort(np.concatenate(rows))
