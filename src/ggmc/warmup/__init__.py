"""Warm-up: tunes step size, mass, trajectory length and batch size, then fixes them for all draws."""

from ggmc.warmup.warmup import Warmup

__all__ = ["Warmup"]
