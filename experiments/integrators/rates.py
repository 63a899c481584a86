"""The learning rate at which half of the trajectories are accepted, the paper's way and ours.

From one state of a chain that was burnt in, trajectories with fresh momenta and fresh tapes are carried out at several
learning rates, and the mean of min(1, α) is taken. No trajectory moves the chain. All arms go equally often through the
data between two tests. After a study `python -m experiments.integrators.rates OUT --epochs 10` compares the paper's way
with ours at another number of passes.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path

import torch

import ggmc
from experiments.integrators.cells import TUNED, burn_in, steps
from experiments.integrators.settings import Size, posterior
from ggmc.kernels import Kernel
from ggmc.warmup.mass import per_tensor

LOWEST, HIGHEST = -9.0, 1.0  # powers of ten among which the rate is sought

PAPERS, OURS = "the paper's integrator", TUNED
"""Compared with each other: the first is the paper's integrator and minibatches on a net that can be tested."""

ARMS = (
    "the paper's integrator, BatchNorm",
    PAPERS,
    "the paper's HMC",
    "independent batches",
    "epochs",
    "sweeps",
    "sweeps of 4 batches",
    OURS,
)


def form_of(arm: str) -> str:
    """The net's form."""
    return "batchnorm" if "BatchNorm" in arm else "frn-swish"


def kernel_of(arm: str, size: Size, rate: float, mass: torch.Tensor | None) -> Kernel:
    """An arm at a learning rate.

    Args:
        arm: One of `ARMS`.
        size: Of the study.
        rate: ℓ.
        mass: Of the last arm.
    """
    orders = {"independent batches": "iid", "epochs": "epoch"}
    scheme, guide = "O(ABA)O", ggmc.Minibatch(size.batch_size, orders.get(arm, "palindrome"))
    if arm.startswith(PAPERS):
        scheme, guide = "OBABO", ggmc.Minibatch(size.batch_size, "epoch", recut=True)
    elif arm == "the paper's HMC":
        scheme, guide = "O(BAB)O", ggmc.Minibatch(size.batch_size, "epoch", recut=True)
    elif "4 batches" in arm:
        guide = ggmc.Minibatch(math.ceil(size.images / 4))
    h = math.sqrt(rate / size.images)
    return ggmc.GGMC(h, size.friction, steps(size), scheme, guide=guide, mass=mass, adjust=False)


def half_accepted(size: Size, data: str, burnt: str, arm: str) -> dict[str, object]:
    """The rate at which half of the trajectories are accepted, by bisection of its logarithm.

    Args:
        size: Of the study.
        data: Where CIFAR-10 is.
        burnt: The folder of the run that was burnt in.
        arm: One of `ARMS`.

    Returns:
        `rate`, and the acceptance measured on the way: `rates` and `acceptance`.
    """
    target = posterior(size.data, size.images, data, size.seed, form_of(arm), views="none")
    position = torch.as_tensor(ggmc.load(burnt).positions[:, -1]).to(target.dtype)
    mass = per_tensor(target, position).tensors()[0] if arm == OURS else None
    found: dict[float, float] = {}

    def acceptance(power: float) -> float:
        init, step = kernel_of(arm, size, 10**power, mass).bind(target)
        generator = torch.Generator().manual_seed(size.seed)
        rates = [step(init(position, generator), generator)[1].acceptance().mean() for _ in range(size.repeats)]
        found[10**power] = torch.stack(rates).mean().item()
        return found[10**power]

    low, high = LOWEST, HIGHEST
    while high - low > 0.2:
        middle = (low + high) / 2
        low, high = (middle, high) if acceptance(middle) > 0.5 else (low, middle)
    return {"arm": arm, "rate": 10 ** ((low + high) / 2), "rates": list(found), "acceptance": list(found.values())}


def main() -> None:
    """Compare the paper's way with ours, tested after more or fewer passes over the data than in the study itself."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("out", type=Path, help="the folder of a study that is done")
    parser.add_argument("--size", default="small")
    parser.add_argument("--data", default="", help="where CIFAR-10 is")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the data between two tests")
    parser.add_argument("--repeats", type=int, default=2, help="trajectories for each learning rate")
    options = parser.parse_args()
    size = replace(Size.named(options.size), epochs=options.epochs, repeats=options.repeats)
    found: dict[str, float] = {}
    for arm in (OURS, PAPERS):
        burnt = options.out / "runs" / burn_in(size, form_of(arm)).name
        result = half_accepted(size, options.data, str(burnt), arm)
        found[arm] = float(str(result["rate"]))
        print(f"{arm:45}{found[arm]:.1e}", result, flush=True)
    print(f"{'factor':45}{found[OURS] / found[PAPERS]:.0f}")


if __name__ == "__main__":
    main()
