"""What a kernel is, and the sampler it becomes once bound to a target.

A kernel is a frozen dataclass of settings, which keeps None where the user said nothing. Bound to a target it becomes a
`Sampler`: `init` makes a state of positions, and `step` takes a state, the numbers of the motion and a generator to the
next state. Most samplers are words over the letters of `ggmc.dynamics.letters`: see `words.py`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, final

import torch
from torch import Tensor

from ggmc.dynamics.exactness import refuse_if_not_exact
from ggmc.dynamics.mass import Identity, Mass, MassLike, as_mass, is_kind
from ggmc.dynamics.state import Info, Parameters, State
from ggmc.errors import BadInput, require_not_negative, require_positive, require_switch
from ggmc.guides.base import BatchGuide, GradientField, Guide
from ggmc.targets.base import DataTarget, Target, require_target

Init = Callable[[Tensor, torch.Generator], State]
Step = Callable[..., tuple[State, Info]]
"""`step(state, generator)`, or `step(state, generator, parameters)` with other numbers of the motion."""


class Sampler(ABC):
    """A kernel bound to a target.

    Args:
        target: What is sampled.
        field: The guide, bound to the target.
        parameters: The numbers of the motion, with the kernel's settings filled in; the step size is NaN while it is
            left to warm-up.
        remarks: Sentences that a reader of the draws should know, for `trace.warnings`.
        adjust: Whether trajectories are tested, as the kernel says. Then a target or field that cannot be tested
            exactly is refused here.
        gradients: Numbers of gradients that a trajectory may take; by default the field's own length.
    """

    def __init__(
        self,
        target: Target,
        field: GradientField,
        parameters: Parameters,
        remarks: Sequence[str] = (),
        *,
        adjust: bool,
        gradients: Sequence[int] | None = None,
    ):
        if adjust:
            refuse_if_not_exact(target, field, (field.default_steps,) if gradients is None else gradients)
        self.target, self.field, self.parameters, self.adjust = target, field, parameters, adjust
        self.remarks = list(remarks)
        self.gradients_per_step = 1
        """What a step costs: more than 1 where a word kicks at several positions in each step."""
        self.early_stop = True
        """Whether potentials may stop where rejection is certain. Warm-up, which needs every log α, says no."""

    @abstractmethod
    def init(self, position: Tensor, generator: torch.Generator) -> State:
        """Positions [chains, d] as a state."""

    @abstractmethod
    def step(self, state: State, parameters: Parameters, generator: torch.Generator) -> tuple[State, Info]:
        """One trajectory of every chain."""


class Kernel(ABC):
    """A sampler's settings: a frozen dataclass with at least these fields."""

    step_size: float | None
    """h; None leaves it to warm-up."""
    guide: Guide
    temperature: float
    mass: MassLike
    adjust: bool
    """Whether trajectories are tested."""

    @abstractmethod
    def sampler(self, target: Target, field: GradientField) -> Sampler:
        """The kernel on a target, with its guide bound already. Refuses what would not be exact."""

    @final
    def bind(self, target: Target) -> tuple[Init, Step]:
        """The functional form, for a loop of your own.

        Args:
            target: What is sampled.

        Returns:
            `init(positions, generator)`, which makes a state, and `step(state, generator)`, which returns the next
            state and an `Info`. `step` takes other numbers of the motion as a third argument, `parameters`.
        """
        require_target(target)
        if self.step_size is None:
            raise BadInput("step_size=None is tuned by ggmc.sample: give a number to bind the kernel by hand")
        target.check_again()
        sampler = self.sampler(target, self.guide.bind(target))

        def step(state: State, generator: torch.Generator, parameters: Parameters | None = None) -> tuple[State, Info]:
            return sampler.step(state, sampler.parameters if parameters is None else parameters, generator)

        return sampler.init, step

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel) or type(other) is not type(self):
            return NotImplemented
        settings = [f.name for f in fields(self)]  # pyright: ignore[reportArgumentType]
        return all(_same(name, vars(self)[name], vars(other)[name]) for name in settings)

    def __hash__(self) -> int:
        return hash((type(self), self.step_size, self.temperature, self.adjust))


