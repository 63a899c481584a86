"""What is to be sampled: a module, its parameters, or parameter groups, as `torch.optim` takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ggmc.errors import BadInput
from ggmc.plain import PlainDict, PlainMapping

Given = nn.Module | Iterable[Tensor] | Iterable[PlainDict]
"""A module, several parameters, or several parameter groups."""

Group = PlainDict


def as_groups(given: Given) -> list[Group]:
    """Parameter groups of the parameters to sample: each once, none that is frozen.

    Args:
        given: A module, several parameters, or dictionaries with "params" and settings of their own.

    Returns:
        One group of a module or of plain parameters, else one for each dictionary.

    Example:
        >>> from torch import nn
        >>> from ggmc.optim.groups import as_groups
        >>> net = nn.Linear(3, 2)
        >>> net.bias.requires_grad_(False)
        Parameter containing: ...
        >>> [tuple(p.shape) for group in as_groups([net.weight, net.bias, net.weight]) for p in group["params"]]
        [(2, 3)]
        >>> [group.get("lr") for group in as_groups([{"params": net.weight}, {"params": net.bias, "lr": 0.1}])]
        [None, 0.1]
    """
    if isinstance(given, Tensor):
        raise BadInput("expected a module or several parameters, got a single tensor: put it in a list")
    if isinstance(given, type) or not isinstance(given, nn.Module | Iterable):
        what = f"the class {given.__name__}: make one" if isinstance(given, type) else repr(given)
        raise BadInput(f"expected a module, parameters or groups of parameters, got {what}")
    items: list[Any] = [given] if isinstance(given, nn.Module) else list(given)
    dictionaries = [isinstance(item, dict) for item in items]
    if any(dictionaries) and not all(dictionaries):
        raise BadInput("got both parameters and groups of parameters: put every parameter in a group")
    if any(dictionaries):
        groups = [as_group(item, number) for number, item in enumerate(items)]
    else:
        groups = [{"params": _trainable(_named(given, ""))}]
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not parameters:
        raise BadInput("no parameter requires a gradient, so there is nothing to sample: unfreeze some")
    require_one_vector(parameters)
    return groups


def as_group(given: PlainMapping, number: int) -> Group:
    """One group, without what is frozen.

    Args:
        given: "params", a module, a parameter or several, and settings.
        number: Which group it is, for messages.
    """
    if "params" not in given:
        raise BadInput(f'group {number} has no "params", only {sorted(given)}: name its parameters there')
    inside = given["params"]
    named = _named([inside] if isinstance(inside, Tensor) else inside, f" of group {number}")
    return {**given, "params": _trainable(named)}


def require_one_vector(parameters: Sequence[Tensor]) -> None:
    """Refuse parameters that cannot be parts of one vector.

    Args:
        parameters: Of all groups.
    """
    first = parameters[0]
    for number, parameter in enumerate(parameters):
        if (parameter.dtype, parameter.device) != (first.dtype, first.device):
            raise BadInput(
                f"parameter {number} is {parameter.dtype} on {parameter.device}, but the first is {first.dtype} on "
                f"{first.device}: all must be alike"
            )
    once = {id(parameter): parameter.data_ptr() for parameter in parameters if parameter.numel()}
    if len(set(once.values())) < len(once):
        raise BadInput("two different parameters share their memory: tie them by using one Parameter in both places")


def _named(given: nn.Module | Iterable[Any], where: str) -> Iterator[tuple[str, Any]]:
    pairs = given.named_parameters() if isinstance(given, nn.Module) else enumerate(given)
    for name, parameter in pairs:
        yield f"{name}{where}", parameter


def _trainable(named: Iterable[tuple[str, Any]]) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    for name, parameter in named:
        if not isinstance(parameter, Tensor):
            raise BadInput(f"parameter {name} is a {type(parameter).__name__}: give a module, parameters or groups")
        if is_lazy(parameter):
            raise BadInput(f"parameter {name} has no shape yet: run a batch through the module first")
        if not parameter.is_floating_point():
            raise BadInput(
                f"parameter {name} has dtype {parameter.dtype}: only real numbers can be sampled, leave it out"
            )
        if parameter.requires_grad:
            _require_usable(name, parameter)
            found[id(parameter)] = parameter
    return list(found.values())


def _require_usable(name: str, parameter: Tensor) -> None:
    if not parameter.is_leaf:
        raise BadInput(f"parameter {name} is computed from others: sample those that it is computed from")
    if parameter.dtype not in (torch.float32, torch.float64):
        raise BadInput(
            f"parameter {name} has dtype {parameter.dtype}, too coarse to retrace a step: keep parameters in float32 "
            "and compute in low precision with torch.autocast"
        )
    if parameter.device.type != "meta" and not parameter.isfinite().all():
        raise BadInput(f"parameter {name} is not finite: begin at weights inside the support")
