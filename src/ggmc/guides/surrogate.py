"""Any other log density as a guide: g(θ) = −∇log q(θ). A cheap q that resembles the target is accepted often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.utils._pytree import tree_leaves

from ggmc.errors import BadInput, Condition, NotExact
from ggmc.guides.base import GradientField, Guide
from ggmc.plain import Tree
from ggmc.targets.base import Target
from ggmc.targets.density import Density, NamedTarget


@dataclass(frozen=True)
class Surrogate(Guide):
    """Drive the chain with the gradient of another log density of the same parameters.

    The chain still samples the target, exactly.

    Args:
        log_prob: A function of one chain's values, in the form of the target's start and inside its constraints, that
            returns a scalar: a Laplace approximation, a smaller network, lower precision. It must be deterministic.

    Example:
        >>> import torch, ggmc
        >>> target = ggmc.Density(lambda x: -(x**4 / 4 + x).sum(), torch.zeros(1, dtype=torch.float64))
        >>> guide = ggmc.Surrogate(lambda x: -((x + 0.7) ** 2).sum())
        >>> trace = ggmc.sample(target, ggmc.HMC(guide=guide), progress=False)
        >>> bool(abs(trace["theta"].mean() + 0.6224) < 0.1)            # the target's mean, not the surrogate's
        True
    """

    log_prob: Callable[[Tree], Tensor]

    def __post_init__(self) -> None:
        if not callable(self.log_prob):
            raise BadInput(f"Surrogate needs a log density to call, got {self.log_prob!r}")

    def bind(self, target: Target) -> GradientField:
        if not isinstance(target, NamedTarget):
            raise BadInput(f"Surrogate needs a target on named values, such as ggmc.Density, got {target!r}")
        coordinates = target.coordinates
        start = coordinates.as_given({n: v.detach() for n, v in coordinates.constrain(coordinates.start).items()})

        def log_prob(values: Tree) -> Tensor:  # a guide need not depend on all parameters
            found: object = self.log_prob(values)
            if not isinstance(found, Tensor):
                raise BadInput(f"the log density of a Surrogate must return a torch tensor, got {type(found).__name__}")
            return found + 0 * sum(value.sum() for value in tree_leaves(values))

        try:
            return _SurrogateField(Density(log_prob, start, coordinates.as_given(coordinates.transforms)))
        except NotExact as error:
            raise NotExact(f"in the Surrogate, {error}", Condition.GRADIENT) from error


class _SurrogateField(GradientField):
    """The gradient of another density on the target's coordinates."""

    def __init__(self, density: Density):
        super().__init__(order=None)
        self._density = density

    def __call__(self, position: Tensor, entry: Tensor | None) -> tuple[Tensor, None]:
        return self._density.potential_and_gradient(position)[1], None
