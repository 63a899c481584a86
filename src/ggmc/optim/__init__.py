"""The samplers as `torch.optim.Optimizer`s: one changed line turns a training loop into a monitored sampler.

    optimiser = ggmc.optim.GGMC(module, lr=0.01, momentum=0.9, num_data=50_000, weight_decay=5e-4)
    for x, y in loader:
        optimiser.zero_grad()
        loss_fn(module(x), y).backward()        # the mean over the batch
        optimiser.step()

Learning-rate schedulers, parameter groups, gradient scalers and `state_dict()` work as with any optimiser. The learning
rate is ℓ = num_data · h² for step size h in all of them. To know whether to trust the draws, mark trajectories, with
`total_loss` the loss summed over all data in float64:

    optimiser.begin_trajectory()
    ...                                         # the loop above
    info = optimiser.end_trajectory(total_loss)                 # info.log_accept: near 0 is good
    info = optimiser.end_trajectory(total_loss, reject=True)    # or make the chain exact

`Collector` keeps the draws as a trace, in memory or in a folder from which the loop goes on after a crash.

**Where the parameters are.** With `GGMC` and `HMC` the gradient is taken in the middle of a step, so between steps the
parameters are at midpoints. Without trajectories these are as good draws as any, up to the O(h²) of all unadjusted
sampling. Exact draws are the parameters after `end_trajectory(..., reject=True)`, which are at θ itself. Keep every one
of them, also where a rejection repeats the last. With `GGMC(scheme="OBABO")`, `SGHMC` and `SGLD` the parameters are
always at θ; `OBABO` needs one more gradient at the end of a trajectory, as `ggmc.optim.obabo` shows.
"""

from ggmc.optim.collector import Collector
from ggmc.optim.ggmc import GGMC
from ggmc.optim.hmc import HMC
from ggmc.optim.sghmc import SGHMC
from ggmc.optim.sgld import SGLD

__all__ = ["GGMC", "HMC", "SGHMC", "SGLD", "Collector"]
