"""What the samplers here have in common: a `torch.optim.Optimizer` whose parameters, momentum and noise are one vector
each.

    U(θ) = num_data · (mean loss) + num_data · weight_decay/2 · |θ|²,      π(θ) ∝ exp(−U(θ)/T)

`weight_decay` is `torch.optim.SGD`'s: a Gaussian prior of variance 1/(num_data · weight_decay), at temperature 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ggmc.errors import BadInput, require_seed
from ggmc.kernels import KernelSettings
from ggmc.optim.chain import Chain
from ggmc.optim.flat import Flat
from ggmc.optim.groups import Given, as_group, as_groups, require_one_vector
from ggmc.optim.integrator import Integrator
from ggmc.optim.settings import Settings
from ggmc.optim.trajectory import Trajectory, layers_to_check
from ggmc.plain import PlainDict


class Sampler(torch.optim.Optimizer):
    """Steps, groups and their state.

    Args:
        parameters: A module, parameters, or parameter groups with their own "lr" and "weight_decay".
        integrator: How a step moves the chain.
        seed: Of the noise; None for one drawn from torch's own generator.
        settings: Those of all groups that have none of their own.
    """

    def __init__(self, parameters: Given, integrator: Integrator, seed: int | None, **settings: Any):
        if seed is not None:
            require_seed("seed", seed)
        self._complete = False
        self._integrator = integrator
        self._module = parameters if isinstance(parameters, nn.Module) else None
        groups = as_groups(parameters)
        Settings.of([settings | group for group in groups], integrator.euler)
        super().__init__(groups, settings)
        self._flat = Flat([p for group in groups for p in group["params"]])
        generator = torch.Generator(self._flat.values.device)
        # Like a DataLoader's, the seed comes from torch's own generator, so that torch.manual_seed is enough.
        generator.manual_seed(int(torch.randint(2**62, (), device="cpu")) if seed is None else seed)
        self._chain = Chain(self._flat.values, [_size(group) for group in groups], generator)
        self._total_loss: Tensor | None = None  # over all data, float64, where the chain is; None while not known
        self._trajectory: Trajectory | None = None
        self._complete = True

    @property
    def momenta(self) -> Tensor:
        """The momentum as one vector, in units in which its distribution is N(0, temperature) in every group.

        Writing to it changes the chain: do so between trajectories.
        """
        return self._chain.momentum

    @property
    def parameters(self) -> list[Tensor]:
        """The parameters that are sampled."""
        return list(self._flat.parameters)

    @property
    @torch.no_grad()
    def potential(self) -> float | None:
        """U where the chain is, weight decay included; None while it is not known."""
        if self._total_loss is None:
            return None
        return float(self._total_loss + self._chain.prior(self._settings()))

    @property
    def kernel(self) -> KernelSettings:
        """The settings, as they are stored with draws."""
        now = self._settings()
        numbers = {"num_data": now.num_data, "temperature": now.temperature, "step_size": now.step_size}
        numbers |= {"lr": list(now.rates), "momentum": now.momentum, "weight_decay": list(now.weight_decays)}
        return KernelSettings(f"ggmc.optim.{self._kind()}", numbers)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step, with the gradient of the *mean* loss over a batch where the parameters are.

        Args:
            closure: Computes the loss and its gradient, if that is not done yet.

        Returns:
            What the closure returned.
        """
        loss = None
        if closure is not None:
            if not callable(closure):
                raise BadInput(f"closure must be a function that computes the loss, got {closure!r}")
            with torch.enable_grad():
                loss = closure()
        now, trajectory, chain = self._settings(), self._trajectory, self._chain
        self._require_can_step()
        self._check_for_outside_changes(now)
        gradient = self._flat.gather()
        if trajectory is None:
            self._total_loss = None
        else:
            trajectory.count_step(now)
            if self._integrator.needs_last_gradient:
                self._flat.mark_gradients()
        chain.pay_friction(now.temperature)
        self._integrator.step(chain, chain.force(gradient, now), now, trajectory)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients. A parameter that then gets none counts as one of gradient zero.

        Args:
            set_to_none: Whether to remove them, rather than fill them with zeros.
        """
        if set_to_none:
            for parameter in self._flat.parameters:
                parameter.grad = None
        else:
            super().zero_grad(set_to_none)

    @torch.no_grad()
    def add_param_group(self, param_group: PlainDict) -> None:
        """Sample more parameters, whose momentum is drawn afresh; between trajectories.

        Args:
            param_group: "params", and, where they are to differ, "lr" and "weight_decay".
        """
        if not self._complete:  # torch's own constructor calls this for each group
            super().add_param_group(param_group)
            return
        if self._trajectory is not None:
            raise BadInput("a trajectory is under way, on which no parameter can be added: end_trajectory() first")
        group = as_group(param_group, len(self.param_groups))
        self._check_for_outside_changes(self._settings())
        require_one_vector([*self._flat.parameters, *group["params"]])
        now = Settings.of([*self.param_groups, self.defaults | group], self._integrator.euler)
        super().add_param_group(group)
        self._integrator.go_back(self._chain)
        self._integrator.forget()
        self._flat = Flat([*self._flat.parameters, *group["params"]])
        self._chain = self._chain.extend(self._flat.values, _size(group), now.temperature)
        self._total_loss = None

    def _settings(self) -> Settings:
        return Settings.of(self.param_groups, self._integrator.euler)

    def _require_can_step(self) -> None:
        self._integrator.require_can_step(self._trajectory)

    def _check_for_outside_changes(self, now: Settings) -> None:
        """Notice what other code did to parameters and settings since the last call."""
        written = self._flat.reclaim()
        if self._trajectory is not None:
            self._trajectory.check(now, written)
        elif written:  # the parameters were put where the chain is to be
            self._total_loss = None
            self._integrator.forget()

    def state_dict(self) -> PlainDict:
        """Everything needed to go on bit for bit, generator and open trajectory included; not the parameters."""
        flat, chain, trajectory = self._flat, self._chain, self._trajectory
        packed: PlainDict = super().state_dict()
        packed["sampler"] = {
            "kind": self._kind(),
            "momentum": [view.clone() for view in flat.views(chain.momentum)],
            "momentum_before_friction": [view.clone() for view in flat.views(chain.momentum_before_friction)]
            if trajectory
            else None,
            "generator": chain.generator.get_state(),
            "owed": chain.owed,
            "integrator": self._integrator.to_dict(),
            "total_loss": None if self._total_loss is None else self._total_loss.clone(),
            "trajectory": trajectory.to_dict(flat) if trajectory else None,
        }
        return packed

    @torch.no_grad()
    def load_state_dict(self, state_dict: PlainDict) -> None:
        """Restore a saved state. The parameters are loaded into the module, before this or after.

        Args:
            state_dict: The result of `state_dict()` of a sampler with the same settings.
        """
        if not isinstance(state_dict, Mapping):
            raise BadInput(f"a state must be the dict that state_dict() gave, got {type(state_dict).__name__}")
        packed = state_dict.get("sampler")
        if packed is None or packed["kind"] != self._kind():
            kind = "another optimiser" if packed is None else packed["kind"]
            raise BadInput(f"this is the state of {kind}, not of {self._kind()}: load it into one of its own kind")
        super().load_state_dict(state_dict)
        flat, chain, trajectory, loss = self._flat, self._chain, packed["trajectory"], packed["total_loss"]
        chain.momentum.copy_(flat.join(packed["momentum"]))
        if packed["momentum_before_friction"] is not None:
            chain.momentum_before_friction.copy_(flat.join(packed["momentum_before_friction"]))
        chain.generator.set_state(packed["generator"].cpu())
        chain.owed = packed["owed"]
        self._integrator.load(packed["integrator"])
        self._total_loss = None if loss is None else loss.to(chain.position.device, copy=True)
        layers = layers_to_check(self._module)
        self._trajectory = None if trajectory is None else Trajectory.from_dict(trajectory, flat, layers)
        flat.trust()

    def _kind(self) -> str:
        return type(self).__name__

    def __getstate__(self) -> PlainDict:
        raise BadInput("a sampler cannot be copied or pickled: save its state_dict() and the module's")


def _size(group: PlainDict) -> int:
    return sum(parameter.numel() for parameter in group["params"])
