"""init(): joins the processes that torchrun has started. Public as `ggmc.distributed`.

    torchrun --nproc-per-node=2 script.py

runs a script that calls `ggmc.distributed.init()` first, and is otherwise written for one process. What the processes
say to each other, by `torch.distributed`, is in `ranks.py`.
"""

from __future__ import annotations

import atexit
import logging
import os
from datetime import timedelta

import torch
import torch.distributed as dist

from ggmc.errors import BadInput, require_positive
from ggmc.sampling.ranks import ALONE, Ranks, use

__all__ = ["init"]


def init(split: str = "data", backend: str | None = None, timeout: float = 1800.0) -> Ranks:
    """Carry out the runs that follow together with the other processes that torchrun has started.

    Every process runs the whole script, and gets the whole trace. Without torchrun it does nothing, and the script runs
    in one process. It also gives all ranks the same seed of torch's own generator, so that networks begin alike.

    Args:
        split: "data": every rank sums over its part of the data, with one all-reduce of the gradient in each step and
            one of the potential in each test. The draws are those of one process, up to the order of summation: with
            fixed settings to many digits, while a warm-up that tunes makes more of the last ones with every trajectory.
            "chains": every rank has its part of the chains, which it warms up by itself, and needs no other rank for a
            step.
        backend: Of torch.distributed; by default gloo for tensors on CPUs, and nccl for those on GPUs.
        timeout: Seconds after which a rank that does not answer is given up.

    Returns:
        This process among the ranks: `ranks.first` says whether it should print and plot.

    Example:
        >>> import ggmc
        >>> ranks = ggmc.distributed.init()
        >>> ranks.first, ranks.number                       # without torchrun
        (True, 1)
    """
    require_positive("timeout", timeout)
    Ranks(split=split)  # refuses another word
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        use(ALONE)
        return ALONE
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if local >= torch.cuda.device_count():
            raise BadInput(f"rank {local} of this machine has no GPU of its own: start at most one process for each")
        torch.cuda.set_device(local)
    if not dist.is_initialized():
        chosen = backend or ("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
        dist.init_process_group(chosen, timeout=timedelta(seconds=timeout))
        atexit.register(_close)  # else gloo's threads abort the process at its end
    device = torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), split, device)
    torch.manual_seed(ranks.exchange(torch.initial_seed() % 2**63)[0])
    if not ranks.first:
        logging.getLogger("ggmc").addFilter(_only_errors)  # what concerns all ranks is said once, by the first
    use(ranks)
    return ranks


def _only_errors(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


def _close() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
