"""A module's parameters as one vector.

The parameters are rebound to views of one contiguous vector, so that each move of a sampler is one or two vector
operations whatever the number of tensors. The module does not notice: names, shapes, memory formats and `state_dict()`
stay as they were. Gradients are left wherever autograd puts them, and gathered at each step: that is as fast as having
them accumulate into one vector, and other code may set them to None, replace them or clip them.

Other code may write to the parameters too: a projection in place, `load_state_dict`, `p.data = ...`. Version counters
and addresses show it (`reclaim`), because a write to the vector changes neither.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from ggmc.errors import BadInput


class Flat:
    """Parameters and their gradients as one vector each.

    Args:
        parameters: Leaf tensors of one precision on one device, no two of which share memory.

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
        self._used: list[tuple[weakref.ref[Tensor], int]] = []
        self.trust()
        self.reclaim()

    def views(self, vector: Tensor) -> list[Tensor]:
        """A vector as tensors of the parameters' shapes; writing to one writes to the other.

        Args:
            vector: As long as all parameters together.
        """
        parts: list[Tensor] = []
        place = 0
        for parameter, strides in zip(self.parameters, self._strides, strict=True):
            parts.append(vector.as_strided(parameter.shape, strides, place))
            place += parameter.numel()
        return parts

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """Tensors of the parameters' shapes as a new vector.

        Args:
            tensors: One for each parameter.
        """
        vector = torch.zeros_like(self.values)
        for view, tensor in zip(self.views(vector), tensors, strict=True):
            if view.shape != tensor.shape:
                raise BadInput(f"expected a tensor of shape {tuple(view.shape)}, got {tuple(tensor.shape)}")
            view.copy_(tensor)
        return vector

    def gather(self) -> Tensor:
        """All gradients as one vector, the same one at each call. A parameter without one did not enter the loss."""
        gradients = [p.grad for p in self.parameters]
        try:
            torch._foreach_copy_(self._gradient_views, gradients)  # pyright: ignore
        except TypeError:  # some are None, which is rare: to look for them at each step would cost more
            torch._foreach_copy_(self._gradient_views, self._with_zeros(gradients))  # pyright: ignore
        return self._gradient

    def _with_zeros(self, gradients: list[Tensor | None]) -> list[Tensor]:
        if all(gradient is None for gradient in gradients):
            raise BadInput("no parameter has a gradient: call loss.backward() before step()")
        for parameter in self.parameters:
            if not parameter.requires_grad:
                raise BadInput(
                    f"a parameter of shape {tuple(parameter.shape)} was frozen after the optimiser was made, but would "
                    "go on moving: make a new optimiser"
                )
        return [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, gradients, strict=True)]

    def mark_gradients(self) -> None:
        """Remember the present gradients as used."""
        self._used = [(weakref.ref(p.grad), p.grad._version) for p in self.parameters if p.grad is not None]

    def has_new_gradients(self) -> bool:
        """Whether some gradient was computed since `mark_gradients`. A gradient is known by its object and version."""
        used = {id(gradient): version for known, version in self._used if (gradient := known()) is not None}
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        return any(used.get(id(gradient)) != gradient._version for gradient in gradients)

    def trust(self) -> None:
        """Take the parameters as they are at the next `reclaim`, whoever wrote them."""
        self._marks: list[tuple[int, int]] | None = None

    def reclaim(self) -> bool:
        """Bring back into the vector what left it.

        Returns:
            Whether other code wrote to the parameters since the last call.
        """
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
