"""Every run of the study: which posterior, which kernel.

The paper's runs reject nothing and report log α at the end of each cycle. Its network has BatchNorm and its images are
augmented at random, so that U is not a function of the weights: these runs can be monitored only, and log α contains
the difference of two random views of the data. What the paper lacks comes beside it: a network, minibatches and
augmentation that can be tested exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import ggmc
from experiments.integrators.settings import Size
from ggmc.kernels import Kernel

TUNED = "sweeps of 4 batches, a mass per tensor"
"""Batch size and mass are as much of a lever as the step size."""


@dataclass(frozen=True)
class Cell:
    """One run.

    Args:
        arm: What is compared.
        learning_rate: ℓ; None for one that warm-up finds.
        temperature: T.
        form: Of the net.
        views: Of the data: "none" or "free".
        kernel: How it is sampled.
        draws: How many.
        warmup: Trajectories before them.
    """

    arm: str
    learning_rate: float | None
    temperature: float
    form: str
    views: str
    kernel: Kernel
    draws: int
    warmup: int = 0

    @property
    def name(self) -> str:
        """Of its folder."""
        rate = "tuned" if self.learning_rate is None else f"{self.learning_rate:g}"
        return f"{self.arm} lr={rate} T={self.temperature:g}"


def steps(size: Size) -> str:
    """The length of a cycle."""
    return f"{size.epochs} epochs"


def paper(size: Size) -> Iterator[Cell]:
    """The paper's: batches of 125 from data that are shuffled in each epoch, friction at every step, no test.

    Args:
        size: Of the study.
    """
    guide = ggmc.Minibatch(size.batch_size, "epoch", recut=True)
    for temperature in size.temperatures:
        for rate in size.learning_rates:
            h, gamma, long = math.sqrt(rate / size.images), size.friction, steps(size)
            kernels: dict[str, Kernel] = {
                "GGMC": ggmc.GGMC(h, gamma, long, "OBABO", guide=guide, temperature=temperature, adjust=False),
                "HMC": ggmc.HMC(h, long, guide=guide, temperature=temperature, adjust=False),
                "SGHMC": ggmc.SGHMC(h, gamma, long, guide=guide, temperature=temperature),
            }
            for arm, kernel in kernels.items():
                yield Cell(arm, rate, temperature, "batchnorm", "free", kernel, size.cycles)


def beyond(size: Size) -> Iterator[Cell]:
    """What the paper lacks: filter response norms, sweeps, augmentation in the guide alone, rejection, and at last a
    learning rate and a mass per tensor that warm-up finds for larger batches.

    Args:
        size: Of the study.
    """
    views = ggmc.nets.GuideViews(pad=4 if size.data == "cifar10" else 1, flip=size.data == "cifar10")
    guides = {
        "sweeps": ggmc.Minibatch(size.batch_size),
        "sweeps, augmented guide": ggmc.Minibatch(size.batch_size, augment=views),
    }
    for rate in size.learning_rates:
        h = math.sqrt(rate / size.images)
        for arm, guide in guides.items():
            kernel = ggmc.GGMC(h, size.friction, steps(size), "O(ABA)O", guide=guide)
            yield Cell(arm, rate, 1.0, "frn-swish", "none", kernel, size.cycles)
    large = ggmc.Minibatch(math.ceil(size.images / 4))
    kernel = ggmc.GGMC(None, size.friction, steps(size), "O(ABA)O", guide=large, mass="tensor")
    yield Cell(TUNED, None, 1.0, "frn-swish", "none", kernel, size.cycles, size.burn_in)


def burn_in(size: Size, form: str) -> Cell:
    """A run to a state where acceptance is measured.

    Args:
        size: Of the study.
        form: Of the net.
    """
    rate = 1e-3
    guide = ggmc.Minibatch(math.ceil(size.images / 4))
    kernel = ggmc.GGMC(math.sqrt(rate / size.images), size.friction, steps(size), "O(ABA)O", guide=guide, adjust=False)
    return Cell(f"burn-in {form}", rate, 1.0, form, "none", kernel, size.burn_in)
