"""What metrics accept, and the errors for the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from ggmc.errors import BadInput

Values = Tensor | ArrayLike  # tensors, arrays, lists of numbers

SUM_TOLERANCE = 1e-3  # of a sum of probabilities: those of a half-precision softmax are off by as much


def as_array(name: str, values: Values) -> np.ndarray:
    """Tensors, arrays and lists as a float64 array."""
    if isinstance(values, Tensor) and values.is_complex():
        raise BadInput(f"{name} must be real numbers, got {values.dtype}")
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be a tensor or an array of numbers, got {type(values).__name__}") from error


def as_numbers(name: str, values: Values) -> np.ndarray:
    """At least one number, flattened, none of them NaN."""
    array = as_array(name, values).ravel()
    if not array.size or np.isnan(array).any():
        raise BadInput(f"{name} must be at least one number and not NaN, got {array[:5]}")
    return array


def as_alike(**values: Values) -> list[np.ndarray]:
    """Arrays of one shape: a column [n, 1] and a row [n] would be broadcast to [n, n] without an error."""
    arrays = {name: as_array(name, value) for name, value in values.items()}
    if len({array.shape for array in arrays.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise BadInput(f"shapes must be the same, got {shapes}: use .squeeze() or .reshape()")
    for name, array in arrays.items():
        as_numbers(name, array)
    return list(arrays.values())


def as_classification(probabilities: Values, labels: Values) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities [examples, classes] and labels [examples], checked."""
    array, truth = as_array("probabilities", probabilities), as_array("labels", labels)
    if array.ndim != 2 or not array.size:
        raise BadInput(
            f"probabilities must be [examples, classes], got shape {array.shape}: average over draws, and stack "
            "[1 − p, p] for two classes"
        )
    check_probabilities(array)
    if truth.shape != array.shape[:1]:
        raise BadInput(f"labels must have the shape {array.shape[:1]} of the examples, got {truth.shape}")
    bad = ~((truth >= 0) & (truth < array.shape[1]) & (truth == np.floor(truth)))
    if bad.any():
        raise BadInput(f"labels must be whole numbers from 0 to {array.shape[1] - 1}, got {truth[bad][0]:g}")
    return array, truth.astype(np.int64)


def check_probabilities(array: np.ndarray) -> None:
    """Raise `BadInput` for what is negative or does not sum to one over the last dimension."""
    if not (array >= 0).all():
        raise BadInput(f"probabilities must not be negative or NaN, got {array[~(array >= 0)][0]:g}: use softmax")
    sums = array.sum(-1)
    off = ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if off.any():
        where = ", ".join(map(str, np.argwhere(off)[0]))
        raise BadInput(f"probabilities must sum to one over classes, got {sums[off][0]:g} at [{where}]: use softmax")
