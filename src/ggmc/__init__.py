"""Exact Langevin sampling with stochastic gradients, for PyTorch."""

from ggmc.guides import Exact
from ggmc.kernels import GGMC, HMC, MALA, MALT
from ggmc.learning_rate import from_learning_rate, to_learning_rate
from ggmc.pyro import from_pyro
from ggmc.run import sample
from ggmc.target import Density
from ggmc.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "GGMC",
    "HMC",
    "MALA",
    "MALT",
    "Density",
    "Exact",
    "Trace",
    "from_learning_rate",
    "from_pyro",
    "sample",
    "to_learning_rate",
]
