"""A module's parameters as the rows of a trace, where no posterior says more about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import torch
from torch import Tensor, nn

from ggmc.bayes.posterior import Posterior
from ggmc.errors import BadInput
from ggmc.plain import Tree
from ggmc.targets.base import Target
from ggmc.targets.layout import Layout

NO_DENSITY = "a training loop keeps its density to itself: give the Collector a ggmc.Posterior of the same module"


class ModuleValues(Target):
    """Names and values of parameters, without a density.

    Args:
        named: The parameters that are sampled, by name.

    Example:
        >>> import torch
        >>> from ggmc.optim.module_values import ModuleValues
        >>> net = torch.nn.Linear(2, 1)
        >>> ModuleValues.of(net, list(net.parameters())).layout
        Layout(weight: (1, 2), bias: (1,); d = 3)
    """

    def __init__(self, named: Mapping[str, Tensor]):
        self._named = dict(named)
        layout = Layout({name: parameter.shape for name, parameter in named.items()})
        start = layout.flatten({name: parameter.detach() for name, parameter in named.items()})
        super().__init__(layout, start, not_exact=NO_DENSITY, untransformed=named)

    @classmethod
    def of(cls, module: nn.Module, sampled: Sequence[Tensor]) -> ModuleValues:
        """The sampled parameters of a module.

        Args:
            module: The module.
            sampled: Some of its parameters.
        """
        if not isinstance(module, nn.Module):
            raise BadInput(f"module must be the torch.nn.Module that is trained, got {module!r}")
        wanted = {id(parameter) for parameter in sampled}
        named = {name: parameter for name, parameter in module.named_parameters() if id(parameter) in wanted}
        if len(named) < len(wanted):
            raise BadInput(f"the optimiser samples {len(wanted)} parameters, of which the module has {len(named)}")
        return cls(named)

    def now(self) -> dict[str, Tensor]:
        """The parameters' present values, by name."""
        return {name: parameter.detach() for name, parameter in self._named.items()}

    def as_in(self, posterior: Posterior) -> Posterior:
        """The posterior, if it is one of these parameters and of nothing else.

        Args:
            posterior: Of the same module.
        """
        if not isinstance(posterior, Posterior):
            raise BadInput(f"posterior must be a ggmc.Posterior of the same module, got {posterior!r}")
        theirs, ours = posterior.layout.shapes, self.layout.shapes
        if dict(theirs) != dict(ours):
            other = sorted(set(theirs) ^ set(ours)) or sorted(name for name in ours if ours[name] != theirs[name])
            raise BadInput(
                f"the posterior is one of other unknowns than the optimiser samples: {', '.join(other)}. Use the same "
                "module, priors without unknown scales, and known noise"
            )
        return posterior

    def constrain(self, position: Tensor) -> dict[str, Tensor]:
        return self.layout.views(position)

    def unconstrain(self, values: Tree) -> Tensor:
        return self.layout.flatten(values)

    def potential(self, position: Tensor, limit: Tensor | None = None) -> NoReturn:
        raise BadInput(NO_DENSITY)

    def potential_and_gradient(self, position: Tensor) -> NoReturn:
        raise BadInput(NO_DENSITY)

    def starts(self, chains: int, generator: torch.Generator) -> NoReturn:
        raise BadInput(NO_DENSITY)
