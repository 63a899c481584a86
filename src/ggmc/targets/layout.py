"""Named tensors <-> one flat row per chain.

All chains' parameters live in one contiguous [chains, d] tensor, so that every move of the sampler is one or two vector
operations whatever the number of tensors. `Layout` remembers which columns belong to which name.

Example:
    >>> import torch
    >>> from ggmc.targets.layout import Layout
    >>> layout = Layout({"weight": (2, 3), "bias": (2,)})
    >>> flat = torch.zeros(4, layout.size)
    >>> layout.views(flat)["bias"].fill_(1.0).shape
    torch.Size([4, 2])
    >>> flat.sum()                                   # the view wrote into the row: nothing was copied
    tensor(8.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Transform, biject_to
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import IndependentTransform, identity_transform

from ggmc.errors import BadInput
from ggmc.plain import PlainDict


class Layout:
    """The layout of one chain's row: names, shapes and columns, in the order given.

    Args:
        shapes: The shape of each tensor, by name.

    Example:
        >>> from ggmc.targets import Layout
        >>> Layout({"weight": (2, 3), "bias": (2,)}).size
        8
    """

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
        return f"Layout({inside}; d = {self.size})"


Value = Tensor | np.ndarray | np.floating[Any] | float

Parameters = Value | Mapping[str, Value]
"""What a user gives as values: one tensor, array or number, or a dict of them by name."""
Constraints = Constraint | Transform | Mapping[str, Constraint | Transform] | None

ONLY_NAME = "theta"  # what a target given as one tensor calls it in a trace


class Coordinates:
    """The user's named values as unconstrained rows: names, shapes, constraints, precision and device, from a start.

    Args:
        start: One value of every parameter: a tensor, or a dict of tensors; arrays and numbers become tensors.
        constraints: A constraint or transform of `torch.distributions` for each name that has one; for a single tensor,
            the one.

    Example:
        >>> import torch
        >>> from torch.distributions import constraints
        >>> from ggmc.targets.layout import Coordinates
        >>> sigma = torch.tensor([1.0, 2.0], dtype=torch.float64)
        >>> coordinates = Coordinates({"sigma": sigma}, {"sigma": constraints.positive})
        >>> coordinates.start                                        # the logarithms
        tensor([0.0000, 0.6931], dtype=torch.float64)
        >>> values, log_jacobian = coordinates.values(coordinates.layout.views(coordinates.start))
        >>> values["sigma"], log_jacobian
        (tensor([1., 2.], dtype=torch.float64), tensor(0.6931, dtype=torch.float64))
    """

    def __init__(self, start: Parameters, constraints: Constraints = None):
        self._one_tensor = not isinstance(start, Mapping)
        named = _named_start(start)
        self.transforms = _transforms(named, constraints, self._one_tensor)
        unconstrained = {name: self.transforms[name].inv(value) for name, value in named.items()}
        self._shapes = {name: value.shape for name, value in unconstrained.items()}
        self._constrained_shapes = {name: value.shape for name, value in named.items()}
        self.layout = Layout(self._shapes)
        self.start = self.layout.flatten(unconstrained).detach()
        self.dtype, self.device = self.start.dtype, self.start.device

    def values(self, free: dict[str, Tensor]) -> tuple[Any, Tensor]:
        """What the user's functions see of one row's unconstrained tensors, and the log Jacobian, float64."""
        values = {name: self.transforms[name](value) for name, value in free.items()}
        log_jacobian = torch.zeros((), dtype=torch.float64, device=self.device)
        for name, transform in self.transforms.items():
            if transform is not identity_transform:
                log_jacobian = log_jacobian + transform.log_abs_det_jacobian(free[name], values[name]).double().sum()
        return self.as_given(values), log_jacobian

    def as_given(self, values: PlainDict) -> Any:
        """Things by name in the form of the start: a dict, or the one."""
        return values[ONLY_NAME] if self._one_tensor else values

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        """Rows as named values: [..., d] -> {name: [..., *shape]}."""
        return {name: self.transforms[name](value) for name, value in self.layout.views(position).items()}

    def unconstrain(self, values: Parameters) -> Tensor:
        """Named values as rows: {name: [..., *shape]} -> [..., d]."""
        given = values if isinstance(values, Mapping) else {ONLY_NAME: values}
        if set(given) != set(self.transforms):
            raise BadInput(f"expected values for {sorted(self.transforms)}, got {sorted(given)}")
        named = as_tensors("values", given, self.start)
        rows = self.layout.flatten({name: self.transforms[name].inv(value) for name, value in named.items()})
        return rows.to(self.device, self.dtype)  # only now: what is near a border is rounded least on this scale

    def is_free(self, name: str) -> bool:
        """Whether a name has no constraint, and so no Jacobian."""
        return self.transforms[name] is identity_transform

    def __str__(self) -> str:
        inside = ", ".join(f"{name}: {tuple(shape)}" for name, shape in self._constrained_shapes.items())
        return f"{inside}; d = {self.layout.size}"


def as_tensors(what: str, values: Mapping[str, Value], like: Tensor | None = None) -> dict[str, Tensor]:
    """Values by name as tensors: tensors as they are, arrays in their own precision.

    Args:
        what: What they are called in messages.
        values: Tensors, NumPy arrays or floats.
        like: A tensor whose precision and device plain numbers take, and whose device arrays take. By default the first
            tensor among the values; if there is none, numbers are float64, and on the CPU.
    """
    if like is None:
        like = next((value for value in values.values() if isinstance(value, Tensor)), None)
    device = torch.device("cpu") if like is None else like.device
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, float) and not isinstance(value, np.floating):
            value = torch.tensor(value, dtype=torch.float64 if like is None else like.dtype, device=device)
        elif isinstance(value, np.ndarray | np.generic):
            try:
                value = torch.tensor(value, device=device)  # a copy: the user may go on to change theirs
            except TypeError as error:
                raise BadInput(f"{what} must be floating point, got an array of {value.dtype} for {name}") from error
        if not isinstance(value, Tensor):
            raise BadInput(
                f"{what} must be a tensor, a NumPy array or a float, or a dict of these, got {type(value).__name__} "
                f"for {name}"
            )
        found[name] = value
    return found


def _named_start(start: Parameters) -> dict[str, Tensor]:
    named = as_tensors("start", start if isinstance(start, Mapping) else {ONLY_NAME: start})
    if not named:
        raise BadInput("start must hold at least one tensor, got an empty dict")
    for name, value in named.items():
        if not isinstance(name, str):
            raise BadInput(f"start must have text as names, got {name!r}")
        if value.layout != torch.strided or value.device.type == "meta":
            raise BadInput(
                f"start must be ordinary tensors with values, got {value.layout} on {value.device} for {name}"
            )
        if not value.is_floating_point():
            raise BadInput(f"start must be floating point, got {value.dtype} for {name}: use .double()")
        if not value.isfinite().all():
            where = Layout({name: value.shape}).locate(int((~value.isfinite()).flatten().nonzero()[0]))
            raise BadInput(f"start must be finite, got {value[~value.isfinite()][0].item()} in {where}")
    if not sum(value.numel() for value in named.values()):
        raise BadInput(
            f"start must hold at least one number, got tensors of shape {[list(v.shape) for v in named.values()]}"
        )
    first = next(iter(named.values()))
    for name, value in named.items():
        if (value.dtype, value.device) != (first.dtype, first.device):
            raise BadInput(
                f"all of start must have one dtype and device, got {first.dtype} on {first.device} and "
                f"{value.dtype} on {value.device} for {name}"
            )
    return {name: value.detach() for name, value in named.items()}


def _transforms(
    start: dict[str, Tensor],
    constraints: Constraints,
    one_tensor: bool,
) -> PlainDict:
    if isinstance(constraints, Constraint | Transform):
        if not one_tensor:
            raise BadInput("constraints must be a dict of name: constraint where start is a dict")
        constraints = {ONLY_NAME: constraints}
    if constraints is not None and not isinstance(constraints, Mapping):
        raise BadInput(f"constraints must be a constraint or transform, or a dict of these, got {constraints!r}")
    constraints = dict(constraints or {})
    unknown = sorted(set(constraints) - set(start))
    if unknown:
        raise BadInput(f"constraints name {unknown}, which start does not have; it has {sorted(start)}")
    transforms: dict[str, Transform] = dict.fromkeys(start, identity_transform)
    for name, constraint in constraints.items():
        transform: Any = constraint if isinstance(constraint, Transform) else _bijection(name, constraint)
        if not transform.bijective:
            raise BadInput(f"the transform of {name} must be a bijection, got {transform}")
        allowed = transform.codomain if isinstance(constraint, Transform) else constraint
        # A value on the border of its constraint passes the check but lies at infinity on the unconstrained scale.
        if not allowed.check(start[name]).all() or not transform.inv(start[name]).isfinite().all():
            raise BadInput(f"start must lie inside the constraint {allowed} of {name}, got {start[name].tolist()}")
        transforms[name] = transform
    return transforms


def _bijection(name: str, constraint: Constraint) -> Transform:
    try:
        transform = biject_to(constraint)
    except NotImplementedError as error:
        raise BadInput(
            f"torch has no bijection onto the constraint {constraint} of {name}: give a torch.distributions Transform"
        ) from error
    return identity_transform if _is_identity(transform) else transform


def _is_identity(transform: Transform) -> bool:
    while isinstance(transform, IndependentTransform):  # `real_vector` wraps the identity, to join its dimensions
        transform = transform.base_transform
    return transform == identity_transform
