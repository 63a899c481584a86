"""Exact Langevin sampling with stochastic gradients, for PyTorch."""

from ggmc import schedule
from ggmc.data_density import DataDensity
from ggmc.guides import ControlVariate, Exact, Minibatch, Surrogate
from ggmc.kernels import AMAGOLD, GGMC, HMC, MALA, MALT, SGHMC, SGLD
from ggmc.learning_rate import from_learning_rate, to_learning_rate
from ggmc.pyro import from_pyro
from ggmc.retrace import retrace
from ggmc.run import sample
from ggmc.tape import Tape
from ggmc.target import Density
from ggmc.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "AMAGOLD",
    "GGMC",
    "HMC",
    "MALA",
    "MALT",
    "SGHMC",
    "SGLD",
    "ControlVariate",
    "DataDensity",
    "Density",
    "Exact",
    "Minibatch",
    "Surrogate",
    "Tape",
    "Trace",
    "from_learning_rate",
    "from_pyro",
    "retrace",
    "sample",
    "schedule",
    "to_learning_rate",
]
