"""The documentation runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(name: str) -> list[str]:
    return BLOCK.findall((DOCS / name).read_text())


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("extending.md", 6),  # a target, a guide, an augmentation, two samplers, a store
        ("runs.md", 5),
        ("datasets.md", 4),
        ("report.md", 3),
    ],
)
def test_every_block_runs(name: str, least: int) -> None:
    names: dict[str, Any] = {"__name__": name}
    examples = blocks(name)
    assert len(examples) >= least
    for number, block in enumerate(examples, start=1):
        exec(compile(block, f"docs/{name}, block {number}", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("block", blocks("extending.md"), ids=lambda block: re.findall(r"class (\w+)", block)[-1])
def test_each_example_is_short(block: str) -> None:
    assert len(block.splitlines()) <= 60
