"""GGMC: the reversible Langevin integrator in a training loop, with an exact Metropolis test if wanted.

The steps are those of `oabao.py` and `obabo.py`. Targets exp(−(U(θ) + |m|²/2)/T): exactly, where each trajectory
is tested; biased by O(h²) and by the gradient's noise where not, and then log α says how much.

Reference: Garriga-Alonso and Fortuin, "Exact Langevin Dynamics with Stochastic Gradients", AABI 2020.
"""

from __future__ import annotations

from ggmc.errors import BadInput, require_count
from ggmc.optim.groups import Given
from ggmc.optim.oabao import Midpoint
from ggmc.optim.obabo import Endpoint
from ggmc.optim.trajectory_sampler import TrajectorySampler

SCHEMES = ("OABAO", "O(ABA)O", "OBABO")


class GGMC(TrajectorySampler):
    """`torch.optim.SGD` made a sampler: `step` takes the gradient of the mean loss over a batch.

    Steps outside trajectories are plain, unadjusted sampling.

    Args:
        parameters: A module, several parameters, or parameter groups with an "lr" and a "weight_decay" of their own.
            Frozen parameters are left alone.
        lr: ℓ = num_data · h², the learning rate of SGD up to a factor of (1 + momentum)/2, for step size h.
        momentum: β = e^(−γh), SGD's momentum, from 0 to 1.
        num_data: The number of examples in all.
        temperature: T; 0 is optimisation.
        weight_decay: A Gaussian prior of variance 1/(num_data · weight_decay).
        scheme: "OABAO": friction at every step. "O(ABA)O": friction between trajectories only, which needs no noise on
            the way and suits batches met out and back (outside trajectories there are no ends, and it acts at each
            step). With both, the parameters wait at midpoints. "OBABO": friction at every step, the parameters wait
            at θ, and a trajectory ends with one more gradient: see `ggmc.optim.obabo`.
        friction_every: Friction acts at each so many-th step, for the time of all of them: less noise to draw, and as
            exact. A tested trajectory has a multiple of it as its number of steps, or fewer than that.
        seed: Of the noise; None for one drawn from torch's own generator.

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
        >>> groups = [{"params": net.weight}, {"params": net.bias, "lr": 0.001, "weight_decay": 0.0}]
        >>> optimiser = optim.GGMC(groups, lr=0.01, num_data=100, weight_decay=0.01)
    """

    def __init__(
        self,
        parameters: Given,
        lr: float,
        momentum: float = 0.9,
        *,
        num_data: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        scheme: str = "OABAO",
        friction_every: int = 1,
        seed: int | None = None,
    ):
        if scheme not in SCHEMES:
            raise BadInput(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
        require_count("friction_every", friction_every)
        if scheme == "O(ABA)O" and friction_every != 1:
            raise BadInput(
                f"friction_every is {friction_every}, but O(ABA)O has friction at a trajectory's ends only: use OABAO "
                "or OBABO, or leave friction_every out"
            )
        self._scheme, self._friction_every = scheme, friction_every
        every = None if scheme == "O(ABA)O" else friction_every
        integrator = Endpoint(friction_every) if scheme == "OBABO" else Midpoint(every)
        super().__init__(
            parameters, integrator, seed, lr=lr, momentum=momentum, num_data=num_data, temperature=temperature,
            weight_decay=weight_decay,
        )  # fmt: skip

    def _kind(self) -> str:
        every = f" and friction_every {self._friction_every}" if self._friction_every > 1 else ""
        return f"GGMC with scheme {self._scheme}{every}"
