"""GGMC: the reversible Langevin integrator in a training loop, with an exact Metropolis test if wanted.

The step is that of `midpoint.py`. Targets exp(−(U(θ) + |m|²/2)/T): exactly, where each trajectory is tested; biased by
O(h²) and by the gradient's noise where not, and then log α says how much.

Reference: Garriga-Alonso and Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", AABI 2020.
"""

from __future__ import annotations

from ggmc.errors import BadInput
from ggmc.optim.midpoint import Midpoint
from ggmc.optim.sampler import Parameters

SCHEMES = ("OABAO", "O(ABA)O")


class GGMC(Midpoint):
    """`torch.optim.SGD` made a sampler: `step` takes the gradient of the mean loss over a batch.

    `parameters` is a module or several parameters, of which frozen ones are left alone; `num_data` is the number of
    examples in all. `lr` and `momentum` mean what they mean for SGD, up to a factor of (1 + momentum)/2 in the rate.
    `weight_decay` is a Gaussian prior of variance 1/(num_data · weight_decay). With the scheme "OABAO" friction acts at
    each step; with "O(ABA)O" only between trajectories, which needs no noise on the way and suits batches met out and
    back (outside a trajectory there are no ends, and it acts at each step). `seed` is that of the noise.

    Steps outside any trajectory are plain, unadjusted sampling.

    Example:
        >>> import torch
        >>> from ggmc import optim
        >>> x = torch.linspace(-1, 1, 100)[:, None]
        >>> y = 2 * x + 0.1 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        >>> net = torch.nn.Linear(1, 1)
        >>> optimiser = optim.GGMC(net, lr=0.01, momentum=0.9, num_data=100, weight_decay=0.01, seed=0)
        >>> def mean_loss(x, y):
        ...     return ((net(x) - y) ** 2).mean() / 2
        >>> accepted = []
        >>> for _ in range(200):
        ...     optimiser.begin_trajectory()
        ...     order = torch.randperm(100).split(20)
        ...     for batch in [*order, *reversed(order)]:              # out, and back in reverse order
        ...         optimiser.zero_grad()
        ...         mean_loss(x[batch], y[batch]).backward()
        ...         optimiser.step()
        ...     info = optimiser.end_trajectory(lambda: 100 * mean_loss(x, y).double(), reject=True)
        ...     accepted.append(bool(info.accepted))
        >>> sum(accepted) > 150
        True
    """

    def __init__(
        self,
        parameters: Parameters,
        lr: float,
        momentum: float = 0.9,
        *,
        num_data: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        scheme: str = "OABAO",
        seed: int | None = None,
    ):
        if scheme not in SCHEMES:
            raise BadInput(f"scheme must be one with a single kick per step, {' or '.join(SCHEMES)}, got {scheme!r}")
        self._everywhere = scheme == "OABAO"
        super().__init__(
            parameters, seed, lr=lr, momentum=momentum, num_data=num_data, temperature=temperature,
            weight_decay=weight_decay,
        )  # fmt: skip

    def _kind(self) -> str:
        return f"GGMC with scheme {SCHEMES[0] if self._everywhere else SCHEMES[1]}"
