"""Finds BatchNorm, dropout and other layers whose output is not a function of the parameters and one example.

What they do to exactness, and how they predict; for posteriors and for training loops alike.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.dropout import _DropoutNd  # pyright: ignore[reportPrivateUsage]

from ggmc.bayes.data_checks import called, in_precision_of
from ggmc.bayes.module_lock import alone_in
from ggmc.errors import BadInput
from ggmc.plain import Tree


def random_layers(module: nn.Module | None) -> Iterator[tuple[str, nn.Module]]:
    """Layers that are random, or normalise over the batch, in training mode at least.

    Args:
        module: Where to search; None has no layers.

    Example:
        >>> from torch import nn
        >>> from ggmc.bayes.module_checks import random_layers
        >>> net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Dropout(0.0))
        >>> [name for name, _ in random_layers(net)]
        ['1', '2']
    """
    for name, layer in module.named_modules() if module is not None else ():
        random = (isinstance(layer, _DropoutNd) and layer.p > 0) or isinstance(layer, nn.RReLU)
        random = random or (isinstance(layer, nn.RNNBase | nn.MultiheadAttention) and layer.dropout > 0)
        if random or normalises_over_batch(layer):
            yield name, layer


def is_random_now(layer: nn.Module) -> bool:
    """Whether one of these layers is in a mode that voids a test: training, or BatchNorm without fixed statistics.

    Args:
        layer: One of `random_layers`.

    Example:
        >>> from torch import nn
        >>> from ggmc.bayes.module_checks import is_random_now
        >>> is_random_now(nn.Dropout()), is_random_now(nn.Dropout().eval())
        (True, False)
        >>> is_random_now(nn.BatchNorm1d(2, track_running_stats=False).eval())
        True
    """
    return layer.training or (isinstance(layer, _BatchNorm) and layer.running_mean is None)


def normalises_over_batch(layer: nn.Module) -> bool:
    """Whether it is BatchNorm, of whatever dimension."""
    return isinstance(layer, _BatchNorm)


def not_exact_because_of(module: nn.Module) -> str | None:
    """The layer that makes the module's output random, or dependent on the rest of the batch; with the fix."""
    for name, layer in random_layers(module):
        if not is_random_now(layer):
            continue
        where = f"the layer {name or 'itself'} ({type(layer).__name__})"
        if normalises_over_batch(layer):
            or_eval = "module.eval() to fix its statistics, " if layer.training else ""
            return (
                f"{where} normalises over the batch, so U is not a sum over examples. Use "
                f"ggmc.replace_batchnorm(module), {or_eval}or adjust=False"
            )
        return (
            f"{where} is random: it gives another value at each call, so U is not a function of the parameters. Use "
            "module.eval(), or adjust=False"
        )
    return None


def changed_buffer(module: nn.Module, arguments: Tree) -> str | None:
    """The buffer that the module writes to when called, if there is one: then U depends on earlier calls."""
    probe = copy.deepcopy(module)
    before = {name: buffer.clone() for name, buffer in probe.named_buffers()}
    with torch.no_grad():
        called(probe, None, arguments)
    for name, buffer in probe.named_buffers():
        if name not in before or not torch.equal(buffer, before[name]):
            return (
                f"the module changes its buffer {name} when it is called, so U depends on earlier calls. Leave that "
                "out of forward, or use adjust=False"
            )
    return None


def first_output(module: nn.Module, x: Tree, like: Tensor) -> object:
    """The module's output for a few inputs; refuses those that it cannot be called on.

    Args:
        module: The module, with its own weights.
        x: The first few inputs.
        like: A tensor whose precision and device real inputs take.
    """
    with torch.no_grad(), evaluating(module):
        try:
            return called(module, None, in_precision_of(like, x))
        except Exception as error:
            raise BadInput(f"the module cannot be called on the first rows of x: {error}") from error


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Within this block the module is in evaluation mode; after it, each layer is as it was."""
    with alone_in(module):
        modes = [(layer, layer.training) for layer in module.modules()]
        module.eval()
        try:
            yield
        finally:
            for layer, training in modes:
                layer.training = training


def batchnorm_trains(module: nn.Module) -> bool:
    """Whether the module has BatchNorm layers in training mode."""
    return any(normalises_over_batch(layer) and layer.training for layer in module.modules())


def settle_batchnorm(module: nn.Module, call: Callable[[], Tree]) -> None:
    """Give BatchNorm the statistics of one call: those it has may belong to other weights."""
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    kept = [(layer.training, layer.momentum) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.training, layer.momentum = True, None
    call()
    for layer, (training, momentum) in zip(layers, kept, strict=True):
        layer.training, layer.momentum = training, momentum
