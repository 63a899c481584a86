"""Kernels: one sampler per file, its equations at the top.

A kernel is a frozen dataclass of settings. `ggmc.sample` calls `kernel.sampler(target, field)`; `kernel.bind(target)`
gives `init` and `step` for a loop of one's own. `base.py` is the interface; `program.py` and `words.py` carry out
splitting schemes; `retrace.py` tells whether a sampler can retrace its steps. A new kernel is one file, and an entry in
`KERNELS` of `serialise.py`, from which stored runs read it back.
"""

from ggmc.kernels.amagold import AMAGOLD
from ggmc.kernels.base import Init, Kernel, Sampler, Step
from ggmc.kernels.ggmc import GGMC
from ggmc.kernels.hmc import HMC
from ggmc.kernels.mala import MALA
from ggmc.kernels.malt import MALT
from ggmc.kernels.serialise import KernelSettings, from_dict, to_dict
from ggmc.kernels.sghmc import SGHMC
from ggmc.kernels.sgld import SGLD
from ggmc.kernels.sgnht import SGNHT
from ggmc.kernels.words import Program, WordKernel, WordSampler

__all__ = [
    "AMAGOLD", "GGMC", "HMC", "MALA", "MALT", "SGHMC", "SGLD", "SGNHT", "Init", "Kernel", "KernelSettings", "Program",
    "Sampler", "Step", "WordKernel", "WordSampler", "from_dict", "to_dict",
]  # fmt: skip
