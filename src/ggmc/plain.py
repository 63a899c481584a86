"""PlainDict: what is stored of an object, in JSON or a checkpoint, by name: text, numbers, None, tensors, and lists and
dicts of them.
"""

from __future__ import annotations

from typing import Any

PlainDict = dict[str, Any]
