"""Layers that behave differently in training: what they do to exactness, and how they predict."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ggmc.bayes.data_checks import called
from ggmc.bayes.random_layers import normalises_over_batch, restless_layers, restless_now


def not_exact_because_of(module: nn.Module) -> str | None:
    """The layer that makes the module's output random, or dependent on the rest of the batch; with the fix."""
    for name, layer in restless_layers(module):
        if not restless_now(layer):
            continue
        where = f"the layer {name or 'itself'} ({type(layer).__name__})"
        if normalises_over_batch(layer):
            or_eval = "module.eval() to fix its statistics, " if layer.training else ""
            return (
                f"{where} normalises over the batch, so U is not a sum over examples. Use "
                f"ggmc.replace_batchnorm(module), {or_eval}or adjust=False"
            )
        return (
            f"{where} throws dice at every look, so U is not a function of the parameters. Use module.eval(), or "
            "adjust=False"
        )
    return None


def changed_buffer(module: nn.Module, arguments: Any) -> str | None:
    """The buffer that the module writes to when called, if there is one: then U depends on what was asked before."""
    probe = copy.deepcopy(module)
    before = {name: buffer.clone() for name, buffer in probe.named_buffers()}
    with torch.no_grad():
        called(probe, None, arguments)
    for name, buffer in probe.named_buffers():
        if name not in before or not torch.equal(buffer, before[name]):
            return (
                f"the module changes its buffer {name} when it is called, so U depends on what was asked before. Leave "
                "that out of forward, or use adjust=False"
            )
    return None


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Within this block the module is in evaluation mode; after it, each layer is as it was."""
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


def settle_batchnorm(module: nn.Module, call: Callable[[], Any]) -> None:
    """Give BatchNorm the statistics of one call: those it has may belong to other weights."""
    layers: list[Any] = [layer for layer in module.modules() if normalises_over_batch(layer)]
    kept = [(layer.training, layer.momentum) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.training, layer.momentum = True, None
    call()
    for layer, (training, momentum) in zip(layers, kept, strict=True):
        layer.training, layer.momentum = training, momentum
