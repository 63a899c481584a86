"""Warm-up: nobody tunes by hand. Then everything freezes."""

from ggmc.warmup.warmup import Warmup

__all__ = ["Warmup"]
