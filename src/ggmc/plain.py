"""What is stored of an object, in JSON, TOML or a checkpoint: text, numbers, None, tensors; lists and dicts of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Tree = Any
"""Tensors, in tuples, lists and dicts."""

PlainDict = dict[str, Any]
"""By name."""

PlainMapping = Mapping[str, Any]
"""The same, to be read only."""
