"""The study files of the documentation are valid, and exact."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ggmc.cli.study import tables
from tests.support.command import ROOT, ggmc, study

TEXT = (ROOT / "docs" / "cli.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
TARGET = """
import torch, ggmc

def make():
    return ggmc.Density(lambda x: -(x**2).sum(), torch.zeros(2, dtype=torch.float64))
"""


@pytest.mark.parametrize("block", BLOCKS, ids=range(1, len(BLOCKS) + 1))
def test_every_study_is_exact(block: str, tmp_path: Path) -> None:
    (tmp_path / "target.py").write_text(TARGET)
    done = ggmc("check", study(tmp_path, block))
    assert done.code == 0, done.out + done.err


def test_every_key_is_in_the_table() -> None:
    assert len(BLOCKS) >= 3
    for name, keys in {
        "data": tables.DATA, "model": tables.MODEL, "kernel": tables.KERNEL, "guide": tables.GUIDE, "run": tables.RUN,
    }.items():  # fmt: skip
        row = next(line for line in TEXT.splitlines() if line.startswith(f"| `[{name}]`"))
        missing = [key for key in keys if f"`{key}`" not in row]
        assert not missing, name
