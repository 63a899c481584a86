"""What a kernel refuses, because the Metropolis test would not make its chain exact."""

from __future__ import annotations

from typing import Any

from ggmc.dynamics import length as lengths
from ggmc.dynamics.mass import Mass, as_mass
from ggmc.dynamics.scheme import Scheme
from ggmc.errors import NotExact, require_count, require_not_negative, require_positive
from ggmc.guides import Field
from ggmc.guides.minibatch import known_size
from ggmc.guides.orders import ORDERS, check_reversible
from ggmc.targets.base import Target


def refuse_if_not_exact(kernel: Any, target: Target, field: Field) -> None:
    """Refuse a test that would not make the chain exact."""
    if not kernel.adjust:
        return
    reason = getattr(target, "not_exact", None)
    if reason is not None:
        raise NotExact(f"the Metropolis test would not be exact: {reason}.")
    if field.order is None:
        return
    if not field.order.reversible:
        raise NotExact(
            f"the tape {field.order.name!r} has another law read backwards, so a trajectory cannot be retraced: use "
            "order='palindrome', 'epoch' or 'iid', or adjust=False"
        )
    if field.order not in ORDERS.values():
        for steps in _some_lengths(*lengths.ends(lengths.in_steps(kernel.steps, field))):
            check_reversible(field.order, Scheme(kernel.scheme).plan(steps).gradients, field.epoch)


def check_unadjusted(kernel: Any) -> None:
    """Refuse settings that no biased sampler can have."""
    require_positive("step_size", kernel.step_size)
    require_not_negative("temperature", kernel.temperature)
    require_count("monitor_every", kernel.monitor_every)
    lengths.check(kernel.steps)
    known_size(getattr(kernel.guide, "size", 1))
    if kernel.mass is not None:
        object.__setattr__(kernel, "mass", as_mass(kernel.mass))


def _some_lengths(least: int, most: int, number: int = 8) -> list[int]:
    """Both ends and some in between: a law may be reversible at one length and not at another."""
    return sorted({least + (most - least) * i // (number - 1) for i in range(number)})


class Unchanged:
    """Sees to it that mass and anchors stay as they were: adapting them while sampling would void exactness."""

    def __init__(self, mass: Mass, field: Field):
        self._mass, self._field = mass, field
        self._known = self._now()

    def check(self) -> None:
        if self._now() != self._known:
            raise NotExact(
                "the mass, or the anchor of the control variates, was changed after the kernel was bound: what adapts "
                "while sampling voids exactness. Bind the kernel again, and throw away the draws up to there"
            )

    def _now(self) -> list[tuple[int, int]]:
        matrix = getattr(self._mass, "matrix", None)
        tensors = [*self._field.frozen(), *([] if matrix is None else [matrix])]
        return [(id(tensor), tensor._version) for tensor in tensors]
