"""Guides: the gradient fields that drive the motion. Exactness does not depend on them; acceptance does.

A guide is an immutable dataclass of settings; `bind(target)` makes the field that kicks evaluate.

A new guide is one file with a `Guide` and its `GradientField`, and an entry in `GUIDES`, from which stored kernels are
read back. A guide that reads minibatches is a `BatchGuide`. An `Augmentation` changes the examples of minibatches.
"""

from __future__ import annotations

from ggmc.guides.augmentation import Augmentation
from ggmc.guides.base import BatchGuide, GradientField, Guide
from ggmc.guides.control_variate import ControlVariate
from ggmc.guides.exact import Exact
from ggmc.guides.minibatch import Minibatch
from ggmc.guides.orders import CustomOrder, Order
from ggmc.guides.surrogate import Surrogate

__all__ = [
    "GUIDES",
    "Augmentation",
    "BatchGuide",
    "ControlVariate",
    "CustomOrder",
    "Exact",
    "GradientField",
    "Guide",
    "Minibatch",
    "Order",
    "Surrogate",
]

GUIDES: dict[str, type[Guide]] = {guide.__name__: guide for guide in (Exact, Minibatch, ControlVariate, Surrogate)}
