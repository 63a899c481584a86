"""What a page is put together from: sections with paragraphs, figures, tables and code."""

from __future__ import annotations

from dataclasses import dataclass, field

Texts = list[tuple[str, str]]
"""Commands, code or files to be shown, each after a sentence that says what it is."""


@dataclass(frozen=True)
class Picture:
    """A figure with the sentence that says what is seen in it.

    Args:
        svg: The drawing.
        label: What it shows, for those who cannot see it.
        caption: The finding.
    """

    svg: str
    label: str
    caption: str


@dataclass(frozen=True)
class Table:
    """Rows of text.

    Args:
        caption: What it shows.
        head: Names of the columns; the first column has the names of the rows.
        rows: One text for each column.
        numbers: Whether all but the first column are numbers, set flush right.
    """

    caption: str
    head: list[str]
    rows: list[list[str]]
    numbers: bool = True


@dataclass
class Section:
    """A part of the page.

    Args:
        key: A short name, unique within a run.
        title: The heading.
        paragraphs: The text before the figures.
        pictures: Figures.
        tables: Tables, below the figures.
        pairs: Names and values.
        code: Sentences, each with the code it is about.
        notes: Sentences in small letters at the end.
    """

    key: str
    title: str
    paragraphs: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    code: Texts = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
