"""Exact Langevin sampling with stochastic gradients, for PyTorch.

Subpackages: `datasets` data of the literature; `targets` what is sampled; `guides` which gradient drives the motion;
`bayes` torch modules as targets; `dynamics` how chains move, and the test; `kernels` which sampler; `warmup` tuning;
`trace` the draws; `sampling` the loop; `optim` the same as torch optimisers; `report` one page that says
whether to trust a run.

Words used throughout: a *letter* is one substep of the integrator (O friction, B kick, A drift), a *word* such as OBABO
is a splitting scheme made of them, a *plan* the substeps of one trajectory. A *guide*, bound to a target, becomes the
gradient field that kicks use. A *tape* holds the minibatch numbers that one trajectory reads, drawn in advance; an
*order* is the distribution of tapes. A *kernel* is a sampler's settings, a *program* all that they say about its word.
"""

from ggmc import datasets, optim, report
from ggmc.bayes import likelihoods, metrics, nets, priors
from ggmc.bayes.nets import replace_batchnorm
from ggmc.bayes.posterior import Posterior
from ggmc.bayes.predict import Prediction
from ggmc.dynamics import schedule
from ggmc.dynamics.learning_rate import from_learning_rate, to_learning_rate
from ggmc.dynamics.stages import STAGES
from ggmc.guides import ControlVariate, Exact, Minibatch, Surrogate
from ggmc.guides.orders import CustomOrder
from ggmc.kernels import AMAGOLD, GGMC, HMC, MALA, MALT, SGHMC, SGLD, SGNHT
from ggmc.kernels.retrace import retrace
from ggmc.sampling import distributed, tensorboard
from ggmc.sampling import jug_tasks as jug
from ggmc.sampling.resume import resume
from ggmc.sampling.sample import sample
from ggmc.sampling.temperature_sweep import tempering
from ggmc.targets.data_density import DataDensity
from ggmc.targets.density import Density
from ggmc.targets.pyro import from_pyro
from ggmc.trace.merged import merge
from ggmc.trace.run_folder import RunFolder
from ggmc.trace.save_load import load
from ggmc.trace.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "AMAGOLD",
    "GGMC",
    "HMC",
    "MALA",
    "MALT",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "STAGES",
    "ControlVariate",
    "CustomOrder",
    "DataDensity",
    "Density",
    "Exact",
    "Minibatch",
    "Posterior",
    "Prediction",
    "RunFolder",
    "Surrogate",
    "Trace",
    "datasets",
    "distributed",
    "from_learning_rate",
    "from_pyro",
    "jug",
    "likelihoods",
    "load",
    "merge",
    "metrics",
    "nets",
    "optim",
    "priors",
    "replace_batchnorm",
    "report",
    "resume",
    "retrace",
    "sample",
    "schedule",
    "tempering",
    "tensorboard",
    "to_learning_rate",
]
