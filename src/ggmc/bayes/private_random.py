"""Private random numbers for code that takes no generator, such as torch.distributions.

Distributions and layers of torch draw from its global generators. Within `seeded`, every random operation of this
thread draws from a private generator instead: the global ones are neither read nor changed, so that other threads, and
the program around, see nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ggmc.errors import require_seed
from ggmc.plain import PlainDict

# The overloads that take a generator, of operations that come without
WITH_GENERATOR: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "default": ("generator", lambda operation: operation.generator),
    "low": ("low_generator", lambda operation: operation.low_generator),
}


class seeded(TorchDispatchMode):  # noqa: N801 (used like a function)
    """Within this block, random operations draw from a generator that starts from a seed.

    Args:
        seed: The seed.
        device: Where most numbers are drawn.

    Example:
        >>> import torch
        >>> from ggmc.bayes.private_random import seeded
        >>> def draw():
        ...     with seeded(0, torch.device("cpu")):
        ...         return torch.distributions.Normal(0.0, 1.0).sample((3,))
        >>> before = torch.get_rng_state()
        >>> torch.equal(draw(), draw()), torch.equal(before, torch.get_rng_state())
        (True, True)
    """

    def __init__(self, seed: int, device: torch.device):
        super().__init__()
        require_seed("seed", seed)
        self._seed = seed
        self._generators = {device: torch.Generator(device).manual_seed(seed)}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in function.tags and kwargs.get("generator") is None:
            wanted = self._taking_a_generator(function)
            if wanted is not None:
                function, kwargs["generator"] = wanted, self._generator(args, kwargs)
        return function(*args, **kwargs)

    @staticmethod
    def _taking_a_generator(function: Any) -> Any:
        if any(argument.name == "generator" for argument in function._schema.arguments):
            return function
        name, overload = WITH_GENERATOR.get(function._overloadname, ("", None))
        operation = function.overloadpacket
        return overload(operation) if overload is not None and name in operation.overloads() else None

    def _generator(self, args: Any, kwargs: PlainDict) -> torch.Generator:
        tensors = (leaf.device for leaf in tree_leaves(args) if isinstance(leaf, Tensor))
        device = kwargs.get("device") or next(tensors, torch.device("cpu"))
        device = torch.device(device)
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


def global_states(device: torch.device) -> list[Tensor]:
    """The states of torch's own generators that code on a device draws from."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]


def set_global_states(device: torch.device, states: list[Tensor]) -> None:
    """Put these generators back.

    Args:
        device: The device.
        states: From `global_states`, perhaps on another device.
    """
    torch.set_rng_state(states[0])
    if device.type == "cuda" and len(states) > 1:
        torch.cuda.set_rng_state(states[1], device)
