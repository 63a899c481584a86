"""Traces: the draws of a run, where they are stored, and what they say about themselves."""

from ggmc.trace.store import Block, MemoryStore, Store

__all__ = ["Block", "MemoryStore", "Store"]
