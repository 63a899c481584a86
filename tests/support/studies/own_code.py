"""Python code that the study files in this folder name."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

import ggmc
from ggmc.guides import GradientField, Guide


def quartic() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(2, dtype=torch.float64))


def surrogate() -> ggmc.Surrogate:
    return ggmc.Surrogate(lambda x: -((x + 0.7) ** 2).sum())


def random_target() -> ggmc.Density:
    return ggmc.Density(lambda x: -(x**4 / 4).sum() + torch.randn(()), torch.zeros(2, dtype=torch.float64))


def random_surrogate() -> ggmc.Surrogate:
    return ggmc.Surrogate(lambda x: -((x + torch.randn(())) ** 2).sum())


def in_turn(entries: int, batches: int, generator: torch.Generator) -> Tensor:
    """Batches one after the other, always upwards."""
    return (torch.arange(entries) + torch.randint(batches, (), generator=generator)) % batches


class NoisyField(GradientField):
    def __init__(self):
        super().__init__(order=None)

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return position + torch.randn_like(position), None


@dataclass(frozen=True)
class Noisy(Guide):
    def bind(self, target: ggmc.Density) -> NoisyField:  # pyright: ignore[reportIncompatibleMethodOverride]
        return NoisyField()


def noisy() -> Noisy:
    return Noisy()


def slow() -> ggmc.Density:
    """A target whose run can be killed in the middle."""

    def log_prob(x: Tensor) -> Tensor:
        time.sleep(0.002)
        return -(x**4 / 4 + x).sum()

    return ggmc.Density(log_prob, torch.zeros(2, dtype=torch.float64))


def broken() -> ggmc.Density:
    raise RuntimeError("the user's own [mistake]")


def not_a_target() -> int:
    return 3
