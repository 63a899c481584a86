"""Any torch log density as a target, and what targets on named values share."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from ggmc.errors import BadInput, Condition, NotExact, require_not_negative
from ggmc.plain import Tree
from ggmc.targets.base import Advice, Target
from ggmc.targets.batched import OverChains, can_be_vectorised, no_validation, row_by_row_if_singular
from ggmc.targets.layout import Constraints, Coordinates, Parameters

log = logging.getLogger("ggmc")


class NamedTarget(Target):
    """What targets on the user's named values share; each adds its own potential.

    Args:
        start: One value of every parameter, on the user's scale: a tensor, or a dict of tensors.
        constraints: Where each parameter may lie.
        jitter: The largest distance of a chain's first position from the start, in each coordinate, unconstrained.
        not_exact: As in `Target`.
        stops_early: As in `Target`.
        advice: As in `Target`.
    """

    vectorise: bool | None
    """Whether all chains run at once; None where that is decided by size."""

    def __init__(
        self,
        start: Parameters,
        constraints: Constraints,
        jitter: float,
        *,
        not_exact: str | None,
        stops_early: bool = False,
        advice: Advice | None = None,
    ):
        require_not_negative("jitter", jitter)
        self.jitter = float(jitter)
        self.coordinates = Coordinates(start, constraints)
        super().__init__(
            self.coordinates.layout,
            self.coordinates.start,
            not_exact=not_exact,
            stops_early=stops_early,
            advice=advice,
            untransformed=[name for name in self.coordinates.layout.shapes if self.coordinates.is_free(name)],
        )

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self.coordinates.constrain(position)

    def unconstrain(self, values: Parameters) -> Tensor:
        """The user's values as rows: {name: [..., *shape]} -> [..., d]."""
        return self.coordinates.unconstrain(values)

    def check_again(self) -> None:
        for function in self._over_chains():
            function.check_again()

    @abstractmethod
    def _over_chains(self) -> Sequence[OverChains]:
        """The functions of one chain, of which there may be records."""

    def starts(self, chains: int, generator: torch.Generator) -> Tensor:
        spread = torch.full((chains, 1), self.jitter, dtype=self.dtype, device=self.device)
        return self.around(self.start.expand(chains, -1), spread, generator)

    def around(self, centres: Tensor, spread: Tensor, generator: torch.Generator) -> Tensor:
        """Rows drawn uniformly around others of finite potential: at most `spread` [chains, 1] away, or less.

        Only where a chain starts is chosen by its potential, which does not bias the chain.
        """
        noise = torch.rand(centres.shape, generator=generator, dtype=self.dtype, device=self.device) * 2 - 1
        for _ in range(30):
            position = centres + spread * noise
            bad = ~self.is_finite(position)
            if not bad.any():
                return position
            spread[bad] /= 2
        return centres + 0 * noise

    def is_finite(self, position: Tensor) -> Tensor:
        """Whether potential and gradient of each row are finite: [chains]."""
        potential, gradient = self.potential_and_gradient(position)
        return potential.isfinite() & gradient.isfinite().all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.coordinates})"


class Density(NamedTarget):
    """Any torch log density of one tensor or of a dict of tensors.

    Args:
        log_prob: The log density of one chain's values, a scalar, up to a constant. It sees values in the form of
            `start`, and is vectorised over chains with `torch.func.vmap` where that is possible.
        start: Values inside the support, a tensor or a dict of tensors (NumPy arrays and floats become tensors). They
            give names, shapes, precision and device. Use float64: rounding in U is error in the test.
        constraints: A constraint or transform of `torch.distributions` for each name that has one; for a single tensor,
            the one. The Jacobian is added for you. Default: none.
        jitter: Each chain starts at `start` plus uniform noise of at most this size, on the unconstrained scale.
            Default: 1.

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
        log_prob: Callable[[Tree], Tensor],
        start: Parameters,
        constraints: Constraints = None,
        jitter: float = 1.0,
    ):
        super().__init__(start, constraints, jitter, not_exact=None)  # a random log_prob is refused below
        require_function("log_prob", log_prob)
        self.log_prob = log_prob
        with no_validation():
            check_scalar("log_prob", log_prob, self.coordinates)
            check_gradients("log_prob", log_prob, self.coordinates)
            check_start("log_prob", self._potential_of_row, self.coordinates)
            for row in probes(self.coordinates):
                if not torch.equal(*(self._potential_of_row(self.layout.views(row)).nan_to_num() for _ in range(2))):
                    raise NotExact(
                        "log_prob gave two values at the same point: it must be deterministic (no dropout, no random "
                        "draws)",
                        Condition.POTENTIAL,
                    )
        row = self.coordinates.start
        self.vectorise = can_be_vectorised("log_prob", self._potential_of_row, self.layout, row, (), ())
        self._rows = OverChains(self._potential_of_row, self.layout, (), self.vectorise)

    def potential(self, position: Tensor, limit: Tensor | None = None) -> Tensor:
        with torch.no_grad(), no_validation():
            return row_by_row_if_singular(lambda rows: (self._rows(rows),), position)[0]

    def potential_and_gradient(self, position: Tensor) -> tuple[Tensor, Tensor]:
        with no_validation():
            potential, gradient = row_by_row_if_singular(self._rows.with_gradient, position)
            return potential, gradient

    def _over_chains(self) -> Sequence[OverChains]:
        return [self._rows]

    def _potential_of_row(self, free: dict[str, Tensor]) -> Tensor:
        values, log_jacobian = self.coordinates.values(free)
        return -(self.log_prob(values).double() + log_jacobian)


# What would go wrong later is refused now


def require_function(what: str, given: object) -> None:
    """Refuse what cannot be called."""
    if not callable(given):
        raise BadInput(f"{what} must be a function that returns a torch tensor, got {given!r}")


@contextmanager
def noting_dtype(what: str, coordinates: Coordinates) -> Iterator[None]:
    """An error of the user's function says with what it was called: data in another precision are a common cause."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"{what} was called at the start: {coordinates}, {coordinates.dtype} on {coordinates.device}. What it "
            "computes with must have shapes, precision and device that go with these."
        )
        raise


