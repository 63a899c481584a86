"""The target: what is sampled, π(θ) ∝ exp(−U(θ)/T), and its potential U.

One convention, said once: the potential U(θ) = −log density is summed over all data, prior and Jacobian included, and
is float64, whatever the precision in which `log_prob` itself adds up. Chains move in an unconstrained space; `log_prob`
sees, and traces report, constrained values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributions import Distribution, Transform, biject_to
from torch.distributions.constraints import Constraint
from torch.distributions.transforms import identity_transform
from torch.linalg import LinAlgError  # pyright: ignore[reportAttributeAccessIssue]

from ggmc.errors import BadInput, require_not_negative
from ggmc.space import Space

log = logging.getLogger("ggmc")

Parameters = Tensor | dict[str, Tensor]

ONLY_NAME = "theta"  # what a target given as one tensor calls it in a trace


class Target(Protocol):
    """What guides, kernels and the chain loop need of a target."""

    space: Space
    dtype: torch.dtype
    device: torch.device

    def potential(self, position: Tensor) -> Tensor:
        """U of each row: [chains, d] -> [chains] float64."""
        ...

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """U and ∇U of each row: [chains, d] -> [chains] float64 and [chains, d]."""
        ...

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        """Rows as the user's named values: [..., d] -> {name: [..., *shape]}."""
        ...

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        """Where each chain begins: [chains, d], every row of finite potential and gradient."""
        ...


