"""A module's parameters as one vector.

The parameters are rebound to views of one contiguous vector, so that each move of a sampler is one or two vector
operations whatever the number of tensors. The module does not notice: names, shapes, memory formats and `state_dict()`
stay as they were. Gradients are left wherever autograd puts them, and gathered at each step: that is as fast as having
them accumulate into one vector, and somebody may set them to None, replace them or clip them.

Others may write to the parameters too: a projection in place, `load_state_dict`, `p.data = ...`. Version counters and
addresses tell (`reclaim`), because a write to the vector moves neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ggmc.errors import BadInput


def trainable(given: nn.Module | Iterable[Tensor]) -> list[Tensor]:
    """The parameters to sample: each once, none that is frozen.

    Example:
        >>> from torch import nn
        >>> from ggmc.optim.flat import trainable
        >>> net = nn.Linear(3, 2)
        >>> net.bias.requires_grad_(False)
        Parameter containing: ...
        >>> [tuple(p.shape) for p in trainable([net.weight, net.bias, net.weight])]
        [(2, 3)]
    """
    if isinstance(given, Tensor):
        raise BadInput("expected a module or several parameters, got a single tensor: put it in a list")
    named = given.named_parameters() if isinstance(given, nn.Module) else enumerate(given)
    found: dict[int, Tensor] = {}
    for name, parameter in named:
        if not isinstance(parameter, Tensor):
            raise BadInput(
                f"parameter {name} is a {type(parameter).__name__}: give a module or plain parameters. All share one "
                "learning rate, so there are no groups"
            )
        if is_lazy(parameter):
            raise BadInput(f"parameter {name} has no shape yet: run a batch through the module first")
        if not parameter.is_floating_point():
            raise BadInput(
                f"parameter {name} has dtype {parameter.dtype}: only real numbers can be sampled, leave it out"
            )
        if parameter.requires_grad:
            found[id(parameter)] = parameter
            _check(name, parameter, next(iter(found.values())))
    if not found:
        raise BadInput("no parameter requires a gradient, so there is nothing to sample: unfreeze some")
    chosen = list(found.values())
    if len({p.data_ptr() for p in chosen if p.numel()}) < sum(p.numel() > 0 for p in chosen):
        raise BadInput("two different parameters share their memory: tie them by using one Parameter in both places")
    return chosen


def _check(name: str | int, parameter: Tensor, first: Tensor) -> None:
    if not parameter.is_leaf:
        raise BadInput(f"parameter {name} is computed from others: sample those that it is computed from")
    if parameter.dtype not in (torch.float32, torch.float64):
        raise BadInput(
            f"parameter {name} has dtype {parameter.dtype}, too coarse to retrace a step: keep parameters in float32 "
            "and compute in low precision with torch.autocast"
        )
    if (parameter.dtype, parameter.device) != (first.dtype, first.device):
        raise BadInput(
            f"parameter {name} is {parameter.dtype} on {parameter.device}, but the first is {first.dtype} on "
            f"{first.device}: all must be alike"
        )


class Flat:
    """Parameters and their gradients as one vector each.

    Example:
        >>> import torch
        >>> from ggmc.optim.flat import Flat
        >>> net = torch.nn.Linear(3, 2)
        >>> flat = Flat(list(net.parameters()))
        >>> flat.values.zero_().shape
        torch.Size([8])
        >>> net.bias                                  # the module sees what was written to the vector
        Parameter containing: tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, parameters: Sequence[Tensor]):
        self.parameters = list(parameters)
        # `empty_like` keeps the strides of what is dense, such as channels_last, and makes the rest contiguous.
        self._strides = [torch.empty_like(p).stride() for p in self.parameters]
        self.values = torch.cat([p.detach().new_zeros(p.numel()) for p in self.parameters])
        self._gradient = torch.zeros_like(self.values)
        self._views = self.views(self.values)
        self._gradient_views = self.views(self._gradient)
        self.trust()
        self.reclaim()

    def views(self, vector: Tensor) -> list[Tensor]:
        """A vector as tensors of the parameters' shapes; writing to one writes to the other."""
        parts: list[Tensor] = []
        place = 0
        for parameter, strides in zip(self.parameters, self._strides, strict=True):
            parts.append(vector.as_strided(parameter.shape, strides, place))
            place += parameter.numel()
        return parts

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of the parameters' shapes as a new vector."""
        vector = torch.zeros_like(self.values)
        for view, tensor in zip(self.views(vector), tensors, strict=True):
            if view.shape != tensor.shape:
                raise BadInput(f"expected a tensor of shape {tuple(view.shape)}, got {tuple(tensor.shape)}")
            view.copy_(tensor)
        return vector

    def gather(self) -> Tensor:
        """All gradients as one vector, the same one at each call. A parameter without one did not enter the loss."""
        gradients = [p.grad for p in self.parameters]
        if any(gradient is None for gradient in gradients):
            gradients = self._with_zeros(gradients)
        torch._foreach_copy_(self._gradient_views, gradients)  # pyright: ignore
        return self._gradient

    def _with_zeros(self, gradients: list[Tensor | None]) -> list[Tensor | None]:
        if all(gradient is None for gradient in gradients):
            raise BadInput("no parameter has a gradient: call loss.backward() before step()")
        for parameter in self.parameters:
            if not parameter.requires_grad:
                raise BadInput(
                    f"a parameter of shape {tuple(parameter.shape)} was frozen after the optimiser was made, but would "
                    "go on moving: make a new optimiser"
                )
        return [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, gradients, strict=True)]

    def trust(self) -> None:
        """Take the parameters as they are at the next `reclaim`, without asking who wrote them."""
        self._marks: list[tuple[int, int]] | None = None

    def reclaim(self) -> bool:
        """Did somebody else write to the parameters since the last call? What left the vector is brought back."""
        marks = [(p.data_ptr(), p._version) for p in self.parameters]
        if marks == self._marks:
            return False
        for parameter, view in zip(self.parameters, self._views, strict=True):
            if (parameter.dtype, parameter.device, parameter.shape) != (view.dtype, view.device, view.shape):
                raise BadInput(
                    f"a parameter became {parameter.dtype} on {parameter.device} of shape {tuple(parameter.shape)} "
                    f"after the optimiser was made with {view.dtype} on {view.device} of shape {tuple(view.shape)}: "
                    "move the module first, then make the optimiser"
                )
            if parameter.data_ptr() != view.data_ptr() or parameter.stride() != view.stride():
                view.copy_(parameter.detach().clone())
                parameter.data = view
        known = self._marks is not None
        self._marks = [(p.data_ptr(), p._version) for p in self.parameters]
        return known
