"""What the figures of all experiments share: their style, how they are saved, and the command line."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from ggmc.errors import BadInput

Size = TypeVar("Size")

# Okabe and Ito's colours, which colour-blind readers can tell apart. Markers and lines differ as well.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE, GREY = "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#777777"

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
    "errorbar.capsize": 2,
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
    "legend.handlelength": 2.6,
}


def styled(draw: Callable[[dict[str, Any], Path], None]) -> Callable[[dict[str, Any], Path], None]:
    """A decorator: what the function draws has the common style.

    Args:
        draw: Draws and saves the figure of some numbers in a folder.
    """

    @functools.wraps(draw)
    def with_style(numbers: dict[str, Any], out: Path) -> None:
        with plt.rc_context(STYLE):
            draw(numbers, out)

    return with_style


def save(figure: Any, path: Path) -> None:
    """A figure as PDF, for papers, and as PNG, for screens.

    Args:
        figure: Of matplotlib.
        path: Without an ending.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for ending in (".pdf", ".png"):
        figure.savefig(f"{path}{ending}", dpi=150)
    plt.close(figure)


def write_numbers(folder: Path, numbers: Mapping[str, Any]) -> None:
    """Every number of a figure, as numbers.json.

    Args:
        folder: Where the figures are.
        numbers: By name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "numbers.json").write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n")


def size_named(name: str, sizes: Mapping[str, Size]) -> Size:
    """One of the sizes of an experiment; another name is refused.

    Args:
        name: Of the size.
        sizes: By name.
    """
    if name not in sizes:
        raise BadInput(f"size must be one of {', '.join(sizes)}, got {name!r}")
    return sizes[name]


def command(main: Callable[..., Path], description: str | None) -> None:
    """Run an experiment from the command line.

    Args:
        main: The experiment.
        description: What `--help` says.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="small", help="tiny, small or full")
    parser.add_argument("--out", type=Path, help="the folder of figures and numbers")
    given = parser.parse_args()
    print(main(given.size) if given.out is None else main(given.size, given.out))
