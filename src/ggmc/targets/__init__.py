"""Targets: what is sampled, π(θ) ∝ exp(−U(θ)/T), as a potential U of one flat row per chain."""

from ggmc.targets.base import Advice, DataTarget, PredictiveTarget, Target
from ggmc.targets.layout import Layout

__all__ = ["Advice", "DataTarget", "Layout", "PredictiveTarget", "Target"]