class Density:
    """Any torch log density of one tensor or of a dict of tensors.

    `log_prob` is written for one chain and returns a scalar, constants left out if you like; it is vectorised over
    chains with `torch.func.vmap` (chain by chain, with a notice, where it cannot be). `start` gives names, shapes,
    precision and device. Each chain starts at it plus uniform noise of ±`jitter` on the unconstrained scale, so that R̂
    has something to compare. `constraints` maps names to `torch.distributions` constraints or transforms (for a single
    tensor it is one); the Jacobian is added for you. Give `start` in float64: rounding in U is error in the test.

    Example:
        >>> import torch, ggmc
        >>> from torch.distributions import Normal, HalfNormal, constraints
        >>> y = torch.tensor([1.2, 0.7, 1.9], dtype=torch.float64)
        >>> def log_prob(p):
        ...     prior = Normal(0, 5).log_prob(p["mu"]) + HalfNormal(2).log_prob(p["sigma"])
        ...     return prior + Normal(p["mu"], p["sigma"]).log_prob(y).sum()
        >>> one = torch.ones((), dtype=torch.float64)
        >>> target = ggmc.Density(log_prob, {"mu": one, "sigma": one}, {"sigma": constraints.positive})
        >>> target
        Density(mu: (), sigma: (); d = 2)
        >>> target.potential(torch.zeros(3, 2)).shape            # three chains at once
        torch.Size([3])
    """

    def __init__(
        self,
        log_prob: Callable[[Any], Tensor],
        start: Parameters,
        constraints: Constraint | Transform | Mapping[str, Constraint | Transform] | None = None,
        jitter: float = 1.0,
    ):
        require_not_negative("jitter", jitter)
        self.log_prob = log_prob
        self.jitter = float(jitter)
        self._one_tensor = isinstance(start, Tensor)
        named = _named_start(start)
        self._transforms = _transforms(named, constraints, self._one_tensor)
        unconstrained = {name: self._transforms[name].inv(value) for name, value in named.items()}
        self._constrained_shapes = {name: value.shape for name, value in named.items()}
        self.space = Space({name: value.shape for name, value in unconstrained.items()})
        self._start = self.space.flatten(unconstrained).detach()
        self.dtype, self.device = self._start.dtype, self._start.device
        self._check_start()
        self._rows = self._vectorised()

    def potential(self, position: Tensor) -> Tensor:
        with torch.no_grad(), _no_validation():
            return self._evaluate(lambda rows: (self._rows(rows),), position)[0]

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        with _no_validation():
            potential, gradient = self._evaluate(self._rows_and_gradient, position)
            return potential, gradient

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return {name: self._transforms[name](value) for name, value in self.space.views(position).items()}

    def unconstrain(self, values: Parameters) -> Tensor:
        """The user's values as rows: {name: [..., *shape]} -> [..., d]."""
        named = {ONLY_NAME: values} if isinstance(values, Tensor) else values
        if set(named) != set(self._transforms):
            raise BadInput(f"expected values for {sorted(self._transforms)}, got {sorted(named)}")
        return self.space.flatten({name: self._transforms[name].inv(value) for name, value in named.items()})

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        shape = (chains, self.space.size)
        noise = torch.rand(shape, generator=generator, dtype=self.dtype, device=self.device) * 2 - 1
        spread = torch.full((chains, 1), self.jitter, dtype=self.dtype, device=self.device)
        # Only where a chain begins is chosen by looking, which biases nothing; the start itself is known to be finite.
        for _ in range(30):
            position = self._start + spread * noise
            potential, gradient = self.potential_and_gradient(position)
            bad = ~(potential.isfinite() & gradient.isfinite().all(-1))
            if not bad.any():
                return position
            spread[bad] /= 2
        return self._start + 0 * noise

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {tuple(shape)}" for name, shape in self._constrained_shapes.items())
        return f"{type(self).__name__}({inside}; d = {self.space.size})"

    # The user's function, for one row

    def _potential_of_row(self, row: Tensor) -> Tensor:
        free = self.space.views(row)
        values = {name: self._transforms[name](value) for name, value in free.items()}
        total = self.log_prob(values[ONLY_NAME] if self._one_tensor else values).double()
        for name, transform in self._transforms.items():
            if transform is not identity_transform:
                total = total + transform.log_abs_det_jacobian(free[name], values[name]).double().sum()
        return -total

    # ... and for all rows

    def _vectorised(self) -> Callable[[Tensor], Tensor]:
        rows = torch.func.vmap(self._potential_of_row)
        try:
            with torch.no_grad(), _no_validation():
                rows(self._start.expand(2, -1))
            return rows
        except Exception as error:  # whatever vmap cannot do, a loop can
            log.warning("log_prob cannot be vectorised, so chains run one after another: %s", str(error).split("\n")[0])
            return lambda position: torch.stack([self._potential_of_row(row) for row in position])

    def _rows_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        position = position.detach().requires_grad_()
        with torch.enable_grad():
            potential = self._rows(position)
            (gradient,) = torch.autograd.grad(potential.sum(), position)
        return potential.detach(), gradient

    def _evaluate(self, function: Callable[[Tensor], tuple[Tensor, ...]], position: Tensor) -> tuple[Tensor, ...]:
        try:
            return function(position)
        except LinAlgError:
            if len(position) > 1:  # one chain's singular matrix must not stop the others
                each = [self._evaluate(function, row[None]) for row in position]
                return tuple(map(torch.cat, zip(*each, strict=False)))
            # The density is zero where its own linear algebra does not exist.
            nowhere = torch.full((1,), torch.inf, dtype=torch.float64, device=self.device)
            return nowhere, torch.full_like(position, torch.nan)

    # What would go wrong later is refused now

    def _check_start(self) -> None:
        with _no_validation():
            self._check_log_prob()
            row = self._start.clone().requires_grad_()
            potential = self._potential_of_row(row)
            if not potential.isfinite():
                raise BadInput(f"log_prob is {-potential.item()} at the start: give a start inside the support")
            (gradient,) = torch.autograd.grad(potential, row)
            if not gradient.isfinite().all():
                where = self.space.locate(int((~gradient.isfinite()).nonzero()[0]))
                raise BadInput(f"the gradient of log_prob is not finite in {where} at the start: move the start")
            if self._potential_of_row(self._start).item() != potential.item():
                raise BadInput(
                    "log_prob gave two values at the same point: it must be deterministic (no dropout, no random draws)"
                )

    def _check_log_prob(self) -> None:
        values = {name: value.detach().requires_grad_() for name, value in self.constrain(self._start).items()}
        result = self.log_prob(values[ONLY_NAME] if self._one_tensor else values)
        if not isinstance(result, Tensor):
            raise BadInput(f"log_prob must return a scalar torch tensor, got {type(result).__name__}")
        if result.shape != ():
            raise BadInput(f"log_prob must return a scalar, got shape {tuple(result.shape)}: sum its terms")
        gradients: tuple[Tensor | None, ...] = (None,) * len(values)
        if result.requires_grad:
            gradients = torch.autograd.grad(result, list(values.values()), allow_unused=True)
        for name, gradient in zip(values, gradients, strict=True):
            if gradient is None:
                self._explain_missing_gradient(name, values, result)

    def _explain_missing_gradient(self, name: str, values: dict[str, Tensor], result: Tensor) -> None:
        free = self.space.views(self._start.clone())
        free[name].add_(0.1)
        moved = {key: value.detach() for key, value in values.items()} | {name: self._transforms[name](free[name])}
        changed = self.log_prob(moved[ONLY_NAME] if self._one_tensor else moved)
        if changed.item() != result.item():
            raise BadInput(
                f"log_prob depends on {name} but has no gradient in it: it leaves torch's graph (detach, item, numpy?)"
            )
        if self._transforms[name] is identity_transform:
            raise BadInput(f"log_prob does not depend on {name}, so its density cannot be normalised: remove it")


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
    constraints: Constraint | Transform | Mapping[str, Constraint | Transform] | None,
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


@contextmanager
def _no_validation() -> Iterator[None]:
    """Let torch.distributions answer NaN or −∞ outside its support: that is a rejection, not an error."""
    before = Distribution._validate_args  # pyright: ignore[reportPrivateUsage]
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
