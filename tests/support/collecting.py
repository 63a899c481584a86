"""A linear model sampled by a training loop with minibatches, and a Collector of its draws."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import ggmc
from ggmc import optim

NUM_DATA = 60
_generator = torch.Generator().manual_seed(0)
X = torch.randn(NUM_DATA, 3, generator=_generator, dtype=torch.float64)
Y = X.sum(1, keepdim=True) + torch.randn(NUM_DATA, 1, generator=_generator, dtype=torch.float64)


def linear(seed: int = 0) -> nn.Linear:
    """A module with weights of its own seed."""
    torch.manual_seed(seed)
    return nn.Linear(3, 1).double()


def posterior(seed: int = 0) -> ggmc.Posterior:
    """Of the linear model, with known noise."""
    prior = ggmc.priors.Gaussian(1.0)
    return ggmc.Posterior(linear(seed), ggmc.likelihoods.Gaussian(noise=1.0), prior, X, Y)


class Loop:
    """A program with a training loop: everything in it is made anew, as after a crash.

    Args:
        scheme: The optimiser's.
        lr: Its learning rate.
        reject: Whether trajectories are tested.
        out: The Collector's folder.
        also: What it keeps besides; by default the generator of the batches.
        seed: Of weights, noise and batches, all of which a checkpoint puts back.
    """

    def __init__(
        self,
        scheme: str = "OABAO",
        lr: float = 5.0,
        reject: bool = True,
        out: Any = None,
        also: Any = None,
        seed: int = 0,
    ):
        self.net, self.posterior = linear(seed), posterior()
        self.optimiser = optim.GGMC(
            self.net, lr * 1e-2, 0.9, num_data=NUM_DATA, weight_decay=1 / NUM_DATA, scheme=scheme, seed=seed
        )
        self.batches = torch.Generator().manual_seed(seed)
        also = {"batches": self.batches} if also is None else also
        self._reject, self.works = reject, list[float]()
        self.draws = optim.Collector(self.net, self.optimiser, self.posterior, out, also)

    def total_loss(self) -> Tensor:
        return (self.net(X) - Y).square().sum() / 2

    def gradient(self, batch: Any) -> None:
        self.optimiser.zero_grad()
        ((self.net(X[batch]) - Y[batch]).square().mean() / 2).backward()

    def advance(self, trajectories: int) -> None:
        for _ in range(trajectories):
            self.optimiser.begin_trajectory()
            out = torch.randperm(NUM_DATA, generator=self.batches).split(20)
            order = [*out, *reversed(out)]
            if self.optimiser.kernel.name.endswith("OBABO"):
                order = [*out, out[0], *reversed(out)]
            for batch in order[:6]:
                self.gradient(batch)
                self.optimiser.step()
            self.gradient(order[-1])  # used by OBABO
            info = self.optimiser.end_trajectory(self.total_loss, reject=self._reject)
            self.works.append(float(info.work))
            self.draws.add(info)

    def run(self, draws: int) -> ggmc.Trace:
        """Go on to so many draws."""
        self.advance(draws - self.draws.done)
        return self.draws.trace()
