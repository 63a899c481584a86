"""Figures as SVG that is part of the page: its text is text, its colours are the page's own, light or dark.

Colours are drawn as placeholders and become CSS variables; ids that nothing refers to are left out, and the others get
a prefix, so that they are unique on the page. The SVG is changed as a tree, never as text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.5, 2.7  # inches; at the width of a phone the text is still large enough to read
POINTS = 2000  # of all lines in a figure together, at most
LINES = 24  # chains drawn, at most

INK, RULE, MUTED = "#010101", "#020202", "#030303"
CHAINS = ["#0a0a01", "#0a0a02", "#0a0a03", "#0a0a04", "#0a0a05", "#0a0a06"]
VARIABLES = {INK: "var(--ink)", RULE: "var(--rule)", MUTED: "var(--muted)"} | {
    colour: f"var(--c{number})" for number, colour in enumerate(CHAINS)
}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ggmc",
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.unicode_minus": True,
    "text.color": INK,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "path.simplify": True,
}


def colour_of(number: int) -> str:
    """The colour of a chain or a series."""
    return CHAINS[number % len(CHAINS)]


@contextmanager
def figure(width: float = WIDTH, height: float = HEIGHT) -> Iterator[Figure]:
    """A figure in the page's style, to be drawn within this block.

    Args:
        width: In inches.
        height: Likewise.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Figure((width, height), layout="constrained")


def as_svg(drawn: Figure, prefix: str) -> str:
    """A figure as an SVG element for the page, without a name; the page gives it one.

    Args:
        drawn: The figure.
        prefix: Of its ids: letters, digits and "-".
    """
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _plain(child.tag) in ("metadata", "style", "title"):
                parent.remove(child)
    referred = set(re.findall(r"#([\w-]+)", " ".join(v for e in root.iter() for v in e.attrib.values())))
    for element in root.iter():
        element.tag = _plain(element.tag)
        given = {_plain(name): value for name, value in element.attrib.items()}
        element.attrib.clear()
        for name, value in given.items():
            if name == "id" and value not in referred:
                continue
            element.set(name, f"{prefix}-{value}" if name == "id" else _value(name, value, prefix))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("focusable", "false")
    return ElementTree.tostring(root, encoding="unicode")


def spread(length: int, most: int) -> np.ndarray:
    """At most so many of the numbers 0 … length − 1, evenly spread, the first and the last among them.

    Args:
        length: Of what is thinned.
        most: Points.
    """
    return (
        np.unique(np.linspace(0, length - 1, max(2, min(length, most))).round().astype(int)) if length else np.arange(0)
    )


def _plain(name: object) -> str:
    """A name without its namespace, as HTML wants it."""
    return str(name).rpartition("}")[2]


def _value(name: str, value: str, prefix: str) -> str:
    if name in ("d", "points", "transform", "x", "y", "viewBox", "cx", "cy", "r"):
        return re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.1f}", value)
    value = re.sub(r"(^|url\()#([\w-]+)", rf"\1#{prefix}-\2", value) if name in ("href", "clip-path") else value
    if name == "style":
        value = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", value)
        value = re.sub(r"font-family: [^;]*;?", "", value)
    for placeholder, variable in VARIABLES.items():
        value = value.replace(placeholder, variable)
    return value
