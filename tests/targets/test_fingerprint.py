"""Fingerprints: what makes a target another one is noticed, wherever it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.targets.fingerprint import AT_ONCE, compared, differences, fingerprint

F64 = torch.float64


def density(data: Tensor, width: float = 1.0, noise: float = 1.0) -> ggmc.DataDensity:
    return ggmc.DataDensity(
        lambda w: -(w**2).sum() / (2 * width**2),
        lambda w, x: -((x - w) ** 2) / (2 * noise**2),
        data,
        torch.zeros(1, dtype=F64),
    )


def some_data(examples: int = 20) -> Tensor:
    return torch.linspace(-1.0, 1.0, examples, dtype=F64)


def test_the_same_target_built_anew_does_not_differ() -> None:
    assert differences(fingerprint(density(some_data())), density(some_data())) == []


@pytest.mark.parametrize("place", [0, AT_ONCE - 1, AT_ONCE, AT_ONCE + 9])
def test_one_other_number_anywhere_in_the_data_is_noticed(place: int) -> None:
    changed = some_data(AT_ONCE + 10)
    changed[place] += 1e-9
    (found,) = differences(fingerprint(density(some_data(AT_ONCE + 10))), density(changed))
    assert "checksum of its data" in found


@pytest.mark.parametrize("changed", [{"width": 2.0}, {"noise": 2.0}])
def test_another_prior_or_likelihood_of_the_same_data_is_noticed(changed: dict[str, float]) -> None:
    (found,) = differences(fingerprint(density(some_data())), density(some_data(), **changed))
    assert "its gradient's size at a fixed point" in found


def test_a_network_built_anew_begins_elsewhere_and_is_the_same_target() -> None:
    def posterior(seed: int) -> ggmc.Posterior:
        torch.manual_seed(seed)
        x = some_data()[:, None]
        return ggmc.Posterior(torch.nn.Linear(1, 1).double(), "gaussian", ggmc.priors.Gaussian(1.0), x, x)

    assert not torch.equal(posterior(0).start, posterior(1).start)
    assert differences(fingerprint(posterior(0)), posterior(1)) == []


def facts(**changes: object) -> dict[str, object]:
    return {
        "kind": "DataDensity",
        "tensors": {"theta": [1]},
        "precision": "float64",
        "examples": 20,
        "data": "abc",
        "gradients": [3.0, None, 7.0],
    } | changes


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"kind": "Posterior"}, ["its kind was 'DataDensity', is 'Posterior'"]),
        ({"tensors": {"theta": [2]}}, ["its tensors was {'theta': [1]}, is {'theta': [2]}"]),
        ({"precision": "float32"}, ["its precision was 'float64', is 'float32'"]),
        (
            {"examples": 21, "data": "abd", "gradients": [4.0, None, 7.0]},
            ["its number of examples was 20, is 21", "the checksum of its data was 'abc', is 'abd'"],
        ),
        ({"gradients": [3.0 * (1 + 9e-7), None, 7.0]}, []),
        ({"gradients": [3.0, None, 7.0 * (1 + 2e-6)]}, ["its gradient's size at a fixed point was 7, is 7.00001"]),
        ({"gradients": [3.0, 2.5, 7.0]}, ["its gradient's size at a fixed point was not finite, is 2.5"]),
    ],
)
def test_what_differs_is_named_with_both_values(changed: dict[str, object], found: list[str]) -> None:
    assert compared(facts(), facts(**changed)) == found


def test_single_precision_may_round_more() -> None:
    single = facts(precision="float32")
    assert compared(single, single | {"gradients": [3.0 * (1 + 9e-4), None, 7.0]}) == []
    assert compared(single, single | {"gradients": [3.0 * (1 + 2e-3), None, 7.0]}) != []


def test_the_numbers_are_those_of_a_few_examples_each_with_another_weight() -> None:
    """The gradient of prior and weighted examples at three points near zero: w + Σ weight · (w − x)."""
    generator = torch.Generator().manual_seed(0)
    x, weights = some_data(100)[torch.arange(64) * 100 // 64], torch.linspace(1.0, 2.0, 64, dtype=F64)
    expected = []
    for _ in range(3):
        w = 0.1 * torch.randn(1, generator=generator, dtype=F64)
        expected.append((w + (weights * (w - x)).sum()).abs().item())
    assert fingerprint(density(some_data(100)))["gradients"] == pytest.approx(expected)
