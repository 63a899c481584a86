"""What `Posterior` is given, module, data and augmented views, checked and converted; errors say what to correct."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves, tree_map

from ggmc.bayes.module_lock import alone_in
from ggmc.bayes.nets import FreeViews, FrozenViews
from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.targets.data import Data, InMemory, as_data


def own_copy(module: Tree) -> nn.Module:
    """A copy of the user's module, who may go on using theirs."""
    if not isinstance(module, nn.Module):
        raise BadInput(f"module must be a torch.nn.Module, got {module!r}")
    for name, parameter in module.named_parameters():
        if is_lazy(parameter):
            raise BadInput(f"the parameter {name} has no shape yet: call the module once on some data first")
        if not parameter.is_floating_point():
            raise BadInput(
                f"the parameter {name} is {parameter.dtype}, and only real numbers can be sampled: register it as a "
                "buffer"
            )
        if parameter.device.type == "meta":
            raise BadInput(f"the parameter {name} is on the meta device and has no values: use module.to_empty()")
    devices = sorted({str(tensor.device) for tensor in [*module.parameters(), *module.buffers()]})
    if len(devices) > 1:
        raise BadInput(f"the module lies on several devices, {', '.join(devices)}: move it to one with module.to()")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise BadInput("the module has no parameter with requires_grad=True: there is nothing to sample")
    return copy.deepcopy(module)


def sampled_parameters(module: nn.Module, sampled: str | Sequence[str] | None) -> dict[str, Tensor]:
    """The tensors to sample, by name, tied ones once: those with a gradient, or of these those that match."""
    open_ones = {name: tensor.detach() for name, tensor in module.named_parameters() if tensor.requires_grad}
    if sampled is None:
        return open_ones
    patterns = [sampled] if isinstance(sampled, str) else list(sampled) if isinstance(sampled, Sequence) else []
    if not patterns or not all(isinstance(pattern, str) for pattern in patterns):
        raise BadInput(f'sampled must be a pattern of names such as "head.*", or several, got {sampled!r}')
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in open_ones):
            raise BadInput(f"sampled={pattern!r} matches none of the parameters, which are {', '.join(open_ones)}")
    return {name: t for name, t in open_ones.items() if any(fnmatchcase(name, pattern) for pattern in patterns)}


def check_views(views: object) -> None:
    """Refuse what does not say how images are augmented."""
    if views is not None and not isinstance(views, FrozenViews | FreeViews):
        what = f"the class {views.__name__}: make one" if isinstance(views, type) else repr(views)
        raise BadInput(
            f"views must be ggmc.nets.FrozenViews(...) or FreeViews(...), got {what}. GuideViews go into the guide, as "
            "in ggmc.Minibatch(size, augment=ggmc.nets.GuideViews())"
        )


def called(module: nn.Module, weights: dict[str, Tensor] | None, x: Tree) -> Tensor:
    """The module's output: a tuple is several arguments, a dict named ones."""
    arguments, named = ((), x) if isinstance(x, dict) else (tuple(x) if isinstance(x, tuple | list) else (x,), {})
    with alone_in(module):
        if weights is None:
            return module(*arguments, **named)
        return torch.func.functional_call(module, weights, arguments, named)


def posterior_data(x: Tree, y: Tree, views: FrozenViews | FreeViews | None, like: Tensor) -> Data:
    """(x, y), with the codes of frozen views where there are any; everything in memory is checked.

    Args:
        x: Inputs, or a data set of pairs.
        y: Outcomes, or None where x is a data set.
        views: How images are augmented.
        like: A tensor whose precision and device real inputs and outcomes take.
    """
    if y is None:
        data = as_data(x, like.device)
    else:
        x, y = tree_map(as_tensor, x), as_tensor(y)
        lengths = {len(leaf) for leaf in tree_leaves(x)}
        if lengths != {len(y)}:
            several = " or ".join(map(str, sorted(lengths)))
            raise BadInput(f"x and y must have one row per example each, got {several} and {len(y)} rows")
        data = InMemory((x, y), like.device)
    few = data.slice(0, 1)
    if not isinstance(few, tuple | list) or len(few) != 2:
        raise BadInput("a data set for a posterior must give pairs (x, y): give x and y, or a Dataset of pairs")
    if not isinstance(data, InMemory):
        if isinstance(views, FrozenViews):
            raise BadInput("FrozenViews need the images in memory: give x and y as tensors")
        return data
    x, y = data.slice(0, len(data))
    for what, tree in (("x", x), ("y", y)):
        for leaf in tree_leaves(tree):
            check_finite(what, leaf)
    x, y = in_precision_of(like, x), in_precision_of(like, y)
    codes = (views.codes(len(data)),) if isinstance(views, FrozenViews) else ()
    return InMemory((x, y, *codes), like.device)


def as_tensor(given: Tree) -> Tensor:
    """A tensor as it is, an array or a list as a tensor."""
    if not isinstance(given, Tensor):
        array = np.asarray(given) if hasattr(given, "__array__") else None
        if array is None or array.dtype.kind not in "biuf":
            raise BadInput(f"x and y must be tensors or arrays of numbers, got {type(given).__name__}")
        given = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    if given.dim() == 0:
        raise BadInput("x and y must have one row per example, got a single number")
    return given


def check_finite(what: str, leaf: Tensor) -> None:
    """Refuse NaN and infinities, and say where the first one is."""
    if not leaf.is_floating_point() or leaf.isfinite().all():
        return
    rows = (~leaf.isfinite()).flatten(1).any(1) if leaf.dim() > 1 else ~leaf.isfinite()
    first = int(rows.nonzero()[0])
    value = leaf[first].flatten()[~leaf[first].flatten().isfinite()][0].item()
    raise BadInput(f"{what} has {value} in row {first} ({int(rows.sum())} such rows): correct or remove these rows")


def in_precision_of(like: Tensor, x: Tree) -> Tree:
    """Real numbers in the module's precision, and all of them on its device."""
    return tree_map(lambda leaf: leaf.to(like.device, like.dtype if leaf.is_floating_point() else leaf.dtype), x)


def shapes_of(x: Tree) -> list[torch.Size]:
    """The shapes of all inputs."""
    return [leaf.shape for leaf in tree_leaves(x)]


def check_form(x: Tree, training: list[torch.Size]) -> None:
    """Refuse new inputs that are not in the form of the training inputs, whose shapes are given.

    Most modules would accept a single input without its dimension of examples, and give nonsense.
    """
    found = shapes_of(x)
    if len(found) != len(training):
        raise BadInput(f"x must be {len(training)} tensors, as in training, got {len(found)}")
    for shape, wanted in zip(found, training, strict=True):
        if len(shape) != len(wanted):
            remedy = "for a single input, give x[None]" if len(shape) < len(wanted) else "give one row per input"
            form = ", ".join(["n", *map(str, wanted[1:])])
            raise BadInput(
                f"x must have as many dimensions as the training inputs, which are [{form}], got shape {list(shape)}: "
                f"{remedy}"
            )
