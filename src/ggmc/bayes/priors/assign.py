"""Which tensor of a module has which prior."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from ggmc.bayes.priors.families import Gaussian, Of
from ggmc.bayes.priors.prior import Prior, check_scalar
from ggmc.errors import BadInput

Wanted = Prior | Distribution
Key = str | type[nn.Module]
ByKey = Mapping[str, Wanted] | Mapping[type[nn.Module], Wanted] | Mapping[Key, Wanted]


def as_prior(given: Wanted) -> Prior:
    """A prior as it is, and a scalar torch distribution as the prior of every element.

    Args:
        given: A prior, or a scalar torch distribution on all real numbers.

    Example:
        >>> from torch.distributions import Gumbel, Normal
        >>> from ggmc.bayes.priors import as_prior
        >>> as_prior(Normal(0.0, 2.0))
        Gaussian(scale=2.0, fan_in=False, loc=0.0)
        >>> as_prior(Gumbel(0.0, 2.0))
        Of(distribution=Gumbel(loc: 0.0, scale: 2.0), fan_in=False)
    """
    if isinstance(given, Prior):
        return given
    if not isinstance(given, Distribution):
        name = f"the class {given.__name__}: make one" if isinstance(given, type) else repr(given)
        raise BadInput(f"a prior must be one of ggmc.priors or a scalar torch.distributions.Distribution, got {name}")
    if type(given) is Normal:
        check_scalar("the distribution of a weight", given)
        return Gaussian(given.scale.item(), loc=given.loc.item())  # the same distribution, but faster
    return Of(given)


def assign(
    prior: Wanted | ByKey, parameters: Mapping[str, Tensor], module: nn.Module | None = None
) -> dict[str, Prior]:
    """The prior of each named tensor.

    Args:
        prior: One prior or scalar torch distribution for all, or a mapping of keys to these. A key is a pattern of
            names (`"conv*.weight"`, `"*.bias"`; `*` also matches dots) or a type of layer (`nn.Linear`: the tensors
            that such layers own directly). The first key that matches a tensor wins.
        parameters: The tensors by name.
        module: The module that owns them; needed for keys that are types of layers.

    Returns:
        One prior for each name. A tensor that no key matches is an error, not a flat prior; so is a key that no tensor
        is left for.

    Example:
        >>> import torch
        >>> from ggmc.bayes import priors
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        >>> parameters = dict(net.named_parameters())
        >>> given = priors.assign({"*.bias": priors.Gaussian(10.0), "*": priors.Laplace(fan_in=True)}, parameters, net)
        >>> given["2.weight"], given["2.bias"]
        (Laplace(scale=1.0, fan_in=True), Gaussian(scale=10.0, fan_in=False, loc=0.0))
        >>> priors.assign({"*.weight": priors.Gaussian()}, parameters, net)
        Traceback (most recent call last):
        ...
        ggmc.errors.BadInput: no prior for 0.bias, 2.bias: add keys that match them, such as "*", with
        priors.Improper() if a flat prior is meant
    """
    if not isinstance(prior, Mapping):
        given = dict.fromkeys(parameters, as_prior(prior))
    else:
        given = _by_key(prior, list(parameters), module)
    for name, tensor in parameters.items():
        given[name].check(name, tensor.shape)
    return given


def _by_key(prior: ByKey, names: list[str], module: nn.Module | None) -> dict[str, Prior]:
    by_key: dict[Key, Wanted] = dict(prior.items())
    winners: dict[str, Key] = {}  # tensor: key
    for key in by_key:
        matched = _matches(key, names, module)
        if not matched:
            raise BadInput(f"{_show(key)} matches none of the parameters, which are {_some(names)}")
        if all(name in winners for name in matched):
            taken = ", ".join(dict.fromkeys(_show(winners[name]) for name in matched))
            raise BadInput(
                f"{_show(key)} comes too late: {_some(matched)} already went to {taken}: put the narrower key first"
            )
        for name in matched:
            winners.setdefault(name, key)
    missing = [name for name in names if name not in winners]
    if missing:
        raise BadInput(
            f'no prior for {_some(missing)}: add keys that match them, such as "*", with priors.Improper() if a flat '
            "prior is meant"
        )
    return {name: as_prior(by_key[winners[name]]) for name in names}


def _matches(key: Key, names: list[str], module: nn.Module | None) -> list[str]:
    if isinstance(key, str):
        return [name for name in names if fnmatchcase(name, key)]
    if not (isinstance(key, type) and issubclass(key, nn.Module)):
        raise BadInput(f"a key must be a pattern of names or a type of layer such as nn.Linear, got {key!r}")
    if module is None:
        raise BadInput(f"the key {_show(key)} is a type of layer, but no module was given to look for layers in")
    owned = _owners(module)
    return [name for name in names if any(isinstance(layer, key) for layer in owned.get(name, []))]


def _owners(module: nn.Module) -> dict[str, list[nn.Module]]:
    """The layers that own each tensor; a tensor shared by several goes by its first name, as in `named_parameters`."""
    first_name: dict[int, str] = {}
    owners: dict[str, list[nn.Module]] = {}
    for prefix, layer in module.named_modules():
        for own_name, tensor in layer.named_parameters(recurse=False):
            name = first_name.setdefault(id(tensor), f"{prefix}.{own_name}" if prefix else own_name)
            owners.setdefault(name, []).append(layer)
    return owners


def _show(key: Key) -> str:
    return repr(key) if isinstance(key, str) else key.__name__


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:20])
    return shown if len(names) <= 20 else f"{shown} and {len(names) - 20} more"
