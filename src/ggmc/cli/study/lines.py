"""Where a key stands in a TOML file: Python's own reader gives no positions, which a message needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

Keys = tuple[str, ...]

_KEY = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")


def line_numbers(text: str) -> dict[Keys, int]:
    """The line of each table and key, from 1. Keys inside an inline table are on the line of that table's own key.

    Args:
        text: A file that Python's reader has read without an error.

    Example:
        >>> from ggmc.cli.study.lines import line_numbers
        >>> line_numbers('[kernel]\\nname = "ggmc"\\nover.period = 4\\n[prior."*.bias"]\\nscale = 1.0')
        {('kernel',): 1, ('kernel', 'name'): 2, ('kernel', 'over', 'period'): 3, ('prior', '*.bias'): 4,
        ('prior', '*.bias', 'scale'): 5}
    """
    found: dict[Keys, int] = {}
    table: Keys = ()
    for line, statement in _statements(text):
        header = re.match(r"\s*\[\[?(.*)", statement, re.DOTALL)
        if header:
            table = _dotted(header[1])[0]
            found.setdefault(table, line)
        else:
            found.setdefault(table + _dotted(statement)[0], line)
    return found


def line_of(lines: dict[Keys, int], keys: Keys) -> int | None:
    """The line of a key or, where it is not known, of the table that it is in.

    Args:
        lines: From `line_numbers`.
        keys: The names of the tables and of the key.
    """
    while keys:
        if keys in lines:
            return lines[keys]
        below = [line for known, line in lines.items() if known[: len(keys)] == keys]
        if below:  # a table that is only named by the keys inside it
            return min(below)
        keys = keys[:-1]
    return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each header or key with its value, however many lines it has, and the line where it begins."""
    line, place = 1, 0
    while place < len(text):
        begin = place
        place = _end(text, place)
        statement = text[begin:place]
        empty = len(statement) - len(statement.lstrip())
        if statement.strip() and not statement.lstrip().startswith("#"):
            yield line + statement[:empty].count("\n"), statement
        line += statement.count("\n")


def _end(text: str, place: int) -> int:
    """Where a statement ends: at the end of a line that is inside no text and no brackets."""
    depth = 0
    while place < len(text):
        character = text[place]
        if character in "\"'":
            place = _after_text(text, place)
            continue
        if character == "#":
            ending = text.find("\n", place)
            place = len(text) if ending < 0 else ending
            continue
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        place += 1
        if character == "\n" and depth <= 0:
            return place
    return place


def _after_text(text: str, place: int) -> int:
    """The place after a text that begins here, with one quotation mark or three."""
    quote = text[place]
    mark = quote * 3 if text.startswith(quote * 3, place) else quote
    place += len(mark)
    while place < len(text) and not text.startswith(mark, place):
        place += 2 if text[place] == "\\" and quote == '"' else 1
    place += len(mark)
    while len(mark) == 3 and text.startswith(quote, place):  # a text may end with its own mark
        place += 1
    return place


def _dotted(text: str) -> tuple[Keys, int]:
    """The names of a dotted key at the beginning of a text, and where it ends."""
    names: list[str] = []
    place = 0
    while (match := _KEY.match(text, place)) is not None:
        name = match[1]
        names.append(name[1:-1] if name[0] in "\"'" else name)
        place = match.end()
        if not text.startswith(".", place):
            break
        place += 1
    return tuple(names), place