def probes(coordinates: Coordinates) -> list[Tensor]:
    """Rows to check at: the start, and one beside it, since at weights of zero dropout and the like do not show."""
    generator = torch.Generator("cpu").manual_seed(0)
    noise = torch.randn(coordinates.layout.size, generator=generator, device="cpu").to(coordinates.start)
    return [coordinates.start, coordinates.start + 0.1 * noise]


def check_scalar(what: str, function: Callable[[Tree], Tree], coordinates: Coordinates) -> None:
    """Refuse a log density that does not return a scalar."""
    with noting_dtype(what, coordinates):
        result = function(coordinates.values(coordinates.layout.views(coordinates.start))[0])
    if not isinstance(result, Tensor):
        raise BadInput(f"{what} must return a scalar torch tensor, got {type(result).__name__}")
    if result.shape != ():
        raise BadInput(f"{what} must return a scalar, got shape {tuple(result.shape)}: sum its terms")
    check_real(what, result)


def check_real(what: str, result: Tensor) -> None:
    """Refuse whole and complex numbers, of which no gradient can be taken."""
    if not result.is_floating_point():
        raise BadInput(f"{what} must return floating point numbers, got {result.dtype}")


def check_gradients(what: str, function: Callable[[Tree], Tensor], coordinates: Coordinates) -> None:
    """Refuse a log density that does not depend on all of its parameters, or hides from torch that it does."""
    for name in without_gradient(what, function, coordinates):
        if coordinates.is_free(name):
            raise BadInput(f"{what} does not depend on {name}, so its density cannot be normalised: remove it")


def without_gradient(what: str, function: Callable[[Tree], Tensor], coordinates: Coordinates) -> list[str]:
    """The parameters that a function does not depend on. Refuses one that depends on them without torch's knowledge."""
    values = {n: v.detach().requires_grad_() for n, v in coordinates.constrain(coordinates.start).items()}
    result = function(coordinates.as_given(values))
    gradients: tuple[Tensor | None, ...] = (None,) * len(values)
    idle: list[str] = []
    if result.requires_grad:
        gradients = torch.autograd.grad(result, list(values.values()), allow_unused=True)
    for name, gradient in zip(values, gradients, strict=True):
        if gradient is not None:
            continue
        free = coordinates.layout.views(coordinates.start.clone())
        free[name].add_(0.1)
        moved = {key: value.detach() for key, value in values.items()}
        changed = function(coordinates.as_given(moved | {name: coordinates.transforms[name](free[name])}))
        if changed.item() != result.item():
            raise BadInput(
                f"{what} depends on {name} but has no gradient in it: it leaves torch's graph (detach, item, numpy?)"
            )
        idle.append(name)
    return idle


def check_start(what: str, potential_of_row: Callable[[dict[str, Tensor]], Tensor], coordinates: Coordinates) -> None:
    """Refuse a start where the potential or its gradient is not finite."""
    row = coordinates.start.clone().requires_grad_()
    potential = potential_of_row(coordinates.layout.views(row))
    if not potential.isfinite():
        raise BadInput(f"{what} is {-potential.item()} at the start: give a start inside the support")
    (gradient,) = torch.autograd.grad(potential, row)
    if not gradient.isfinite().all():
        where = coordinates.layout.locate(int((~gradient.isfinite()).nonzero()[0]))
        raise BadInput(f"the gradient of {what} is not finite in {where} at the start: move the start")
