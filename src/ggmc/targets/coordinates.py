"""The user's named values <-> unconstrained rows.

Chains move in an unconstrained space; the user's functions see, and traces report, constrained values. `Coordinates` is
the way from one to the other, with the Jacobian that a density picks up on the way.

Example:
    >>> import torch
    >>> from torch.distributions import constraints
    >>> from ggmc.targets.coordinates import Coordinates
    >>> sigma = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> coordinates = Coordinates({"sigma": sigma}, {"sigma": constraints.positive})
    >>> coordinates.start                                        # the logarithms
    tensor([0.0000, 0.6931], dtype=torch.float64)
    >>> values, log_jacobian = coordinates.values(coordinates.space.views(coordinates.start))
    >>> values["sigma"], log_jacobian
    (tensor([1., 2.], dtype=torch.float64), tensor(0.6931, dtype=torch.float64))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Transform, biject_to
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import identity_transform

from ggmc.errors import BadInput
from ggmc.targets.layout import Space

Parameters = Tensor | dict[str, Tensor]
Constraints = Constraint | Transform | Mapping[str, Constraint | Transform] | None

ONLY_NAME = "theta"  # what a target given as one tensor calls it in a trace


class Coordinates:
    """Names, shapes, constraints, precision and device, all read off a start."""

    def __init__(self, start: Parameters, constraints: Constraints = None):
        self._one_tensor = isinstance(start, Tensor)
        named = _named_start(start)
        self.transforms = _transforms(named, constraints, self._one_tensor)
        unconstrained = {name: self.transforms[name].inv(value) for name, value in named.items()}
        self._shapes = {name: value.shape for name, value in unconstrained.items()}
        self._constrained_shapes = {name: value.shape for name, value in named.items()}
        self.space = Space(self._shapes)
        self.start = self.space.flatten(unconstrained).detach()
        self.dtype, self.device = self.start.dtype, self.start.device

    def values(self, free: dict[str, Tensor]) -> tuple[Any, Tensor]:
        """What the user's functions see of one row's unconstrained tensors, and the log Jacobian, float64."""
        values = {name: self.transforms[name](value) for name, value in free.items()}
        log_jacobian = torch.zeros((), dtype=torch.float64, device=self.device)
        for name, transform in self.transforms.items():
            if transform is not identity_transform:
                log_jacobian = log_jacobian + transform.log_abs_det_jacobian(free[name], values[name]).double().sum()
        return self.as_given(values), log_jacobian

    def as_given(self, values: dict[str, Any]) -> Any:
        """Things by name in the form of the start: a dict, or the one."""
        return values[ONLY_NAME] if self._one_tensor else values

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        """Rows as named values: [..., d] -> {name: [..., *shape]}."""
        return {name: self.transforms[name](value) for name, value in self.space.views(position).items()}

    def unconstrain(self, values: Parameters) -> Tensor:
        """Named values as rows: {name: [..., *shape]} -> [..., d]."""
        named = {ONLY_NAME: values} if isinstance(values, Tensor) else values
        if set(named) != set(self.transforms):
            raise BadInput(f"expected values for {sorted(self.transforms)}, got {sorted(named)}")
        return self.space.flatten({name: self.transforms[name].inv(value) for name, value in named.items()})

    def is_free(self, name: str) -> bool:
        """Whether a name has no constraint, and so no Jacobian."""
        return self.transforms[name] is identity_transform

    def __str__(self) -> str:
        inside = ", ".join(f"{name}: {tuple(shape)}" for name, shape in self._constrained_shapes.items())
        return f"{inside}; d = {self.space.size}"


def _named_start(start: Parameters) -> dict[str, Tensor]:
    named = {ONLY_NAME: start} if isinstance(start, Tensor) else dict(start)
    if not named:
        raise BadInput("start must hold at least one tensor, got an empty dict")
    for name, value in named.items():
        if not isinstance(value, Tensor):
            raise BadInput(f"start must be a tensor or a dict of tensors, got {type(value).__name__} for {name}")
        if not value.is_floating_point():
            raise BadInput(f"start must be floating point, got {value.dtype} for {name}: use .double()")
        if not value.isfinite().all():
            where = Space({name: value.shape}).locate(int((~value.isfinite()).flatten().nonzero()[0]))
            raise BadInput(f"start must be finite, got {value[~value.isfinite()][0].item()} in {where}")
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
) -> dict[str, Any]:
    if isinstance(constraints, Constraint | Transform):
        if not one_tensor:
            raise BadInput("constraints must be a dict of name: constraint where start is a dict")
        constraints = {ONLY_NAME: constraints}
    constraints = dict(constraints or {})
    unknown = sorted(set(constraints) - set(start))
    if unknown:
        raise BadInput(f"constraints name {unknown}, which start does not have; it has {sorted(start)}")
    transforms: dict[str, Transform] = dict.fromkeys(start, identity_transform)
    for name, constraint in constraints.items():
        transform: Any = constraint if isinstance(constraint, Transform) else _bijection(name, constraint)
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
    while hasattr(transform, "base_transform"):  # `real_vector` wraps the identity to say how many dimensions it joins
        transform = getattr(transform, "base_transform")  # noqa: B009
    return transform == identity_transform
