"""The sizes of the study, from config.toml, and the posteriors that its runs sample."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ggmc
from ggmc.errors import BadInput

CONFIG = Path(__file__).with_name("config.toml")


@dataclass(frozen=True)
class Size:
    """One size of the study.

    Args:
        name: Of the size.
        data: "cifar10" or "digits".
        images: Training images, equally many of each class.
        batch_size: Of the paper's minibatches.
        cycles: Draws of each run, one after each trajectory.
        epochs: Passes over the data in a trajectory.
        learning_rates: ℓ = N h².
        friction: γ.
        temperatures: T.
        seed: Of everything random.
        burn_in: Trajectories before acceptance is measured.
        repeats: Trajectories for each learning rate whose acceptance is measured.
    """

    name: str
    data: str
    images: int
    batch_size: int
    cycles: int
    epochs: int
    learning_rates: list[float]
    friction: float
    temperatures: list[float]
    seed: int
    burn_in: int
    repeats: int

    @classmethod
    def named(cls, name: str) -> Size:
        """From config.toml.

        Args:
            name: One of its sizes.
        """
        config = tomllib.loads(CONFIG.read_text())
        common = config.pop("study")
        if name not in config:
            raise BadInput(f"size must be one of {', '.join(config)}, got {name!r}")
        return cls(name=name, **common | config[name])


@cache
def images(data: str, number: int, path: str, seed: int) -> tuple[Tensor, Tensor]:
    """Training images, normalised, and their labels.

    Args:
        data: "cifar10" or "digits".
        number: How many.
        path: Where CIFAR-10 is.
        seed: Which ones.
    """
    if data == "digits":
        from sklearn.datasets import load_digits

        found: Any = load_digits()
        x, y = torch.tensor(found.images / 8 - 1, dtype=torch.float32)[:, None], torch.tensor(found.target)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))[:number]
        return x[order], y[order]
    everything = ggmc.datasets.cifar10(path, subset=number, seed=seed).normalised()
    return everything.x.contiguous(memory_format=torch.channels_last), everything.y  # convolutions are faster so


def posterior(data: str, images_used: int, path: str, seed: int, form: str, views: str) -> ggmc.Posterior:
    """ResNet-20 with a standard normal prior of every weight, as in the paper.

    Args:
        data: As in `images`, like the next three.
        images_used: Likewise.
        path: Likewise.
        seed: Likewise; and of the first weights.
        form: Of `ggmc.nets.resnet20`.
        views: "none"; or "free", the paper's augmentation, with which U is random.
    """
    x, y = images(data, images_used, path, seed)
    torch.manual_seed(seed)
    net = ggmc.nets.resnet20(form, channels_in=x.shape[1])
    free = ggmc.nets.FreeViews(pad=x.shape[-1] // 8, flip=data != "digits", seed=seed) if views == "free" else None
    prior = ggmc.priors.Gaussian(1.0)
    return ggmc.Posterior(net, "categorical", prior, x, y, start="module", views=free, vectorise=False)
