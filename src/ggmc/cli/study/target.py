"""The target that a study describes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributions import HalfNormal

from ggmc.bayes import likelihoods, nets, priors
from ggmc.bayes.posterior import Posterior
from ggmc.cli.study import python_code
from ggmc.cli.study.data import Examples
from ggmc.cli.study.fields import PYTHON
from ggmc.cli.study.read import Study
from ggmc.cli.study.tables import NOISY
from ggmc.errors import BadInput
from ggmc.plain import PlainDict
from ggmc.targets.base import Target

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "swish": nn.SiLU}
PRIORS: dict[str, type[priors.Prior]] = {
    "gaussian": priors.Gaussian,
    "laplace": priors.Laplace,
    "student-t": priors.StudentT,
    "cauchy": priors.Cauchy,
    "generalised-normal": priors.GeneralisedNormal,
    "correlated-filters": priors.CorrelatedFilters,
    "horseshoe": priors.Horseshoe,
    "improper": priors.Improper,
}
DEFAULT_PRIOR = {"family": "gaussian", "scale": 1.0, "fan_in": True}


def own_target(study: Study) -> Target:
    """The target that the user's own function makes.

    Args:
        study: With `python` in [data].
    """
    with study.about("data", "python"):
        target = python_code.call(study, study.table("data")["python"])
        if not isinstance(target, Target):
            raise BadInput(f"the function must return a target, such as ggmc.Posterior(...), got {target!r}")
    return target


def posterior(study: Study, examples: Examples) -> Posterior:
    """The posterior of a network.

    Args:
        study: Its [model] and [prior].
        examples: The data.
    """
    model, seed = study.table("model"), study.table("run").get("seed", 0)
    likelihood = _likelihood(study, model, examples.classes)
    # The caller's own random numbers stay as they are.
    with study.about("model"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = _net(study, model, examples, _outputs(model, examples.classes))
    with study.about("prior"):
        prior = _prior(study)
        priors.assign(prior, dict(net.named_parameters()), net)  # so that what is wrong with it is said here
    with study.about("model"):
        double = torch.float64 if model.get("double", False) else torch.float32
        return Posterior(
            net.to(double),
            likelihood,
            prior,
            examples.x.to(double),
            examples.y if examples.classes else examples.y.to(double),
            start=model.get("start", "apart"),
            views=_views(study, model.get("views", "none")),
            jitter=model.get("jitter", 0.0),
            # Said, not measured, so that a seed gives the same draws and a resumed run goes on bit for bit.
            vectorise=model.get("vectorise", model.get("net", "mlp") == "mlp"),
        )


def _outputs(model: PlainDict, classes: int) -> int:
    likelihood = _likelihood_name(model, classes)
    return {"categorical": classes, "heteroscedastic": 2}.get(likelihood, 1)


def _likelihood_name(model: PlainDict, classes: int) -> str:
    return model.get("likelihood", "categorical" if classes else "gaussian")


def _likelihood(study: Study, model: PlainDict, classes: int) -> likelihoods.Likelihood:
    name = _likelihood_name(model, classes)
    with study.about("model", "likelihood"):
        if name == "categorical" and not classes:
            raise BadInput('"categorical" needs data with classes, and these have numbers: use "gaussian"')
        settings: PlainDict = {}
        if name in NOISY:
            noise = model.get("noise", 1.0)
            settings["noise"] = HalfNormal(float(noise["half_normal"])) if isinstance(noise, dict) else noise
        elif "noise" in model:
            raise BadInput(f"the likelihood {name} has no noise: leave the key noise out")
        if name == "student-t" and "df" in model:
            settings["df"] = model["df"]
        return likelihoods.NAMES[name](**settings)


def _net(study: Study, model: PlainDict, examples: Examples, outputs: int) -> nn.Module:
    name, shape, dropout = model.get("net", "mlp"), examples.x.shape[1:], model.get("dropout", 0.0)
    if PYTHON.fullmatch(name):
        net = python_code.call(study, name)
        if not isinstance(net, nn.Module):
            raise BadInput(f"{name} must return a torch module, got {type(net).__name__}")
        return net
    if name == "mlp":
        activation = ACTIVATIONS[model.get("activation", "relu")]
        made = (lambda: nn.Sequential(activation(), nn.Dropout(dropout))) if dropout else activation
        return nets.MLP([shape.numel(), *model.get("widths", [50]), outputs], made)
    if len(shape) != 3:
        raise BadInput(f'net = "{name}" needs images, and these data have {shape.numel()} numbers each: use "mlp"')
    if name == "resnet20":
        return nets.resnet20(model.get("form", "frn"), outputs, shape[0])
    net = nets.CNN(shape[0], outputs, shape[-1], model.get("widths", [16, 32]))
    if dropout:
        net.set_submodule("activation", nn.Sequential(nn.ReLU(), nn.Dropout(dropout)))
    return net


def _prior(study: Study) -> priors.Prior | dict[Any, priors.Prior]:
    given = study.table("prior") or DEFAULT_PRIOR
    if any(isinstance(item, dict) for item in given.values()):
        return {pattern: _one_prior(settings) for pattern, settings in given.items()}
    return _one_prior(given)


def _one_prior(settings: PlainDict) -> priors.Prior:
    named = dict(settings)
    return PRIORS[named.pop("family", "gaussian")](**named)


def _views(study: Study, given: str | PlainDict) -> nets.FrozenViews | nets.FreeViews | None:
    settings: PlainDict = dict(given) if isinstance(given, dict) else {"kind": given}
    kind = settings.pop("kind")
    with study.about("model", "views"):
        if kind == "frozen":
            return nets.FrozenViews(**settings)
        if "number" in settings:
            raise BadInput('number belongs to kind = "frozen": leave it out')
        return nets.FreeViews(**settings) if kind == "free" else None
