"""Dataset and Scale: what they refuse, and that nothing given is changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ggmc.datasets import Dataset, Scale
from ggmc.errors import BadInput

ONE = Scale(torch.tensor(0.5), torch.tensor(2.0))
X, Y = torch.arange(12.0).reshape(4, 3), torch.arange(4.0)


def test_normalising_leaves_the_original_alone() -> None:
    data = Dataset(X.clone(), Y.clone(), X, Y, (), "small", ONE, ONE)
    given = data.normalised(Scale(torch.zeros(3), torch.full((3,), 4.0)))
    assert torch.equal(data.x, X)
    assert torch.equal(data.y, Y)
    assert torch.equal(given.x, X / 4)
    assert torch.equal(given.y, (Y - 0.5) / 2)
    assert torch.equal(given.x_scale.undo(given.x), X)
    assert torch.equal(given.x_scale.undo(given.x.numpy()), X)
    assert "normalised" in repr(given)


def test_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="small is normalised already"):
        Dataset(X, Y, X, Y, (), "small", ONE).normalised().normalised()


def test_whole_numbers_are_no_dtype() -> None:
    with pytest.raises(BadInput, match=r"dtype=torch.int64: use torch.float32"):
        Dataset(X, Y, X, Y, (), "small", ONE).normalised(dtype=torch.int64)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_small_differences_of_large_numbers_survive(dtype: torch.dtype) -> None:
    years = torch.tensor([2**24 + 1.0, 2**24 + 3.0], dtype=torch.float64)
    scale = Scale(torch.tensor(2**24 + 2.0, dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64))
    assert scale.apply(years, dtype).tolist() == [-1, 1]
    assert scale.apply(years, dtype).dtype is dtype


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X, Y[:-1], X, Y), "4 training inputs and 3 training outcomes"),
        ((X, Y, X[:0], Y[:0]), "0 test inputs"),
        ((X, Y, X[:, :2], Y), r"different shapes, \(3,\) and \(2,\)"),
        ((X, [1, 2, 3, 4], X, Y), "must be tensors"),
        ((X, Y, torch.tensor(1.0), Y), "must be tensors"),
    ],
)
def test_examples_that_do_not_fit(arguments: Any, words: str) -> None:
    x, y, x_test, y_test = arguments
    with pytest.raises(BadInput, match=words):
        Dataset(x, y, x_test, y_test, (), "small", ONE)


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        (torch.tensor(0.0), torch.tensor(0.0), "std of a Scale must be above 0, got 0.0"),
        (torch.tensor(0.0), torch.tensor(-1.0), "above 0"),
        (torch.tensor(0.0), torch.tensor(float("nan")), "the std of a Scale must be a tensor of finite"),
        (torch.zeros(2), torch.ones(3), "same shape"),
        (0.0, 1.0, "the mean of a Scale must be a tensor"),
        (torch.tensor(1), torch.tensor(1), "the mean of a Scale must be a tensor"),
    ],
)
def test_scales_that_cannot_be(mean: Any, std: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Scale(mean, std)
