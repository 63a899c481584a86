"""HTML pages as tests read them: is every tag closed, is every picture named, what is the text?"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """What is on a page. A tag that is not closed in its turn is an error."""

    def __init__(self, path: Path):
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.unnamed: list[str] = []
        """Pictures that have no name and are not hidden from those who cannot see them."""
        self.words: list[str] = []
        self.feed(self.source)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs), f"an attribute twice: {attrs}"
        self.tags.append((tag, given))
        if tag in ("svg", "img"):
            around = [one for _, one in self.open] + [given]
            named = any(one.get("role") == "img" and one.get("aria-label") for one in around)
            if not named and not any(one.get("aria-hidden") == "true" for one in around):
                self.unnamed.append(str(given))
        if tag not in VOID:
            self.open.append((tag, given))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        opened, _ = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1][0] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def headings(self) -> list[int]:
        return [int(tag[1]) for tag, _ in self.tags if re.fullmatch(r"h[1-6]", tag)]

    def values(self, attribute: str) -> list[str]:
        return [given[attribute] or "" for _, given in self.tags if attribute in given]
