"""Targets and kernels for runs on several ranks."""

from __future__ import annotations

from typing import Any

import torch

import ggmc
from ggmc.kernels import Kernel
from tests.support.augmentations import Mirrored, Shifted
from tests.support.logistic import examples, log_likelihood, log_prior, logistic

LENGTH: dict[str, Any] = {"draws": 30, "warmup": 30, "chains": 2, "seed": 3, "progress": False}

CASES: dict[str, Kernel | None] = {
    "exact": ggmc.GGMC(0.05, 1.0, 5, "O(BAB)O"),
    "minibatches": ggmc.GGMC(0.03, steps="1 sweep", guide=ggmc.Minibatch(30)),
    "minibatches, tuned": ggmc.GGMC(guide=ggmc.Minibatch(30)),
    "minibatches, cut anew": ggmc.GGMC(0.03, steps="1 sweep", guide=ggmc.Minibatch(30, recut=True)),
    "minibatches, augmented": ggmc.GGMC(0.03, steps="1 sweep", guide=ggmc.Minibatch(30, augment=Mirrored())),
    "minibatches, augmented and cut anew": ggmc.GGMC(
        0.03, steps=8, guide=ggmc.Minibatch(31, "iid", recut=True, augment=Shifted(0.1))
    ),
    "control variates": ggmc.GGMC(0.05, steps=10, guide=ggmc.ControlVariate(30, curvature="dense")),
    "independent batches, cold": ggmc.GGMC(0.02, steps=8, guide=ggmc.Minibatch(31, "iid"), temperature=0.5),
}


def case(name: str) -> tuple[ggmc.DataDensity, Kernel | None]:
    """A target with 121 examples, which no two ranks can share out evenly, and a kernel."""
    return logistic(121), CASES[name]


def random_target() -> ggmc.DataDensity:
    """Data drawn from torch's own generator."""
    x, s = examples()
    return ggmc.DataDensity(log_prior, log_likelihood, (torch.randn_like(x), s), torch.zeros(3, dtype=torch.float64))
