"""Parsed HTML of pages, and of pieces of them."""

from html.parser import HTMLParser
from pathlib import Path

_EMPTY = ("meta", "input", "br")


class Parsed(HTMLParser):
    """Well-formed HTML.

    Attributes:
        text: its text content.
        elements: tag and attributes of each element; comments count as elements.
        texts: by tag, the text content of each element.
        rows: the text of the cells of tables, by row.

    """

    def __init__(self, html: str | Path) -> None:
        super().__init__()
        self.text, self.elements, self.texts, self.rows = "", [], {}, []
        self.open: list[str] = []
        self.feed(html.read_text(encoding="utf-8") if isinstance(html, Path) else html)
        self.close()
        assert not self.open
        self.tags = [tag for tag, _ in self.elements]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in _EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert tag in _EMPTY or self.open.pop() == tag

    def handle_comment(self, data):
        self.elements.append(("comment", {}))

    def handle_data(self, data):
        self.text += data
        for tag in set(self.open):
            self.texts[tag][-1] += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
