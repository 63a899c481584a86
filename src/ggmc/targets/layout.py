"""Named tensors <-> one flat row per chain.

All chains' parameters live in one contiguous [chains, d] tensor, so that every move of the sampler is one or two vector
operations whatever the number of tensors. `Space` remembers which columns belong to which name.

Example:
    >>> import torch
    >>> from ggmc.targets.layout import Space
    >>> space = Space({"weight": (2, 3), "bias": (2,)})
    >>> flat = torch.zeros(4, space.size)
    >>> space.views(flat)["bias"].fill_(1.0).shape
    torch.Size([4, 2])
    >>> flat.sum()                                   # the view wrote into the row: nothing was copied
    tensor(8.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ggmc.errors import BadInput


class Space:
    """The layout of one chain's row: names, shapes and columns, in the order given."""

    def __init__(self, shapes: Mapping[str, Sequence[int]]):
        self.shapes = {name: torch.Size(shape) for name, shape in shapes.items()}
        self.columns: dict[str, slice] = {}
        stop = 0
        for name, shape in self.shapes.items():
            start, stop = stop, stop + math.prod(shape)
            self.columns[name] = slice(start, stop)
        self.size = stop

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """[..., d] as {name: [..., *shape]}: views, so writing to one writes to the other."""
        leading = flat.shape[:-1]
        # One split, whose gradient is one concatenation: slices would each have a gradient as long as the row.
        parts = flat.split([shape.numel() for shape in self.shapes.values()], dim=-1)
        return {
            name: part.view(leading + shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def flatten(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """{name: [..., *shape]} as a new [..., d]."""
        if set(tensors) != set(self.shapes):
            raise BadInput(f"expected the tensors {sorted(self.shapes)}, got {sorted(tensors)}")
        parts: list[Tensor] = []
        for name, shape in self.shapes.items():
            tensor = tensors[name]
            leading = tensor.dim() - len(shape)
            if leading < 0 or tensor.shape[leading:] != shape:
                raise BadInput(f"{name} must end in shape {tuple(shape)}, got {tuple(tensor.shape)}")
            parts.append(tensor.reshape((*tensor.shape[:leading], shape.numel())))
        return torch.cat(parts, dim=-1)

    def locate(self, column: int) -> str:
        """The name of one column, as in `weight[1, 2]`, for messages that must say which."""
        name = next(name for name, columns in self.columns.items() if columns.start <= column < columns.stop)
        index: list[int] = []
        offset = column - self.columns[name].start
        for length in reversed(self.shapes[name]):
            offset, place = divmod(offset, length)
            index.insert(0, place)
        return f"{name}[{', '.join(map(str, index))}]" if index else name

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {tuple(shape)}" for name, shape in self.shapes.items())
        return f"Space({inside}; d = {self.size})"
