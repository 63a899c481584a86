"""Fingerprints: what makes a target another one is noticed, wherever it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import ggmc
from ggmc.targets.fingerprint import AT_ONCE, differences, fingerprint

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
