"""Exact Langevin sampling with stochastic gradients, for PyTorch."""

from ggmc import optim, schedule
from ggmc.bayes import likelihoods, metrics, nets, priors
from ggmc.bayes.nets import replace_batchnorm
from ggmc.bayes.posterior import Posterior
from ggmc.bayes.predict import Prediction
from ggmc.data_density import DataDensity
from ggmc.guides import ControlVariate, Exact, Minibatch, Surrogate
from ggmc.kernels import AMAGOLD, GGMC, HMC, MALA, MALT, SGHMC, SGLD
from ggmc.learning_rate import from_learning_rate, to_learning_rate
from ggmc.pyro import from_pyro
from ggmc.retrace import retrace
from ggmc.run import sample
from ggmc.tape import Tape
from ggmc.target import Density
from ggmc.tempering import tempering
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
    "Posterior",
    "Prediction",
    "Surrogate",
    "Tape",
    "Trace",
    "from_learning_rate",
    "from_pyro",
    "likelihoods",
    "metrics",
    "nets",
    "optim",
    "priors",
    "replace_batchnorm",
    "retrace",
    "sample",
    "schedule",
    "tempering",
    "to_learning_rate",
]