def _same(name: str, a: Any, b: Any) -> bool:
    if name == "mass":
        return _known_mass(a) == _known_mass(b)
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):  # JSON does not tell them apart
        return list(a) == list(b)
    return a == b


def _known_mass(mass: MassLike) -> Mass | str | None:
    """A mass in one form, whether as the user gave it or as it was stored."""
    if isinstance(mass, str) and mass == "identity":
        return Identity()
    return mass if mass is None or is_kind(mass) else as_mass(mass)


def require_kernel(kernel: object) -> None:
    """Refuse what is not a kernel."""
    if not isinstance(kernel, Kernel):
        raise BadInput(f"kernel must be a kernel such as ggmc.HMC(), got {kernel!r}")


def check_settings(kernel: Kernel) -> None:
    """Refuse settings that no kernel can have."""
    if kernel.step_size is not None:
        require_positive("step_size", kernel.step_size)
    require_not_negative("temperature", kernel.temperature)
    require_switch("adjust", kernel.adjust)
    if kernel.adjust and kernel.temperature == 0:
        raise BadInput("temperature 0 is optimisation, which has no distribution to test against: use adjust=False")
    if not isinstance(kernel.guide, Guide):
        given = f"the class {kernel.guide.__name__}" if isinstance(kernel.guide, type) else repr(kernel.guide)
        raise BadInput(f"guide must be a guide such as ggmc.Exact() or ggmc.Minibatch(100), got {given}")
    if kernel.step_size is not None and isinstance(kernel.guide, BatchGuide) and kernel.guide.size == "auto":
        raise BadInput('size="auto" is found in warm-up: leave step_size out too, or give a size')
    if is_kind(kernel.mass):
        if kernel.mass != "identity" and kernel.step_size is not None:
            raise BadInput(f"mass={kernel.mass!r} is found in warm-up: leave step_size out too, or give a tensor")
    elif kernel.mass is not None:
        as_mass(kernel.mass)


def check_start(target: Target, position: Tensor, potential: Tensor, gradient: Tensor | None) -> None:
    """Refuse chains that do not start at finite numbers, and say which and where."""
    _check_rows(target, "position", position)
    if not potential.isfinite().all():
        chain = int((~potential.isfinite()).nonzero()[0])
        raise BadInput(
            f"chain {chain} starts at a potential of {potential[chain].item():g}"
            f"{_guilty_example(target, position[chain])}: start inside the support"
        )
    if gradient is not None:
        _check_rows(target, "gradient", gradient)


def _check_rows(target: Target, what: str, rows: Tensor) -> None:
    if not rows.isfinite().all():
        chain, column = (~rows.isfinite()).nonzero()[0].tolist()
        where, value = target.layout.locate(column), rows[chain, column].item()
        raise BadInput(f"chain {chain} starts with a {what} of {value:g} in {where}: start inside the support")


def _guilty_example(target: Target, row: Tensor) -> str:
    """Which example makes the potential of a row not finite, in words; nothing where none does."""
    if not isinstance(target, DataTarget):
        return ""
    terms = target.log_likelihoods(row[None])[0]
    bad = (~terms.isfinite()).nonzero().flatten()
    if not len(bad):
        return ""
    others = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    return f", where example {int(bad[0])}{others} has a log likelihood of {terms[bad[0]].item():g}"


def as_rows(target: Target, position: Tensor) -> Tensor:
    """Positions in the target's precision and on its device; refuses another shape."""
    if not isinstance(position, Tensor) or not position.is_floating_point():
        kind = position.dtype if isinstance(position, Tensor) else type(position).__name__
        raise BadInput(f"positions must be a floating point tensor [chains, {target.layout.size}], got {kind}")
    position = position.detach().to(target.dtype).to(target.device)
    if position.dim() != 2 or position.shape[1] != target.layout.size:
        raise BadInput(f"positions must have shape [chains, {target.layout.size}], got {list(position.shape)}")
    return position


NOT_TUNED = math.nan
"""The step size of a sampler whose warm-up has not yet found one."""
