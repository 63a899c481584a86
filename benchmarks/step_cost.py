"""What a sampling step costs: the optimisers of `ggmc.optim` beside `torch.optim.SGD` and posteriors' samplers.

Run with `.venv-bench/bin/python -m benchmarks.step_cost` (about five minutes), or from `.venv`, where posteriors is not
installed and left out. A step is a whole training step: zero_grad, forward, backward, step. Ours is measured inside
trajectories, beginning and end included, with the work that log α needs, but without the pass over all data that a test
adds. posteriors' samplers are used as its documentation does, on a functional call of the same module, in place.

All take turns in short blocks, in an order that changes; a ratio is the median over blocks of the ratio within a block,
so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm.auto import tqdm

from benchmarks.peers import installed
from ggmc import optim
from ggmc.bayes.nets import MLP, ResNet20

NUM_DATA, LR, MOMENTUM = 50_000, 1e-6, 0.9

Batch = tuple[Tensor, Tensor]
Contestant = Callable[[nn.Module, Batch], Callable[[int], None]]
"""From a net of its own and a batch to a function that takes so many steps."""


class Case(NamedTuple):
    """A net, the shape of its batch, and how many steps a block has."""

    net: Callable[[], nn.Module]
    shape: tuple[int, ...]
    steps: int


CASES = {
    "MLP 13-50-10, batch 32": Case(partial(MLP, [13, 50, 10]), (32, 13), 100),
    "MLP 784-500-256-10, batch 128": Case(partial(MLP, [784, 500, 256, 10]), (128, 784), 100),
    "ResNet-20, batch 125": Case(ResNet20, (125, 3, 32, 32), 2),
}


def sgd(module: nn.Module, batch: Batch) -> Callable[[int], None]:
    """The yardstick."""
    return partial(_train, module, batch, torch.optim.SGD(module.parameters(), lr=LR, momentum=MOMENTUM))


def ours(module: nn.Module, batch: Batch, scheme: str) -> Callable[[int], None]:
    """One trajectory per block."""
    optimiser = optim.GGMC(module, LR, MOMENTUM, num_data=NUM_DATA, scheme=scheme, seed=0)

    def take(steps: int) -> None:
        optimiser.begin_trajectory()
        _train(module, batch, optimiser, steps)
        optimiser.end_trajectory()

    return take


def _train(module: nn.Module, batch: Batch, optimiser: torch.optim.Optimizer, steps: int) -> None:
    x, y = batch
    for _ in range(steps):
        optimiser.zero_grad()
        cross_entropy(module(x), y).backward()
        optimiser.step()


def posteriors(module: nn.Module, batch: Batch, name: str) -> Callable[[int], None]:
    """Normal Computing's posteriors, at the same temperature."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import posteriors as library
    library: Any = library
    call = library.model_to_function(module)

    def log_posterior(params: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        x, y = batch
        return -cross_entropy(call(params, x), y), torch.tensor([])

    build = getattr(library.sgmcmc, name).build
    transform = build(log_posterior, lr=(LR / NUM_DATA) ** 0.5, temperature=1 / NUM_DATA)
    state = transform.init({key: value.detach() for key, value in module.named_parameters()})

    def take(steps: int) -> None:
        nonlocal state
        for _ in range(steps):
            state, _ = transform.update(state, batch, inplace=True)

    return take


# The library's kernels on a target belong here too: `bind`, then `take` calls `step` so many times.
YARDSTICK = "SGD"
OURS: dict[str, Contestant] = {
    "friction at the ends": partial(ours, scheme="O(ABA)O"),
    "friction at each step": partial(ours, scheme="OABAO"),
}
PEERS: dict[str, Contestant] = {
    "posteriors sghmc": partial(posteriors, name="sghmc"),
    "posteriors baoa": partial(posteriors, name="baoa"),
}


def seconds(case: Case, contestants: dict[str, Contestant], blocks: int, bar: Any) -> dict[str, np.ndarray]:
    """Seconds per step of every contestant, block by block."""
    torch.manual_seed(0)
    batch = torch.randn(case.shape), torch.randint(10, case.shape[:1])
    net = case.net()
    takes: dict[str, Callable[[int], None]] = {}
    for name, contestant in contestants.items():
        own = case.net()
        own.load_state_dict(net.state_dict())
        takes[name] = contestant(own, batch)
        takes[name](2)  # the first steps set things up
    found: dict[str, list[float]] = {name: [] for name in takes}
    names = list(takes)
    for block in range(blocks):
        first = block % len(names)
        for name in names[first:] + names[:first]:
            begun = time.perf_counter()
            takes[name](case.steps)
            found[name].append((time.perf_counter() - begun) / case.steps)
            bar.update()
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=40, help="blocks of each contestant on each net")
    parser.add_argument("nets", nargs="*", help="beginnings of the nets' names; all of them if none is named")
    options = parser.parse_args()
    chosen = {
        name: case
        for name, case in CASES.items()
        if not options.nets or any(name.startswith(given) for given in options.nets)
    }
    peers = PEERS if installed("posteriors") else {}
    contestants: dict[str, Contestant] = {YARDSTICK: sgd} | OURS | peers
    rows: list[str] = []
    with tqdm(total=len(chosen) * options.blocks * len(contestants), unit="block") as bar:
        for name, case in chosen.items():
            bar.set_description(name)
            found = seconds(case, contestants, options.blocks, bar)
            for mine in OURS:
                ratios = "".join(f"{np.median(found[mine] / found[other]):>20.3f}" for other in (YARDSTICK, *peers))
                rows.append(f"{name:31}{mine:23}{ratios}{1e3 * np.median(found[mine]):>14.3f}")
    print(f"\nOur step over theirs, median of {options.blocks} blocks, {torch.get_num_threads()} threads\n")
    print(f"{'':54}" + "".join(f"{'÷ ' + other:>20}" for other in (YARDSTICK, *peers)) + f"{'ms per step':>14}")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
